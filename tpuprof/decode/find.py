"""Finds the profiler files of a run in any logdir layout, by content.

XProf, TensorBoard, JAX, torch_xla and TorchTPU all write `plugins/profile/<session>/<host>.xplane.pb`
somewhere below the folder they were given. Files side by side are one session, and the newest session is the run.
In a session with files of those names, only such files are profiles: XProf keeps programs and tables of its own beside
them, JAX a trace for Perfetto, and people copies. There, a file of such a name that holds no profile is a host that
cannot be read: whoever reads it says why. In any other folder every file is looked at.
"""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import combinations_with_replacement
from pathlib import Path

from tpuprof.decode import ranks, sniff
from tpuprof.decode.folder_walk import Search
from tpuprof.decode.reading import not_regular
from tpuprof.errors import Code, TpuprofError
from tpuprof.json_notes import read_json
from tpuprof.records import record
from tpuprof.run_folder import EXPORT_SUFFIXES, GRAPHS, PLUGINS, PROFILE_SUFFIXES, RUN_INFO

# Most files of other names whose content is looked at (files): one that is called a profile is looked at in any case.
# Reading the first bytes of so many takes some seconds; a pod of 1,024 hosts has about 5,000 notes.
MAX_LOOKED_INTO = 20_000
# Files of these names are profiles, or should be.
_NAMED = PROFILE_SUFFIXES + EXPORT_SUFFIXES
_SUFFIXES = (".gz", ".json", ".trace", ".pb", ".xplane")
# What XProf, TensorBoard and JAX keep beside profiles, by the end of the name.
_NEIGHBOUR_NAMES = """
    .hlo_proto.pb .hlo.pb .input_pipeline.pb .overview_page.pb .tensorflow_stats.pb .kernel_stats.pb .op_stats.pb
    .op_profile.pb .memory_profile.pb .memory_viewer.pb .pod_viewer.pb .roofline_model.pb .framework_op_stats.pb
    .hlo_stats.pb .inference_profile.pb .dcn_collective_stats.pb .smart_suggestion.pb .megascale_stats.pb
    perfetto_trace.json.gz .jsonl .py .SSTABLE .bak .old .orig .tmp ~
"""
_NEIGHBOURS = tuple(_NEIGHBOUR_NAMES.split())
# Rank of a file that holds no profile: it stands for its host only where nothing else does.
_UNREADABLE = 99
# How file managers name a copy.
_COPY = re.compile(
    r"^Copy of |[ _-]?\((?:copy|\d+|\d+[a-z]{2} copy|another copy)\)|[ _-]copy(?: \d+)?(?=\.)",
    re.IGNORECASE,
)

# How torch.profiler's `tensorboard_trace_handler` ends the name of each of a worker's captures: when it was made (ns).
_OF_TORCH = re.compile(r"\.(?P<made>\d{12,20})\.pt$")
_WORD = re.compile(r"[^\W_]+")
_LETTER = re.compile(r"[^\W\d_]")


@record(frozen=True)
class Found:
    """Files of one session, by host name, and the run folder they belong to where tpuprof wrote one."""

    files: dict[str, Path]
    run_folder: Path | None
    warnings: list[str] = field(default_factory=list)


def find(path: Path) -> Found:
    """The profiler files `path` stands for: itself, or the newest session below it.

    Raises `TpuprofError`: `input-not-found`, `input-no-trace`, `input-empty`, `input-unreadable`,
    `input-too-many-files`.
    """
    if not path.exists():
        raise TpuprofError(Code.NOT_FOUND, f"{path}: no such file or folder.", "Check the path.")
    if not path.is_dir():
        if not path.is_file():
            raise not_regular(path)
        return Found({host_name(path): path}, *_notes_of(path.parent))
    search = Search(path)
    sessions, unread, notes = _sessions(search)
    if not sessions:
        raise _nothing_in(search, unread)
    newest = max(sessions, key=lambda folder: (_modified(sessions[folder]), folder.name))
    warnings = [note for folder, note in notes if folder == newest]
    if len(sessions) > 1:
        warnings.append(
            f"{len(sessions)} captures lie in this folder; this is the newest, {newest.name}. "
            "Give another's path to read it."
        )
    chosen = _by_host(sessions[newest])
    older = [each for _, each in sessions[newest] if _made(each) and each not in chosen.values()]
    if older:
        warnings.append(f"{len(older)} older captures of torch.profiler lie beside these, and are left out")
    changed = _modified(sessions[newest])
    later = [each for each in unread if each.parent not in sessions and each.lstat().st_mtime > changed]
    warnings += [f"{each} is newer, and holds no profile" for each in later]
    warnings += [
        f"{each} cannot be listed ({why}): a capture in it is not seen" for each, why in search.unlisted
    ]
    folder, notes_of_another = _notes_of(newest)
    return Found(chosen, folder, warnings + notes_of_another)


