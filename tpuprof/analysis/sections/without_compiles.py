"""The mean step as it would be without compiles, and without the host's work that only steps with a compile have."""

from __future__ import annotations

import numpy as np

from tpuprof import parts as part
from tpuprof.model.compile.recurrence import MIN_STEPS_LEFT
from tpuprof.model.host_run import HostRun
from tpuprof.model.step_times import StepTimes, without_some
from tpuprof.units import ps_to_ms

# What goes with a compile: tracing for it, the first hand-over of its program, and collections of the garbage that
# tracing leaves. In JAX a step without a compile traces nothing.
_COLLECTING = part.USER_PREFIX + "gc"
_GOES_WITH_A_COMPILE = (part.TRACING, part.DISPATCH, _COLLECTING)


def without_compiles(hosts: list[HostRun], times: StepTimes) -> StepTimes:
    """The mean step `times` with what the host does for compiles as in steps without one.

    Where too few steps have no compile to say what those do, only compiles are left out. In JAX a single one
    says it: others trace nothing, and only the first call of a program is handed over in Python.
    """
    less = {part.COMPILE: times.parts.get(part.COMPILE, 0.0)}
    quiet = [host.breakdown.parts[part.COMPILE] == 0 for host in hosts]
    count = sum(int(each.sum()) for each in quiet)
    jax = all(host.framework == "jax" for host in hosts)
    if not count and jax:
        less |= {name: times.parts.get(name, 0.0) for name in (part.TRACING, _COLLECTING)}
    if count < (1 if jax else MIN_STEPS_LEFT):
        return without_some(times, less)
    for name in _GOES_WITH_A_COMPILE:
        usual = 0.0
        for host, without in zip(hosts, quiet, strict=True):
            column = host.breakdown.parts.get(name)
            usual += 0.0 if column is None else ps_to_ms(int(np.sum(column[without])))
        less[name] = max(times.parts.get(name, 0.0) - usual / count, 0.0)
    return without_some(times, less)
