"""Writes a run folder: the profile where XProf and TensorBoard look for it, and tpuprof's own notes beside it."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from itertools import count
from pathlib import Path
from typing import Any

from tpuprof.capture.telemetry import StepRecord
from tpuprof.errors import Code, TpuprofError
from tpuprof.instrument.state import pass_on
from tpuprof.json_notes import read_json
from tpuprof.run_folder import (
    NOTES,
    PROFILES,
    RUN_INFO,
    aftermath_name,
    labels,
    profile_name,
    run_info_name,
    telemetry_name,
)


def session_name() -> str:
    """A name for a capture that was given none: the time, as the profiler itself writes it."""
    return time.strftime("%Y_%m_%d_%H_%M_%S")


def refuse_overwrite(run: Path, name: str | None, *, force: bool) -> None:
    """Raise `TpuprofError` (`output-exists`) where a capture of that name is there already; `force` removes it."""
    if name is None:
        return
    folder = run / PROFILES / name
    if not folder.exists():
        return
    if not force:
        raise TpuprofError(
            Code.OUTPUT_EXISTS,
            f"{folder}: there is a capture of that name.",
            "Choose another --name, or pass --force.",
        )
    shutil.rmtree(folder)
    if has_run_info(run, name):
        # Else the new capture would take the old description for that of another of its processes.
        (run / RUN_INFO).unlink()


def host_label(host: str, rank: int, processes: int) -> str:
    """The profile's file name without suffix: XProf takes it for the host, so each process needs its own."""
    return host if processes <= 1 else f"{host}-p{rank}"


def place_profile(run: Path, name: str, label: str, profile: Path, listed_as: str = "") -> Path:
    """Move a profile into the run folder; returns where it is now.

    Processes may know nothing of each other, each taking itself for the only one of its host, and hosts may have one
    name: whoever comes second gets its name in the list of a pod's hosts added, else its process.
    """
    folder = run / PROFILES / name
    folder.mkdir(parents=True, exist_ok=True)
    for each in labels(label, listed_as or str(os.getpid())):
        target = folder / profile_name(each)
        try:
            # Taken at once, so that of two processes one alone gets the name.
            target.touch(exist_ok=False)
        except FileExistsError as error:
            pass_on(error)
            continue
        shutil.move(profile, target)
        return target
    raise AssertionError("unreachable")


def write_telemetry(run: Path, label: str, rank: int, records: list[StepRecord]) -> Path:
    """One JSON object a step, in order. `label` is the profile's file name without suffix."""
    path = run / NOTES / telemetry_name(label, rank)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record.to_dict()) + "\n" for record in records), "utf-8")
    return path


def write_after(run: Path, label: str, found: dict[str, Any]) -> Path:
    """What happened after the captured steps, so far; `label` is the profile's name and the rank. Replaces the last."""
    path = run / NOTES / aftermath_name(label)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}.tmp")
    scratch.write_text(json.dumps(found), "utf-8")
    scratch.replace(path)
    return path


def forget_after(run: Path, label: str) -> None:
    """Remove what came after an earlier capture into this folder: it says nothing of the new one."""
    (run / NOTES / aftermath_name(label)).unlink(missing_ok=True)


def write_text(run: Path, name: str, text: str) -> Path:
    """Keep text that torch_xla gave under tpuprof/."""
    path = run / NOTES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def has_run_info(run: Path, name: str) -> bool:
    """Whether a process has already described the capture of that name."""
    try:
        info = read_json(run / RUN_INFO)
    except (OSError, ValueError) as error:
        pass_on(error)
        return False
    return isinstance(info, dict) and (info.get("capture") or {}).get("name") == name


def _free_info(folder: Path, host: object) -> Path:
    """A name that no other process has taken: in containers that are called alike, processes have equal numbers."""
    for number in count(os.getpid()):
        path = folder / run_info_name(host, number)
        try:
            path.touch(exist_ok=False)
        except FileExistsError as error:
            pass_on(error)
            continue
        return path
    raise AssertionError("unreachable")


def write_run_info(run: Path, info: dict[str, Any]) -> Path:
    """Write run.json; of several processes one does, the others write `run.<host>.<process id>.json` beside it."""
    path = run / RUN_INFO
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = _scratch_info(path, info)
    if info.get("rank") or not _is_first(run, str((info.get("capture") or {}).get("name")), scratch):
        path = _free_info(path.parent, info.get("host"))
    scratch.replace(path)
    # A rename between two names of one file does nothing.
    scratch.unlink(missing_ok=True)
    return path


def rewrite_run_info(path: Path, info: dict[str, Any]) -> None:
    """Write one of these files again; nobody sees a half of it. Raises `OSError`."""
    _scratch_info(path, info).replace(path)


def _scratch_info(path: Path, info: dict[str, Any]) -> Path:
    scratch = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
    scratch.write_text(json.dumps(info, indent=1, default=str), "utf-8")
    return scratch


def _is_first(run: Path, name: str, scratch: Path) -> bool:
    """Whether no other process has described this capture; then `scratch` is there, or may replace an older one's."""
    try:
        # At once, so that of two processes one alone is first.
        os.link(scratch, run / RUN_INFO)
    except OSError as error:
        pass_on(error)
        return not has_run_info(run, name)
    return True