def _nothing_in(search: Search, unread: list[Path]) -> TpuprofError:
    """The error of a folder in which no profile was found; `unread` are files that are named as one."""
    denied = [*search.unlisted, *((each, why) for each in unread if (why := _why_closed(each)))]
    if denied:
        return TpuprofError(
            Code.UNREADABLE, f"{denied[0][0]}: cannot be read ({denied[0][1]}).", "Check its permissions."
        )
    empty = next((each for each in unread if os.path.isfile(each) and not each.stat().st_size), None)
    if empty:
        return TpuprofError(
            Code.EMPTY_FILE,
            f"{empty}: the profile is empty (a profile over 2 GB ends this way).",
            "Capture fewer steps.",
        )
    named_only = next((each for each in unread if os.path.isdir(each)), None)
    if named_only:
        return not_regular(named_only)
    return TpuprofError(
        Code.NO_TRACE,
        f"{search.folder}: no profile below this folder.",
        "Capture one with `tpuprof capture -- python train.py`, or give the folder your profiler wrote to.",
    )


def _why_closed(path: Path) -> str:
    """What the system says of a file that cannot be opened; empty for any other."""
    try:
        if path.is_file():  # a pipe would wait for its writer
            path.open("rb").close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


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
    """The host a profiler file is of: its name without the formats' suffixes, and without the time it was made."""
    return _OF_TORCH.sub("", _stem(path.name))


def _stem(name: str) -> str:
    """A file's name without the formats' suffixes."""
    while True:
        stem, suffix = os.path.splitext(name)
        if suffix not in _SUFFIXES or not stem:
            return name
        name = stem


def _sessions(
    search: Search,
) -> tuple[dict[Path, list[tuple[int, Path]]], list[Path], list[tuple[Path, str]]]:
    """Files by folder, files that only their names call profiles, and notes on what was left out.

    A folder has at least one profile, and then also what only its name calls one. A note stands with its folder.
    """
    sessions: dict[Path, list[tuple[int, Path]]] = {}
    unread: list[Path] = []
    files = search.files(not_into=(GRAPHS.name,), not_named=_NEIGHBOURS)
    others = [each for each in files if not each.name.endswith(_NAMED)]
    for path in files:
        if not path.name.endswith(_NAMED):
            continue
        rank = sniff.rank_of(_kind(path))
        if rank is not None:
            sessions.setdefault(path.parent, []).append((rank, path))
        elif not path.name.startswith(".") and (path.name.endswith(PROFILE_SUFFIXES) or os.path.isfile(path)):
            unread.append(path)
    left_out = _add_others(search, others, sessions)
    # A folder named as a profile may hold one: then it is a session.
    unread = [
        path
        for path in unread
        if not (os.path.isdir(path) and any(path in (each, *each.parents) for each in sessions))
    ]
    notes: list[tuple[Path, str]] = []
    for each, found in sessions.items():
        in_vain = [(_UNREADABLE, path) for path in unread if path.parent == each]
        sessions[each], copies = _without_copies(_profiles(found) + in_vain)
        notes += [(each, f"{copy.name} was left out: it is a copy of {of.name}") for copy, of in copies]
        notes += [(each, left_out)] * bool(left_out)
    return sessions, unread, notes


def _add_others(search: Search, others: list[Path], sessions: dict[Path, list[tuple[int, Path]]]) -> str:
    """Add the files of other names that hold a profile; what was not looked at, empty where all were.

    Raises `TpuprofError` where there are too many, and no file named as a profile holds one.
    """
    for looked_at, path in enumerate(others):
        if looked_at >= MAX_LOOKED_INTO or search.is_late:
            if not sessions:
                raise search.too_large(
                    f"{len(others):,} files were listed, and {looked_at:,} of them looked into", others
                )
            return (
                f"{len(others) - looked_at:,} of {len(others):,} files below {search.folder} that are not called "
                "profiles were not looked at"
            )
        rank = sniff.rank_of(_kind(path))
        if rank is not None:
            sessions.setdefault(path.parent, []).append((rank, path))
    return ""


