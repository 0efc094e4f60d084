"""A run folder that is captured here and kept in a store: written whole to this machine first, then copied."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.json_notes import parse_json, read_json
from tpuprof.run_folder import (
    NOTES,
    PROFILE_SUFFIX,
    PROFILES,
    RUN_INFO,
    labels,
    profile_name,
    renamed_note,
    run_info_name,
    run_infos,
)
from tpuprof.storage.address import joined, name_of, shown
from tpuprof.storage.store import REQUESTS, content, entries_below, put, put_new, remove


def refuse_overwrite(url: str, name: str | None, *, force: bool) -> None:
    """Raise `TpuprofError` (`output-exists`) where the store has a capture of that name; `force` removes it."""
    if name is None:
        return
    folder = joined(url, f"{PROFILES.as_posix()}/{name}")
    try:
        found = entries_below(folder)
    except TpuprofError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        return
    if found and force:
        remove(found)
    elif found:
        raise TpuprofError(
            Code.OUTPUT_EXISTS,
            f"{shown(folder)}: there is a capture of that name.",
            "Choose another --name, or pass --force.",
        )


@contextmanager
def kept_at(url: str, listed_as: str = "") -> Iterator[Path]:
    """A folder on this machine whose files are copied to the URL at the end, also of a body that fails.

    `listed_as` is how the list of a pod's hosts names this one, empty outside a pod. The folder is removed once all
    files are there. Raises `TpuprofError` (a `storage-` code), naming the folder, where not.
    """
    place = Path(tempfile.mkdtemp(prefix="tpuprof-capture-"))
    folder = place / name_of(url)
    folder.mkdir()
    try:
        yield folder
    finally:
        upload(folder, url, listed_as)
        shutil.rmtree(place, ignore_errors=True)


def upload(folder: Path, url: str, listed_as: str = "") -> int:
    """Copy all files below a folder; returns how many. Raises `TpuprofError`.

    Profiles replace none that are there: hosts may have one name, and processes of a host may not know each other.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    profiles = [path for path in files if _is_profile(path.relative_to(folder))]
    infos = [path for path in run_infos(folder) if path in files]
    try:
        places = [(path, _place(path, folder, url, listed_as)) for path in profiles]
        new = {_label(path): label for path, label in places if _label(path) != label}
        rest = [path for path in files if path not in profiles and path not in infos]
        with ThreadPoolExecutor(REQUESTS) as pool:
            list(pool.map(lambda path: put(path, joined(url, _renamed(path.relative_to(folder), new))), rest))
        for path in infos:
            _put_info(path, url, new)
    except TpuprofError as error:
        raise TpuprofError(
            error.code, f"{error.message} The capture is kept in {folder}.", error.hint
        ) from None
    return len(files)


def _is_profile(below: Path) -> bool:
    return below.name.endswith(PROFILE_SUFFIX) and below.parent.parent == PROFILES


def _label(profile: Path) -> str:
    return profile.name.removesuffix(PROFILE_SUFFIX)


def _place(profile: Path, folder: Path, url: str, listed_as: str) -> str:
    """Copy a profile to the first name that is free; returns its label there."""
    session = profile.parent.relative_to(folder).as_posix()
    found = labels(_label(profile), listed_as)
    return next(each for each in found if put_new(profile, joined(url, f"{session}/{profile_name(each)}")))


def _renamed(below: Path, new: dict[str, str]) -> str:
    """Where a note goes, whose profile may have got another label."""
    for label, other in new.items():
        below = below.with_name(renamed_note(below.name, label, other))
    return below.as_posix()


def _put_info(path: Path, url: str, new: dict[str, str]) -> None:
    """Copy the description of a run beside those of other processes; that of an older capture is replaced."""
    try:
        info = read_json(path)
    except (OSError, ValueError):
        info = None
    if not isinstance(info, dict):
        put(path, joined(url, f"{NOTES}/{path.name}"))
        return
    profile = Path(str(info.get("profile") or ""))
    if _label(profile) in new:
        info["profile"] = profile.with_name(profile_name(new[_label(profile)])).as_posix()
        path.write_text(json.dumps(info, indent=1), "utf-8")
    target = joined(url, f"{NOTES}/{path.name}")
    if put_new(path, target):
        return
    if path.name == RUN_INFO.name and _capture(_told(target)) != _capture(info):
        put(path, target)
        return
    names = (run_info_name(info.get("host"), number) for number in count(os.getpid()))
    next(name for name in names if put_new(path, joined(url, f"{NOTES}/{name}")))


def _told(url: str) -> Any:
    try:
        return parse_json(content(url))
    except (TpuprofError, ValueError):
        return None


def _capture(info: Any) -> str:
    """The name of the capture that a description is of."""
    noted = info.get("capture") if isinstance(info, dict) else None
    return str(noted.get("name")) if isinstance(noted, dict) else ""
