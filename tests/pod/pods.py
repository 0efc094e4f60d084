"""Hosts of a pod for tests: as traces, event by event, and as summaries with planted lags."""

import numpy as np

from tests.builders import TraceBuilder
from tpuprof.analysis.sections.compute import HostDevices
from tpuprof.model.barriers import NO_BARRIERS, Barriers
from tpuprof.model.device.cpu import Queue
from tpuprof.model.device.op_table import op_totals
from tpuprof.model.steps import Steps, StepSource
from tpuprof.pod.ops import columns_of
from tpuprof.pod.summary import COLUMNS, DeviceFacts, HostSummary

REDUCE = "%all-reduce.1 = f32[8]{0} all-reduce(f32[8]{0} %g), replica_groups={}"
MS = 1_000_000_000


def trace(late=(0, 0), *, steps=5, chips=1, first=0, wait_input=0, reduce=100):
    """Steps of 1 ms that end in an all-reduce; late = (this host, the latest of all) in us.

    Of several chips the last one alone is late. `wait_input` is what of the lag a loader takes, `reduce` how long the
    all-reduce takes the latest host.
    """
    built = TraceBuilder()
    begin = 0
    for step in range(first, first + steps):
        length = 900 + reduce + late[1]
        python = built.host().line("python")
        python.event("train_step", begin, length, _r=1, step_num=step)
        if wait_input:
            python.event("tpuprof.next_batch", begin, wait_input)
        for chip in range(chips):
            own = late[0] if chip == chips - 1 else 0
            built.tpu(chip).line("XLA Modules").event("f(1)", begin + wait_input, length - wait_input)
            built.tpu(chip).line("XLA Ops").event(
                REDUCE,
                begin + 900 + own,
                reduce + late[1] - own,
                display="all-reduce.1",
                facts={"hlo_category": "all-reduce"},
            )
        begin += length
    return built


def summary(name, spent, work, *, chips=1, chip=None, first=0, program="step"):
    """A host: `spent` is its time in each collective (steps x collectives), `work` its time before each (ps).

    `chip` came last in all of them, by all of its lag; None: all chips come together.
    """
    steps, count = spent.shape
    wall = (spent + work).sum(axis=1)
    end = np.cumsum(wall)
    start = end - wall
    number = np.arange(first, first + steps)
    step = np.repeat(number, count)
    none = np.zeros(steps, np.int64)
    barriers = NO_BARRIERS
    if count:
        barriers = Barriers(
            tuple(f"all-reduce.{each}" for each in range(count)),
            step,
            np.tile(np.arange(count), steps),
            np.zeros(steps * count, np.int64),
            spent.ravel(),
            (start[:, None] + np.cumsum(spent + work, axis=1)).ravel(),
            np.full(steps * count, chip or 0),
            np.full(steps * count, 10 * MS if chip is not None else 0),
        )
    return HostSummary(
        name=name,
        path=f"{name}.xplane.pb",
        size=1,
        origin_ns=0,
        framework="torch_xla",
        program=program,
        devices=tuple(DeviceFacts(f"TPU:{each}", "TPU v5e", 1, None, None, None) for each in range(chips)),
        steps=Steps(StepSource.MARKERS, "high", number, start, end),
        parts={"compute": work.sum(axis=1), "collective_exposed": spent.sum(axis=1)},
        columns=dict.fromkeys(COLUMNS, none),
        again=none,
        reads=(),
        queue=Queue(),
        barriers=barriers,
        barriers_seen=len(barriers),
        ops=columns_of(op_totals([])),
        work=HostDevices("TPU v5e", chips, steps, int(wall.sum()) * chips, 0, None, None, None, None, None),
        memory_peak=None,
        spans={"collectives": None, "offload": None},
        report=b"",
        threads=b"",
    )


def pod(rng, hosts, steps, collectives, lags):
    """Summaries of hosts that meet at each collective; `lags` is what each takes longer per step (ps), by row.

    Work varies by half a percent from host to host and step to step.
    """
    work = 50 * MS // max(collectives, 1)
    own = (work * (1 + rng.normal(0, 0.005, (hosts, steps, max(collectives, 1))))).astype(np.int64)
    for row, lag in lags.items():
        where = int(rng.integers(max(collectives, 1)))
        own[row, :, where] += lag
    if not collectives:
        spent = np.zeros((hosts, steps, 0), np.int64)
        return [_alone(f"h{row:04}", own[row]) for row in range(hosts)]
    spent = own.max(axis=0) - own + MS // 10
    return [summary(f"h{row:04}", spent[row], own[row]) for row in range(hosts)]


def _alone(name, work):
    steps = len(work)
    found = summary(name, np.zeros((steps, 1), np.int64), work)
    return HostSummary(**{**vars(found), "barriers": NO_BARRIERS, "barriers_seen": 0})
