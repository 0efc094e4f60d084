"""What a run of a program says of itself: its step time, and its loss."""

from __future__ import annotations

import math
import re
import statistics
from pathlib import Path

from tpuprof.errors import Code, TpuprofError
from tpuprof.json_notes import parse_json, read_text
from tpuprof.records import record
from tpuprof.run_folder import telemetry_name
from tpuprof.units import NS_PER_MS

# `loss 2.31`, `loss: 2.31`, `train_loss=2.31`, `"loss": 2.31`.
LOSS = r"loss[\"']?\s*[:=]?\s*([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf))"
# A program that times itself prints this, as JSON or plainly.
STEP_MS = r"\bstep_ms[\"']?\s*[:=]\s*([0-9.]+(?:e[-+]?\d+)?)"
# Steps at the beginning that are not timed: the first compiles, the second may too (steps).
WARMUP_STEPS = 4
# Of fewer steps than this the mean says little (steps).
FEWEST_STEPS = 8


def last_number(pattern: str, text: str) -> float | None:
    """The number in the last match of a pattern's first group, None without one. Raises `TpuprofError` (`usage`)."""
    try:
        found = re.findall(pattern, text, re.IGNORECASE)
    except re.error as error:
        raise TpuprofError(
            Code.USAGE, f"{pattern!r} is not a regular expression ({error}).", "See Python's re module."
        ) from error
    if not found:
        return None
    last = found[-1][0] if isinstance(found[-1], tuple) else found[-1]
    try:
        return float(last)
    except ValueError:
        return None


@record(frozen=True)
class Steps:
    """The steps of a run after its warm-up: their mean (ms) over its processes, and how many all processes had."""

    mean_ms: float
    count: int


def steps_of(folder: Path, warmup: int = WARMUP_STEPS) -> Steps | None:
    """The steps that the processes of a run noted, those of the warm-up left out; None where they are too few."""
    means, count = [], 0
    for path in sorted(folder.rglob(telemetry_name("*", "*"))):
        walls = [_wall(line) for line in read_text(path).splitlines()]
        timed = [wall for wall in walls if wall is not None][warmup:]
        if len(timed) >= FEWEST_STEPS:
            means.append(statistics.fmean(timed) / NS_PER_MS)
            count += len(timed)
    return Steps(statistics.fmean(means), count) if means else None


def losses_agree(before: list[float], after: list[float], tolerance: float) -> bool:
    """Whether mean losses differ by no more than a share of the larger, or than the runs before the fix do.

    How much the runs after it differ does not count: a fix that makes training unstable would permit itself.
    """
    if not all(map(math.isfinite, [*before, *after])):
        return False
    first, second = statistics.fmean(before), statistics.fmean(after)
    return abs(first - second) <= max(tolerance * max(abs(first), abs(second)), max(before) - min(before))


def _wall(line: str) -> float | None:
    try:
        wall = parse_json(line)["wall_ns"]
    except (ValueError, KeyError, TypeError):
        return None
    return float(wall) if isinstance(wall, (int, float)) and wall > 0 else None
