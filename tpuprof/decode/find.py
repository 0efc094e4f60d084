"""Finds the profiler files of a run in any logdir layout, by content.

XProf, TensorBoard, JAX, torch_xla and TorchTPU all write `plugins/profile/<session>/<host>.xplane.pb`
somewhere below the folder they were given; copies lie about under other names. So: every file is looked
at, files side by side are one session, and the newest session is the run.
"""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path

from tpuprof.decode import sniff
from tpuprof.errors import Code, TpuprofError
from tpuprof.records import dataclass

# A logdir with more files than this is searched no further, so that a home directory cannot hang a command.
MAX_FILES_LOOKED_AT = 20_000
_SUFFIXES = (".gz", ".json", ".trace", ".pb", ".xplane")
_READABLE = {sniff.XPLANE: 0, sniff.XPLANE_GZ: 1, sniff.CHROME_GZ: 2, sniff.CHROME: 3}
RUN_INFO = Path("tpuprof") / "run.json"


@dataclass(frozen=True)
class Found:
    """Files of one session, by host name, and the run folder they belong to where tpuprof wrote one."""

    files: dict[str, Path]
    run_folder: Path | None
    warnings: list[str] = field(default_factory=list)


def find(path: Path) -> Found:
    """The profiler files `path` stands for: itself, or the newest session below it.

    Raises `TpuprofError`: `input-not-found`, `input-no-trace`, `input-empty`.
    """
    if not path.exists():
        raise TpuprofError(Code.NOT_FOUND, f"{path}: no such file or folder.", "Check the path.")
    if not path.is_dir():
        return Found({host_name(path): path}, _run_folder(path.parent))
    sessions, empty = _sessions(path)
    if not sessions:
        if empty:
            raise TpuprofError(
                Code.EMPTY_FILE,
                f"{empty[0]}: the profile is empty (a profile over 2 GB ends this way).",
                "Capture fewer steps.",
            )
        raise TpuprofError(
            Code.NO_TRACE,
            f"{path}: no profile below this folder.",
            "Capture one with `tpuprof capture -- python train.py`, or give the folder your profiler wrote to.",
        )
    newest = max(sessions, key=lambda folder: (_modified(sessions[folder]), folder.name))
    warnings = [
        f"{each} is empty, so that host's profile is missing" for each in empty if each.parent == newest
    ]
    if len(sessions) > 1:
        warnings.append(
            f"{len(sessions)} captures lie in this folder; this is the newest, {newest.name}. "
            "Give another's path to read it."
        )
    return Found(_by_host(sessions[newest]), _run_folder(newest), warnings)


def host_name(path: Path) -> str:
    """The host a profiler file is of: its name without the formats' suffixes."""
    name = path.name
    while True:
        stem, suffix = os.path.splitext(name)
        if suffix not in _SUFFIXES or not stem:
            return name
        name = stem


def _sessions(folder: Path) -> tuple[dict[Path, list[tuple[int, Path]]], list[Path]]:
    sessions: dict[Path, list[tuple[int, Path]]] = {}
    empty: list[Path] = []
    for path in _files(folder):
        try:
            kind = sniff.sniff(path)
        except OSError:
            continue
        if kind in _READABLE:
            sessions.setdefault(path.parent, []).append((_READABLE[kind], path))
        elif kind == sniff.EMPTY and path.name.endswith((".xplane.pb", ".trace.json.gz")):
            empty.append(path)
    return sessions, empty


def _files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "graphs")
        found += [
            Path(root) / name for name in sorted(names) if not name.endswith((".hlo.pb", ".jsonl", ".py"))
        ]
        if len(found) > MAX_FILES_LOOKED_AT:
            break
    return [path for path in found[:MAX_FILES_LOOKED_AT] if path.is_file()]


def _by_host(files: list[tuple[int, Path]]) -> dict[str, Path]:
    """One file a host: an XPlane before the Chrome export of the same capture."""
    chosen: dict[str, tuple[int, Path]] = {}
    for rank, path in sorted(files):
        chosen.setdefault(host_name(path), (rank, path))
    return {host: path for host, (_, path) in sorted(chosen.items())}


def _modified(files: list[tuple[int, Path]]) -> float:
    return max(path.stat().st_mtime for _, path in files)


def _run_folder(folder: Path) -> Path | None:
    """The nearest folder above that holds tpuprof's own `tpuprof/run.json`, else the logdir's root."""
    for each in (folder, *folder.absolute().parents):
        if (each / RUN_INFO).is_file():
            return each
        if each.name == "plugins":
            return each.parent
    return None
