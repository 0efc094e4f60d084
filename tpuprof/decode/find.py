"""Finds the profiler files of a run in any logdir layout, by content.

XProf, TensorBoard, JAX, torch_xla and TorchTPU all write `plugins/profile/<session>/<host>.xplane.pb`
somewhere below the folder they were given. Files side by side are one session, and the newest session is the run.
In a session with files of those names, only such files are profiles: XProf keeps programs and tables of its own beside
them, JAX a trace for Perfetto, and people copies. In any other folder every file is looked at.
"""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path

from tpuprof.decode import ranks, sniff
from tpuprof.errors import Code, TpuprofError
from tpuprof.records import record
from tpuprof.run_folder import EXPORT_SUFFIXES, GRAPHS, PLUGINS, PROFILE_SUFFIX, PROFILE_SUFFIXES, RUN_INFO

# A logdir with more files than this is searched no further, so that a home directory cannot hang a command.
MAX_FILES_LOOKED_AT = 20_000
_SUFFIXES = (".gz", ".json", ".trace", ".pb", ".xplane")
# What XProf, TensorBoard and JAX keep beside profiles, by the end of the name.
_NEIGHBOUR_NAMES = """
    .hlo_proto.pb .hlo.pb .input_pipeline.pb .overview_page.pb .tensorflow_stats.pb .kernel_stats.pb .op_stats.pb
    .op_profile.pb .memory_profile.pb .memory_viewer.pb .pod_viewer.pb .roofline_model.pb .framework_op_stats.pb
    .hlo_stats.pb .inference_profile.pb .dcn_collective_stats.pb .smart_suggestion.pb .megascale_stats.pb
    perfetto_trace.json.gz .jsonl .py .SSTABLE .bak .old .orig .tmp ~
"""
_NEIGHBOURS = tuple(_NEIGHBOUR_NAMES.split())
# How file managers name a copy.
_COPY = re.compile(
    r"^Copy of |[ _-]?\((?:copy|\d+|\d+[a-z]{2} copy|another copy)\)|[ _-]copy(?: \d+)?(?=\.)",
    re.IGNORECASE,
)


@record(frozen=True)
class Found:
    """Files of one session, by host name, and the run folder they belong to where tpuprof wrote one."""

    files: dict[str, Path]
    run_folder: Path | None
    warnings: list[str] = field(default_factory=list)


def find(path: Path) -> Found:
    """The profiler files `path` stands for: itself, or the newest session below it.

    Raises `TpuprofError`: `input-not-found`, `input-no-trace`, `input-empty`, `input-unreadable`.
    """
    if not path.exists():
        raise TpuprofError(Code.NOT_FOUND, f"{path}: no such file or folder.", "Check the path.")
    if not path.is_dir():
        if not path.is_file():
            raise TpuprofError(
                Code.UNREADABLE,
                f"{path}: this is not a regular file.",
                "Copy the profile to a file, and give that.",
            )
        return Found({host_name(path): path}, _run_folder(path.parent))
    sessions, empty, notes = _sessions(path)
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
    warnings = [note for folder, note in notes if folder == newest]
    warnings += [
        f"{each} is empty, so the profile of that host is missing" for each in empty if each.parent == newest
    ]
    if len(sessions) > 1:
        warnings.append(
            f"{len(sessions)} captures lie in this folder; this is the newest, {newest.name}. "
            "Give another's path to read it."
        )
    return Found(_by_host(sessions[newest]), _run_folder(newest), warnings)


