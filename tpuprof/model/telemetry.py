"""What the training process noted of its own steps, where the run folder has it: frames of each compile."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = "tpuprof"


def compile_frames(run_folder: Path | None, host: str) -> dict[int, list[str]]:
    """Python frames that led to a compile, by step number; empty where nothing was noted.

    Lines that are damaged (a process killed while writing) are passed over.
    """
    frames: dict[int, list[str]] = {}
    if run_folder is None:
        return frames
    for path in sorted((run_folder / FOLDER).glob(f"telemetry.{host}.*.jsonl")):
        for line in path.read_text("utf-8", "replace").splitlines():
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
