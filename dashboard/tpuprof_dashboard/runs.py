"""Which runs lie below the given paths, and whether they have changed since they were read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tpuprof.run_folder import EXPORT_SUFFIXES, GRAPHS, PROFILE_SUFFIXES
from tpuprof.units import NS_PER_S
from tpuprof_dashboard.security import inside
from tpuprof_dashboard.watched import is_watched

# Names under which profilers write; anything else is found when it is the only thing in a folder.
_SUFFIXES = PROFILE_SUFFIXES + EXPORT_SUFFIXES
# Folders looked at below a watched one: a scan runs every few seconds.
MAX_FOLDERS = 5_000


@dataclass(frozen=True)
class Source:
    """A run by its name in addresses, the file or folder to read, and what may be read for it.

    `changed` is when its files were last written (seconds since 1970).
    """

    name: str
    path: Path
    root: Path
    changed: float = 0.0
    uploaded: bool = False


def sources(given: list[Path]) -> list[Source]:
    """The runs the given paths stand for, the newest first: a file is one, a logdir has one for each capture.

    Captures behind symbolic links that lead out of the given path are left out.
    """
    found: list[Source] = []
    for path in given:
        root = path.resolve()
        captures = _captures(path) if path.is_dir() else []
        kept = [each for each in captures if inside(each, [root])]
        if len(kept) > 1:
            found += [Source(str(each), each, root, _changed(each)) for each in kept]
        elif not path.is_dir() or kept or not (_is_empty(path) or is_watched(path)):
            read = kept[0] if kept else path
            found.append(Source(str(path), read, root, _changed(read)))
    found.sort(key=lambda each: (-each.changed, each.name))
    return list({each.name: each for each in found}.values())


def signature(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of a capture's files: it changes when the capture does."""
    files = [path] if path.is_file() else sorted(each for each in path.glob("*") if each.is_file())
    marks = []
    for each in files:
        try:
            stat = each.stat()
        except OSError:
            continue
        marks.append((each.name, stat.st_size, stat.st_mtime_ns))
    return tuple(marks)


def _changed(path: Path) -> float:
    """When a capture's files were last written (seconds since 1970), 0 where that is unknown."""
    return max((mark[2] for mark in signature(path)), default=0) / NS_PER_S


def _captures(folder: Path) -> list[Path]:
    """Folders below that hold profiles. Symbolic links to folders are not followed."""
    found = []
    for count, (root, folders, names) in enumerate(os.walk(folder)):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != GRAPHS.name)
        if any(name.endswith(_SUFFIXES) for name in names):
            found.append(Path(root))
        if count > MAX_FOLDERS:
            break
    return sorted(found)


def _is_empty(folder: Path) -> bool:
    return not any(each.is_file() for each in folder.rglob("*"))
