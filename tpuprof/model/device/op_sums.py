"""A device's events added up by op: of the whole capture, and of its steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tpuprof.model.intervals import Int64, Spans, contains

_op_sums: Any
try:
    from tpuprof.model import _op_sums
except ImportError:  # not built, or for another Python or machine
    _op_sums = None


class OpSums(NamedTuple):
    """By op: executions, their time and their self time (ps), and the same of those that begin inside steps.

    `begin_in_steps` and `end_in_steps` are the sums of when those begin and end (ps); as floats, since times of a long
    capture, summed, go beyond 63 bits.
    """

    executions: Int64
    total_ps: Int64
    self_ps: Int64
    executions_in_steps: Int64
    self_ps_in_steps: Int64
    begin_in_steps: npt.NDArray[np.float64]
    end_in_steps: npt.NDArray[np.float64]


def op_sums(op: Int64, start: Int64, end: Int64, self_ps: Int64, ops: int, steps: Spans) -> OpSums:
    """Add up events, one row each, of `ops` ops; `steps` may touch."""
    if _op_sums:
        whole, times = _op_sums.add_up(op, start, end, self_ps, ops, *steps)
        return OpSums(*whole.T, *times.T)
    inside = np.flatnonzero(contains(steps, start))
    own = op[inside]
    return OpSums(
        _count(op, ops),
        _sum(op, end - start, ops),
        _sum(op, self_ps, ops),
        _count(own, ops),
        _sum(own, self_ps[inside], ops),
        *(np.bincount(own, each[inside].astype(np.float64), ops).astype(np.float64) for each in (start, end)),
    )


def _count(op: Int64, ops: int) -> Int64:
    return np.bincount(op, minlength=ops)


def _sum(op: Int64, values: Int64, ops: int) -> Int64:
    total = np.zeros(ops, np.int64)
    np.add.at(total, op, values)
    return total
