"""Keeps a recording by the clock in the run folder while the program goes on.

Steps may still be seen, and would count instead, so what is captured is written at the program's end. A program that is
killed before (for its memory, or by a scheduler) would leave nothing, and nobody could look at it meanwhile.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from tpuprof.capture import run_writer
from tpuprof.capture.later_looks import LaterLooks
from tpuprof.capture.telemetry import Telemetry
from tpuprof.capture.training_thread import training_thread
from tpuprof.capture.writing import placed_in, with_warnings
from tpuprof.instrument.state import STATE, pass_on
from tpuprof.json_notes import read_json
from tpuprof.run_folder import PROFILE_SUFFIX, run_infos

# What an analysis says of a run that holds no more than this.
UNENDED = "the program had not ended when this was written, or was killed: what it did after the recording is unknown"

# The same of a program that failed and was recorded by the clock.
NO_STEP = "no steps were followed, so what was captured may be from before the training"


class Interim:
    """What is written of one process so far: its profile, its description, and what compiled before the recording."""

    def __init__(self, run: Path, telemetry: Telemetry, listed_as: str = "") -> None:
        self._run = run
        self._telemetry = telemetry
        self._listed_as = listed_as
        self._files: list[Path] = []
        # Programs of torch_xla that show no step cut the graph by reads alone: where those wait, no Python frame tells.
        self.looks = LaterLooks(training_thread)

    def write(self, name: str, profile: Path, capture: dict[str, Any], notes: list[str]) -> str:
        """Write a capture's profile and facts; the profile stays where it is, too. Raises `OSError`.

        Returns the label that the profile carries.
        """
        info, placed, rank = placed_in(self._run, name, _another(profile), capture, self._listed_as)
        self._files.append(placed)
        label = placed.name.removesuffix(PROFILE_SUFFIX)
        self._files.append(run_writer.write_telemetry(self._run, label, rank, self._telemetry.records))
        self._files.append(run_writer.write_run_info(self._run, with_warnings(info, [*notes, UNENDED])))
        if STATE.framework is not None:
            self.looks.start()
        return label

    def remove(self) -> None:
        """Remove it: what counts is written in its place."""
        while self._files:
            self._files.pop().unlink(missing_ok=True)


def tell_end(run: Path, name: str, how: str) -> None:
    """Have a capture say how the program ended: it failed, or was ended."""
    for path in run_infos(run):
        try:
            info = read_json(path)
            notes = info.get("warnings") if isinstance(info, dict) else None
            if not isinstance(notes, list) or info["capture"].get("name") != name:
                continue
            info["warnings"] = _with_end(notes, how, info["capture"])
            run_writer.rewrite_run_info(path, info)
        except (OSError, ValueError, KeyError, AttributeError) as error:
            pass_on(error)  # then the older note stays


def _with_end(notes: list[str], how: str, capture: dict[str, Any]) -> list[str]:
    """The warnings with how the program ended, in the place of one that says that nobody knows."""
    if UNENDED in notes:
        told = f"{how}: what it did after the recording is unknown"
        return [told if each == UNENDED else each for each in notes]
    # A recording by the clock may be of what the program did before it trained.
    return [*notes, f"{how}; {NO_STEP}" if capture.get("steps_captured", 0) is None else how]


def _another(profile: Path) -> Path:
    """The same file under another name, which can be moved away."""
    other = profile.with_name(f"{profile.name}.interim")
    try:
        os.link(profile, other)
    except OSError as error:  # the file system has no links
        pass_on(error)
        shutil.copyfile(profile, other)
    return other
