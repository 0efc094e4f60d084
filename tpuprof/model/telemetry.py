"""What the training process noted of its own steps, where the run folder has it: frames of each compile."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FOLDER = "tpuprof"


@dataclass(frozen=True)
class StepRecord:
    """What the process noted of one step: wall time in ns, counters' increases, and what its compiles took (s).

    `captured` tells whether the profiler recorded it.
    """

    step: int
    wall_ns: int
    captured: bool
    counters: dict[str, int]
    compiles: int
    compile_seconds: float


def step_records(run_folder: Path | None, host: str) -> list[StepRecord]:
    """Every step the run folder has notes of, captured or not, in order; damaged lines are passed over."""
    if run_folder is None:
        return []
    found = [_record_of(line) for line in _lines(run_folder, host)]
    return [each for each in found if each is not None]


def _lines(run_folder: Path, host: str) -> list[str]:
    paths = sorted((run_folder / FOLDER).glob(f"telemetry.{host}.*.jsonl"))
    return [line for path in paths for line in path.read_text("utf-8", "replace").splitlines()]


def _record_of(line: str) -> StepRecord | None:
    try:
        row = json.loads(line)
        return StepRecord(
            step=int(row["step"]),
            wall_ns=int(row["wall_ns"]),
            captured=bool(row["captured"]),
            counters={str(name): int(value) for name, value in row["counters"].items()},
            compiles=sum(int(each["graphs"]) for each in row["compiles"]),
            compile_seconds=sum(float(each["seconds"]) for each in row["compiles"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def compile_frames(run_folder: Path | None, host: str) -> dict[int, list[str]]:
    """Python frames that led to a compile, by step number; empty where nothing was noted.

    Lines that are damaged (a process killed while writing) are passed over.
    """
    frames: dict[int, list[str]] = {}
    if run_folder is None:
        return frames
    for line in _lines(run_folder, host):
        step, found = _frames_of(line)
        if step is not None and found:
            frames.setdefault(step, found)
    return frames


def _frames_of(line: str) -> tuple[int | None, list[str]]:
    try:
        row = json.loads(line)
        compiles = row["compiles"]
        frames = [str(frame) for frame in compiles[0]["frames"]] if compiles else []
        return int(row["step"]), frames
    except (ValueError, KeyError, TypeError, IndexError):
        return None, []
