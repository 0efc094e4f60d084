"""Prices beside a queue that another thread or process fills: what training saves, it may wait there for longer."""

from __future__ import annotations

import re

from tpuprof import parts as part
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.simulate.change import Change

# What a price says then; it begins at nothing.
MAY_WAIT_INSTEAD = (
    "it begins at nothing: training also waits for a queue that others fill, and may wait there for longer"
)
# The parts in which training waits for a queue: its own, and a loader's.
_WAITS = (f"{part.HOST_PREFIX}lock", part.INPUT_WAIT)
# Takes from a queue: the standard library's, torch_xla's for its loader, and that of torch's DataLoader with workers.
_TAKES = re.compile(
    r"^(?:get \(.*(?:queue|queues|keyd_queue)\.py:\d+\)|_try_get_data \(.*dataloader\.py:\d+\))$"
)


def parts_fed_by_others(stacks: list[HostStackRow], step_ms: float) -> frozenset[str]:
    """The parts in which training waits for queues for long enough to be worth naming."""
    waits = dict.fromkeys(_WAITS, 0.0)
    for row in stacks:
        if row.part in waits and any(_TAKES.match(frame) for frame in row.frames):
            waits[row.part] += row.exposed_ms_per_step
    return frozenset(name for name, ms in waits.items() if ms >= FAILS_FROM_SHARE * step_ms)


def waits_stay(change: Change, waits: frozenset[str]) -> bool:
    """Whether a change of every step leaves one of these waits as it is.

    What comes in a few steps, as compiles do, is longer than a queue lasts: it is saved beside such waits, too.
    """
    rare = change.steps is not None or part.COMPILE in change.host
    return not rare and any(change.host.get(name, 1.0) >= 1.0 for name in waits)
