"""What each step loses because host and device take turns, with no more of a lead than the host can have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tpuprof.model.intervals import Int64

# Steps by which the host can be ahead of the device without reads: one step's work beside the one before. PyTorch/XLA
# holds the host back at the next cut, and what reads parameters (a checkpoint, an evaluation) waits for all of it.
AHEAD_STEPS = 2


def lost_in_turns(wall: Int64, busy: Int64, works: Int64) -> Int64:
    """Time (ps) of each step, (steps,), that it takes beyond the slower of host and device, of pairs of steps.

    Sums of all steps would let the host do in the time of sixty steps what it does in one of them: with a save of 600
    ms in one step of sixty, and 11 ms of the device's work in each, neither is faster without reads.
    """
    return _of_pairs(_beyond_the_slower, wall, busy, works)


def _beyond_the_slower(wall: Int64, busy: Int64, works: Int64) -> Int64:
    return np.maximum(wall - np.maximum(busy, works), 0)


def idle_at_reads(idle: Int64, blocked: Int64) -> Int64:
    """Time (ps) of each step, (steps,), that the device idles and that reads can answer for, of pairs of steps.

    Without its reads a step is shorter by no more than what they block in it, nor than the device idles in it.
    """
    return _of_pairs(np.minimum, np.maximum(idle, 0), blocked)


def _of_pairs(of: Callable[..., Int64], *columns: Int64) -> Int64:
    """What `of` says of each step with the next one, per step; the last step has no next one."""
    if len(columns[0]) < AHEAD_STEPS:
        return of(*columns)
    together = of(*(np.convolve(each, np.ones(AHEAD_STEPS, np.int64), "valid") for each in columns))
    return np.concatenate([together, together[1 - AHEAD_STEPS :]]) // AHEAD_STEPS
