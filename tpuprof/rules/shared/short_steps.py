"""Steps that are one short program each: a token, a small batch. What a call costs is then a good part of the step."""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.host.eager_dispatch import EagerDispatch
from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Outcome, Price, failed
from tpuprof.rules.pricing import BOUND
from tpuprof.rules.programs import JAX
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, MOSTLY_SHORT_FROM_SHARE, SHORT_STEP_UP_TO_MS
from tpuprof.signals import Signals
from tpuprof.units import format_ms, format_share


def short_steps(signals: Signals, found: EagerDispatch, evidence: list[Evidence]) -> Outcome | None:
    """Fail where calls of few programs take enough of short steps; None where they do not.

    On a CPU device an op that takes some microseconds is mostly the cost of starting it. How much of it is work is not
    known, so that such a step fails where nearly all of it may be that cost, and the price says from where to where.
    """
    step_ms = signals.step_ms
    if signals.framework != JAX or not signals.sees_device or not 0 < step_ms <= SHORT_STEP_UP_TO_MS:
        return None
    means = signals.steps.mean_parts()
    calling = means.get(part.DISPATCH, 0.0) / step_ms
    on_cpu = signals.device_type == "CPU"
    short = signals.short_ops_share if on_cpu else 0.0
    starting = short * means.get(part.COMPUTE, 0.0) + (means.get(part.OTHER_DEVICE, 0.0) if on_cpu else 0.0)
    known = calling >= FAILS_FROM_SHARE
    share = calling + starting / step_ms
    if not known and share < MOSTLY_SHORT_FROM_SHARE:
        return None
    if starting:
        what = "short ops of the device, whose time may be their work or the cost of starting them"
        evidence.append(Evidence(what, starting, "ms per step"))
    # In one call for many steps the device waits for no other call. But Python may need each result before the next
    # step, and calls take longer where other work has the CPUs.
    certain = known and signals.bound != "sync" and not (on_cpu and signals.cpus_taken)
    least = calling if certain else 0.0
    programs = max(round(found.programs), 1)
    program = "one short program" if programs == 1 else f"{programs} short programs"
    return failed(
        share,
        evidence,
        title=f"A step is {program} ({format_ms(step_ms)}), and up to {format_share(min(share, 1.0))} of it goes to "
        f"calls{' and to starting ops' if on_cpu else ''}",
        price=Price(savings=Savings(least * step_ms, min(share, 1.0) * step_ms, BOUND)),
        confidence="medium" if known else "low",
    )
