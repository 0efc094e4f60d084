"""A summary as the model's host, without events: what sections that need none are computed from."""

from __future__ import annotations

import numpy as np

from tpuprof.model.attribution import Breakdown
from tpuprof.model.device.activity import DeviceActivity, ProgramRuns, no_ops
from tpuprof.model.device.memory import DeviceMemory
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.annotations import Annotations
from tpuprof.model.host.tracing import Tracing
from tpuprof.model.host.vocabulary import Activity
from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import EMPTY
from tpuprof.model.read_graphs import again_alone
from tpuprof.parts import NAMES
from tpuprof.pod.summary import DeviceFacts, HostSummary


def host_run(summary: HostSummary) -> HostRun:
    """The host with its steps, their parts and its devices' names; all tables of events are empty."""
    none = np.zeros(len(summary.steps), np.int64)
    names = [*NAMES, *(name for name in summary.parts if name not in NAMES)]
    parts = {name: summary.parts.get(name, none) for name in names}
    return HostRun(
        name=summary.name,
        size=summary.size,
        origin_ns=summary.origin_ns,
        framework=summary.framework,
        devices=[_device(each) for each in summary.devices],
        activity=_activity(summary.framework),
        steps=summary.steps,
        breakdown=Breakdown(parts=parts, **summary.columns),
        compiles=[],
        host_reads=list(summary.reads),
        warnings=[],
        tracing=Tracing(),
        input=None,
        loops=[],
        repetition=None,
        memory=DeviceMemory(),
        collective_roles={},
        graph_cuts=[],
        unexplained_reads_ps=0,
        read_graphs=again_alone(summary.again),
        queue=summary.queue,
        after=summary.told.after,
        slice_messages=list(summary.slice_messages),
        handing_over=summary.told.handing_over,
        eager_ops=summary.told.eager_ops,
        program_ops=summary.told.program_ops,
        unnamed=summary.told.unnamed,
        blind=summary.told.blind,
    )


def _device(facts: DeviceFacts) -> DeviceActivity:
    names, events = no_ops()
    none = np.empty(0, np.int64)
    return DeviceActivity(
        name=facts.name,
        type=facts.type,
        count=facts.count,
        ops=names,
        op_events=events,
        async_ops=names,
        async_events=events,
        programs=ProgramRuns([], none, none, none),
        executing=EMPTY,
        peak_flops_per_s=facts.peak_flops_per_s,
        peak_hbm_bytes_per_s=facts.peak_hbm_bytes_per_s,
        megacore=facts.megacore,
    )


def _activity(framework: str) -> HostActivity:
    none = np.empty(0, np.int64)
    return HostActivity(
        framework=framework,
        residual=Activity.TRACING,
        driver=None,
        by_activity={},
        user={},
        compiling=EMPTY,
        dispatching=EMPTY,
        annotations=Annotations([], [], none, none),
    )
