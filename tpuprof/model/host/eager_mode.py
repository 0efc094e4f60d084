"""Whether torch_xla ran in eager mode: each op is a program of its own, handed over as soon as it is called.

torch_xla measures each such op (`EagerOpExecuteTime`), which the run folder notes of captured steps; under SPMD it
only counts the graphs and the tensors that they make. A trace alone shows it where autograd's own threads hand programs
over: with lazy tensors, the backward pass builds the graph and runs none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.driver import autograd_threads
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.steps import Steps
from tpuprof.model.telemetry import StepRecord
from tpuprof.model.timeline import Host, Track
from tpuprof.records import record

METRICS = ("EagerOpExecuteTime", "EagerOpCompileTime")
# Eager ops of a step from which the step runs in eager mode (ops). A step under `torch_xla.compile` has a few around
# it, for its data, say; the smallest model's forward and backward pass and update have more.
EAGER_FROM_OPS = 8
# Tensors that an eager op makes at most, on average (tensors): of 605 ops of a decoder's step each made 1.1. Without
# eager mode a graph makes one for each op that is traced into it.
TENSORS_PER_OP = 2
# Programs that autograd's threads hand over in a step from which a trace alone shows eager mode (programs). One or two
# may be reads of values in a backward pass of the program's own.
FROM_AUTOGRAD = 4


@record(frozen=True)
class EagerOps:
    """Ops of a step that were programs of their own (median); `counted` by torch_xla, else as the trace shows.

    Where a part of the step is compiled, `own_share` of the tracing and handing over for which the device waits is of
    these ops, and `cuts_share` of their cuts and hand-overs alone. Where no function is compiled, the first is None.
    """

    per_step: float
    counted: bool
    own_share: float | None = None
    cuts_share: float = 0.0


def eager_ops(
    host: Host,
    driver: Track | None,
    vocabulary: Vocabulary,
    steps: Steps,
    devices: list[DeviceActivity],
    activity: HostActivity,
    records: list[StepRecord],
) -> EagerOps | None:
    """The eager ops of a step; None where the step does not run in eager mode, or nothing shows whether it does.

    A framework that has no other mode (`vocabulary.eager`) has none.
    """
    if vocabulary.eager:
        return None
    captured = [record for record in records if record.captured and record.metrics]
    if captured:
        import statistics

        found = EagerOps(statistics.median(_ops(record) for record in captured), counted=True)
    else:
        found = EagerOps(_handed_over(host, driver, vocabulary, steps), counted=False)
    if found.per_step < EAGER_FROM_OPS:
        return None
    from tpuprof.model.host.eager_share import eager_shares

    shares = eager_shares(host, driver, vocabulary, steps, devices, activity)
    return replace(found, own_share=shares[0], cuts_share=shares[1]) if shares else found


def _ops(record: StepRecord) -> float:
    return sum(record.metrics.get(name, 0) for name in METRICS) or _sharded_ops(record)


def _sharded_ops(record: StepRecord) -> int:
    """Graphs under SPMD, where torch_xla does not measure eager ops, if each made about one tensor; else 0."""
    made = record.counters.get("CreateXlaTensor", 0)
    one_each = record.counters.get("ExecuteReplicated", 0) and made <= TENSORS_PER_OP * record.graphs
    return record.graphs if one_each else 0


def _handed_over(host: Host, driver: Track | None, vocabulary: Vocabulary, steps: Steps) -> float:
    """Programs that the training thread and autograd's threads handed over in a step; 0 where the latter did not."""
    if driver is None or not len(steps):
        return 0.0
    backward = autograd_threads(host)
    behind = sum(_count(track, vocabulary, steps) for track in backward) / len(steps)
    return behind + _count(driver, vocabulary, steps) / len(steps) if behind >= FROM_AUTOGRAD else 0.0


def _count(track: Track, vocabulary: Vocabulary, steps: Steps) -> int:
    rows = np.isin(track.name_row, vocabulary.handed_over.rows(track.plane.events.names))
    return int(steps.hold(track.start[rows]).sum())