def find_all(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Found:
    """The profiler files of one path, or of several as one run of several hosts. Raises as `find` does."""
    if isinstance(paths, (str, os.PathLike)):
        return find(Path(paths))
    found = [find(Path(path)) for path in paths]
    if len(found) == 1:
        return found[0]
    files: dict[str, Path] = {}
    for each in found:
        for name, path in each.files.items():
            files[name if name not in files else str(path)] = path
    return Found(
        files, found[0].run_folder if found else None, [note for each in found for note in each.warnings]
    )


def host_name(path: Path) -> str:
    """The host a profiler file is of: its name without the formats' suffixes."""
    name = path.name
    while True:
        stem, suffix = os.path.splitext(name)
        if suffix not in _SUFFIXES or not stem:
            return name
        name = stem


def _sessions(folder: Path) -> tuple[dict[Path, list[tuple[int, Path]]], list[Path], list[tuple[Path, str]]]:
    """Readable files by folder, empty profiles, and notes on copies that were left out, each with its folder."""
    sessions: dict[Path, list[tuple[int, Path]]] = {}
    empty: list[Path] = []
    for path in _files(folder):
        try:
            kind = sniff.sniff(path)
        except OSError:
            continue
        rank = sniff.rank_of(kind)
        if rank is not None:
            sessions.setdefault(path.parent, []).append((rank, path))
        elif kind == sniff.EMPTY and path.name.endswith((PROFILE_SUFFIX, EXPORT_SUFFIXES[1])):
            empty.append(path)
    notes: list[tuple[Path, str]] = []
    for each, files in sessions.items():
        sessions[each], copies = _without_copies(_profiles(files))
        notes += [(each, f"{copy.name} was left out: it is a copy of {of.name}") for copy, of in copies]
    return sessions, empty, notes


def _profiles(files: list[tuple[int, Path]]) -> list[tuple[int, Path]]:
    """Those of a session's files that are named as profiles; all of them where none is."""
    if not any(path.name.endswith(PROFILE_SUFFIXES) for _, path in files):
        return files
    return [each for each in files if each[1].name.endswith(PROFILE_SUFFIXES + EXPORT_SUFFIXES)]


def _without_copies(
    files: list[tuple[int, Path]],
) -> tuple[list[tuple[int, Path]], list[tuple[Path, Path]]]:
    """Files without copies, and (copy, original) of what was left out.

    A copy is named as one (`host (copy).xplane.pb`, `Copy of host.xplane.pb`) and has the bytes of the original.
    """
    by_name = {path.name: path for _, path in files}
    kept, copies = [], []
    for each in files:
        name = _COPY.sub("", each[1].name)
        original = by_name.get(name) if name != each[1].name else None
        if original is not None and filecmp.cmp(original, each[1], shallow=False):
            copies.append((each[1], original))
        else:
            kept.append(each)
    return kept, copies


def _files(folder: Path) -> list[Path]:
    return files_below(folder, not_into=(GRAPHS.name,), not_named=_NEIGHBOURS)


def files_below(folder: Path, not_into: tuple[str, ...] = (), not_named: tuple[str, ...] = ()) -> list[Path]:
    """Files below a folder, at most `MAX_FILES_LOOKED_AT`, without hidden folders and those of the names `not_into`.

    Files whose name ends as one of `not_named` are left out, and do not count.
    """
    found: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in not_into)
        found += [Path(root) / name for name in sorted(names) if not name.endswith(not_named)]
        if len(found) > MAX_FILES_LOOKED_AT:
            break
    return [path for path in found[:MAX_FILES_LOOKED_AT] if path.is_file()]


def _by_host(files: list[tuple[int, Path]]) -> dict[str, Path]:
    """One file per host: an XPlane before the Chrome export of the same capture."""
    chosen: dict[str, tuple[int, Path]] = {}
    for rank, path in sorted(files):
        chosen.setdefault(host_name(path), (rank, path))
    return {host: chosen[host][1] for host in sorted(chosen, key=ranks.in_order)}


def _modified(files: list[tuple[int, Path]]) -> float:
    return max(path.stat().st_mtime for _, path in files)


def _run_folder(folder: Path) -> Path | None:
    """The nearest folder above that holds tpuprof's own `tpuprof/run.json`, else the logdir's root."""
    for each in (folder, *folder.absolute().parents):
        if (each / RUN_INFO).is_file():
            return each
        if each.name == PLUGINS:
            return each.parent
    return None
