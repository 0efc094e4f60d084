"""Reads of values that did not end while the profiler was on: samples show the wait, and nothing tells what it is for.

An event is written as it ends. A read of torch_xla that goes on at the end of a recording leaves none, nor does the
compile or the graph that it waits for.
"""

from __future__ import annotations

from collections.abc import Collection

from tpuprof.model.host.stacks import called
from tpuprof.own_events import READ_METHODS
from tpuprof.parts import HOST_PREFIX
from tpuprof.report.sections import HostStackRow

# The part of time in which the training thread waits in a call.
WAIT = f"{HOST_PREFIX}wait"
# Functions of Python that call methods of a tensor which wait for its value.
_READ_BY = frozenset({*READ_METHODS, "float", "int", "bool", "print", "format"})
# Share of the waits that reads must be more than for them to stand for all.
MOST = 0.5


def unended_read(rows: list[HostStackRow], read_by: Collection[str] = _READ_BY) -> HostStackRow | None:
    """The longest of the reads that most waits in a call are in; None where they are in other calls.

    `read_by` are the names of what reads; JAX's reads leave no event at all, and have names of their own.
    """
    waits = [row for row in rows if row.part == WAIT]
    reads = [row for row in waits if called(row.user_call or row.call) in read_by]
    all_waits, in_reads = (sum(row.exposed_ms_per_step for row in each) for each in (waits, reads))
    if not in_reads or in_reads <= MOST * all_waits:
        return None
    return max(reads, key=lambda row: row.exposed_ms_per_step)
