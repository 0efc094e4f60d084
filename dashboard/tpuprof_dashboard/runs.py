"""Which runs lie below the given paths, and whether they have changed since they were read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tpuprof_dashboard.security import inside

# Names under which profilers write; anything else is found when it is the only thing in a folder.
_SUFFIXES = (".xplane.pb", ".xplane.pb.gz", ".trace.json.gz", ".trace.json")
# Folders looked at below a watched one: a scan runs every few seconds.
MAX_FOLDERS = 5_000


@dataclass(frozen=True)
class Source:
    """A run by its name on screen, the file or folder to read, and what may be read for it."""

    name: str
    path: Path
    root: Path


def sources(given: list[Path]) -> list[Source]:
    """The runs the given paths stand for: a file or a run folder is one, a logdir has one for each capture.

    Captures behind symbolic links that lead out of the given path are left out.
    """
    found: list[Source] = []
    for path in given:
        root = path.resolve()
        captures = _captures(path) if path.is_dir() else []
        kept = [each for each in captures if inside(each, [root])]
        if len(kept) > 1:
            found += [Source(str(each), each, root) for each in kept]
        elif not path.is_dir() or kept or not _is_empty(path):
            found.append(Source(str(path), kept[0] if kept else path, root))
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


def _captures(folder: Path) -> list[Path]:
    """Folders below that hold profiles, newest last. Symbolic links to folders are not followed."""
    found = []
    for count, (root, folders, names) in enumerate(os.walk(folder)):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "graphs")
        if any(name.endswith(_SUFFIXES) for name in names):
            found.append(Path(root))
        if count > MAX_FOLDERS:
            break
    return sorted(found, key=lambda each: (each.stat().st_mtime, each.name))


def _is_empty(folder: Path) -> bool:
    return not any(each.is_file() for each in folder.rglob("*"))
