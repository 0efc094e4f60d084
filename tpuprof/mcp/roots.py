"""The paths that a server may read, and the runs below them by name."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path

from tpuprof.errors import Code, TpuprofError
from tpuprof.run_folder import EXPORT_SUFFIXES, PROFILE_SUFFIXES, PROFILES
from tpuprof.tables.opened import OpenRun

# Runs that are kept decoded: comparing takes two, and a capture of 100 MB takes some 500 MB decoded (runs).
KEPT = 3
# Runs that are listed, and folders that are looked at to find them (counts).
MOST_RUNS, MOST_FOLDERS = 200, 5_000
_PROFILES = PROFILE_SUFFIXES + EXPORT_SUFFIXES
_SUFFIXES = (*_PROFILES, ".zip", ".json")


class Roots:
    """Folders and files that were given when the server began. Nothing else is read, also not through links."""

    def __init__(self, paths: list[Path]) -> None:
        for path in paths:
            if not path.exists():
                raise TpuprofError(Code.NOT_FOUND, f"{path}: no such file or folder.", "Check the path.")
        self._roots = [path.resolve() for path in paths]
        self._open: OrderedDict[tuple[object, ...], OpenRun] = OrderedDict()

    def names(self) -> list[str]:
        """Names of the runs below the paths, in order: what `open` takes."""
        found: list[str] = []
        for root in self._roots:
            if _is_run(root):
                found.append(root.name)
                continue
            found += sorted(_below(root))
        return found[:MOST_RUNS]

    def open(self, name: str) -> OpenRun:
        """The run of that name, or at that path. Without a name, the only run there is.

        Raises `TpuprofError`: `path-outside` for a path that is not below those given, `input-not-found`.
        """
        path = self.path_of(name or self._only())
        key = (path, *_state(OpenRun(path)))
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        while len(self._open) >= KEPT:
            self._open.popitem(last=False)[1].close()
        run = self._open[key] = OpenRun(path)
        return run

    def path_of(self, name: str) -> Path:
        """The path of a run by its name; links are followed, and must stay below the paths given."""
        if "\0" in name:
            raise TpuprofError(Code.PATH_OUTSIDE, "a path holds a zero byte.", "Give the name of a run.")
        for root in self._roots:
            candidates = [root] if name == root.name else []
            candidates += [root / name] if root.is_dir() else [root.parent / name]
            for path in candidates:
                found = path.resolve()
                if any(found == each or each in found.parents for each in self._roots) and found.exists():
                    return found
        if any(_exists_outside(root, name) for root in self._roots):
            raise TpuprofError(
                Code.PATH_OUTSIDE, f"{name}: this path is not below those given.", "Give the name of a run."
            )
        raise TpuprofError(Code.NOT_FOUND, f"{name}: there is no such run.", self._hint())

    def _only(self) -> str:
        names = self.names()
        if len(names) != 1:
            raise TpuprofError(Code.USAGE, "no run is named.", self._hint())
        return names[0]

    def _hint(self) -> str:
        names = self.names()
        shown = ", ".join(names[:20]) + (" and more" if len(names) > 20 else "")
        return f"Runs are {shown}." if names else "There is no run below the paths given."


def _exists_outside(root: Path, name: str) -> bool:
    """Whether the name leads out of the paths given; whether something is there is not said."""
    found = (root / name).resolve()
    return root != found and root not in found.parents and (os.path.isabs(name) or ".." in Path(name).parts)


def _is_run(path: Path) -> bool:
    return path.name.endswith(_SUFFIXES) if path.is_file() else (path / PROFILES).is_dir()


def _below(root: Path) -> list[str]:
    """Runs below a folder by their path from there; a run folder holds no other run."""
    found: list[str] = []
    for looked_at, (folder, below, files) in enumerate(os.walk(root)):
        if looked_at >= MOST_FOLDERS or len(found) >= MOST_RUNS:
            break
        here = Path(folder)
        if here != root and _is_run(here):
            below.clear()
            found.append(str(here.relative_to(root)))
            continue
        below[:] = sorted(name for name in below if not name.startswith("."))
        found += [str((here / name).relative_to(root)) for name in sorted(files) if name.endswith(_PROFILES)]
    return found


def _state(run: OpenRun) -> list[object]:
    """What changes when a run's files do."""
    if run.paths[0].is_file():
        stat = run.paths[0].stat()
        return [stat.st_mtime_ns, stat.st_size]
    stats = [path.stat() for path in run.files.values()]
    return [(stat.st_mtime_ns, stat.st_size) for stat in stats]
