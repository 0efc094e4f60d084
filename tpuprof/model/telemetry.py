"""What the training process noted of its own steps in the run folder: times, counters, frames of compiles."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = "tpuprof"
FALLBACK_PREFIX = "aten::"
# Reading one value back is torch_xla's own way of `.item()`, and counted among its fallbacks.
VALUE_READ = "aten::_local_scalar_dense"


@dataclass(frozen=True)
class StepTelemetry:
    """One step as its process saw it: wall time in ns, changes of torch_xla's counters, compiles with frames.

    `fallbacks` are the lines that called ops which ran on the CPU, by op, where the capture looked for them.
    """

    step: int
    wall_ns: int
    captured: bool
    counters: dict[str, int] = field(default_factory=dict)
    compiles: int = 0
    frames: list[str] = field(default_factory=list)
    fallbacks: dict[str, str] = field(default_factory=dict)


def read_telemetry(run_folder: Path | None, host: str) -> list[StepTelemetry]:
    """Every step noted by a host's processes, in the order of their files; empty where there is no run folder.

    Lines that are damaged (a process killed while writing) are passed over.
    """
    if run_folder is None:
        return []
    paths = sorted((run_folder / FOLDER).glob(f"telemetry.{host}.*.jsonl"))
    lines = [line for path in paths for line in path.read_text("utf-8", "replace").splitlines()]
    return [step for line in lines if (step := _step_of(line)) is not None]


def compile_frames(steps: list[StepTelemetry]) -> dict[int, list[str]]:
    """Python frames that led to a compile, by step number."""
    return {each.step: each.frames for each in reversed(steps) if each.frames}


def fallback_counts(steps: list[StepTelemetry]) -> dict[str, int]:
    """How often each op ran on the CPU in captured steps; value reads are told elsewhere."""
    totals: dict[str, int] = {}
    for each in steps:
        for name, count in each.counters.items():
            if each.captured and name.startswith(FALLBACK_PREFIX) and name != VALUE_READ:
                totals[name] = totals.get(name, 0) + count
    return totals


def _step_of(line: str) -> StepTelemetry | None:
    try:
        row: dict[str, Any] = json.loads(line)
        compiles = row["compiles"]
        return StepTelemetry(
            step=int(row["step"]),
            wall_ns=int(row.get("wall_ns", 0)),
            captured=bool(row.get("captured")),
            counters={str(name): int(value) for name, value in row.get("counters", {}).items()},
            compiles=sum(int(each.get("graphs", 1)) for each in compiles),
            frames=[str(frame) for frame in compiles[0]["frames"]] if compiles else [],
            fallbacks={str(op): str(source) for op, source in row.get("fallbacks", {}).items()},
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None