def _kind(path: Path) -> str:
    """The format of a file; unknown where it is a pipe, or cannot be opened."""
    try:
        return sniff.sniff(path) if path.is_file() else sniff.UNKNOWN
    except OSError:
        return sniff.UNKNOWN


def _profiles(files: list[tuple[int, Path]]) -> list[tuple[int, Path]]:
    """Those of a session's files that are named as profiles; all of them where none is."""
    if not any(path.name.endswith(PROFILE_SUFFIXES) for _, path in files):
        return files
    return [each for each in files if each[1].name.endswith(PROFILE_SUFFIXES + EXPORT_SUFFIXES)]


def _without_copies(
    files: list[tuple[int, Path]],
) -> tuple[list[tuple[int, Path]], list[tuple[Path, Path]]]:
    """Files without copies, and (copy, original) of what was left out.

    A copy is named as one (`host (copy).xplane.pb`, `Kopie von host.xplane.pb`) and has the bytes of the original.
    """
    by_name = {path.name: path for _, path in files}
    kept, copies = [], []
    for each in files:
        original = next((by_name[name] for name in _originals(each[1].name) if name in by_name), None)
        if original is not None and _same_bytes(original, each[1]):
            copies.append((each[1], original))
        else:
            kept.append(each)
    return kept, copies


def _originals(name: str) -> Iterator[str]:
    """What the original of a copy of that name may be called: file managers add words in the user's language."""
    yield from {_COPY.sub("", name)} - {name}
    stem = host_name(Path(name))
    words = list(_WORD.finditer(stem))
    for first, last in combinations_with_replacement(range(len(words)), 2):
        start, end = words[first].start(), words[last].end()
        if _LETTER.search(stem[:start] + stem[end:]):
            yield stem[start:end] + name[len(stem) :]


def _same_bytes(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def _by_host(files: list[tuple[int, Path]]) -> dict[str, Path]:
    """One file per host: an XPlane before the Chrome export of the same capture, and the newest of torch.profiler's."""
    chosen: dict[str, tuple[int, Path]] = {}
    for rank, path in sorted(files, key=lambda each: (each[0], -_made(each[1]), each[1])):
        chosen.setdefault(host_name(path), (rank, path))
    return {host: chosen[host][1] for host in sorted(chosen, key=ranks.in_order)}


def _made(path: Path) -> int:
    """When torch.profiler made a capture, by its name (ns since 1970); 0 for the files of others."""
    found = _OF_TORCH.search(_stem(path.name))
    return int(found["made"]) if found else 0


def _modified(files: list[tuple[int, Path]]) -> float:
    return max(path.lstat().st_mtime for _, path in files)


def _notes_of(session: Path) -> tuple[Path | None, list[str]]:
    """The run folder of a session, without it where tpuprof's notes there are of another session; and a warning then.

    A run folder has the notes of its last capture alone: each capture replaces those of the one before.
    """
    folder = _run_folder(session)
    noted = _noted_session(folder) if folder is not None else None
    if folder is None or noted is None or noted.resolve() == session.resolve():
        return folder, []
    return None, [
        f"{folder / RUN_INFO} is of another capture, {noted.name}: what this program noted of its steps and compiles "
        "is gone, and what this trace alone tells is shown"
    ]


def _noted_session(folder: Path) -> Path | None:
    """The session that a run folder's notes are of; None where they name none, or one that is not there."""
    try:
        info = read_json(folder / RUN_INFO)
    except (OSError, ValueError):
        return None
    profile = info.get("profile") if isinstance(info, dict) else None
    session = (folder / profile).parent if isinstance(profile, str) and profile else None
    return session if session is not None and (folder / str(profile)).is_file() else None


def _run_folder(folder: Path) -> Path | None:
    """The nearest folder above that holds tpuprof's own `tpuprof/run.json`, else the logdir's root."""
    for each in (folder, *folder.absolute().parents):
        if (each / RUN_INFO).is_file():
            return each
        if each.name == PLUGINS:
            return each.parent
    return None
