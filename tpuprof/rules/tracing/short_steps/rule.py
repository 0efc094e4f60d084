"""A step is one short program, so that calling it is a good part of the step.

## What it detects

JAX steps of a millisecond and less that are a program or a few: one call per token of a decoding loop, or per tiny
batch, of which calls take at least a tenth. On a CPU device also steps of which calls and short ops (0.05 ms and less
per run) take at least half.

## Why it costs time

Python calls each program: some 10 us of an idle CPU, more of a busy one. While a device works for no longer than that,
it waits for the next call.

## Evidence

Programs and ops per step, the time of calls, and of short ops on a CPU device.

## How to fix in JAX

Run many steps or tokens in one call: `jax.lax.scan` over the steps, or `jax.lax.fori_loop`, and read the results after
it. Where Python must run between two calls, as an environment in NumPy does, give each call more: a larger batch, more
cases.

## Limits and false positives

Python may need each result before the next step: the price begins at nothing where reads bind the step, or where other
work has the CPUs. On a CPU device it ends without the time of short ops: how much of that is their work, and how much
the cost of starting them, is not known. A program that is there to be small, as a test, is right as it is.

## References

- https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Outcome, Price, failed, not_applicable, not_checked, passed, rule
from tpuprof.rules.pricing import BOUND
from tpuprof.rules.programs import JAX
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, MOSTLY_SHORT_FROM_SHARE, SHORT_STEP_UP_TO_MS
from tpuprof.rules.tracing.eager_dispatch.rule import EAGER_FROM_PROGRAMS
from tpuprof.signals import Signals
from tpuprof.units import format_ms, format_share


@rule(
    about="steps of one short program",
    good="Steps are long beside what it costs to call them",
    bad="A step is one short program",
    broad=True,
    of_one_host=True,
    reads=(
        "sees_device",
        "framework",
        "eager_dispatch",
        "short_ops_share",
        "step_ms",
        "steps",
        "device_type",
        "bound",
        "cpus_taken",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where calls of few programs take enough of short steps.

    On a CPU device an op that takes some microseconds is mostly the cost of starting it. How much of it is work is not
    known, so that such a step fails where nearly all of it may be that cost, and the price says from where to where.
    """
    found = signals.eager_dispatch
    if found is None or signals.framework != JAX:
        return not_applicable("steps of one program were looked at in JAX alone")
    if not signals.sees_device:
        return not_checked("the trace has no device plane, so whether the device waits for calls is unknown")
    step_ms = signals.step_ms
    evidence = [
        Evidence("programs run", found.programs, "per step"),
        Evidence("ops called", found.ops, "per step"),
    ]
    if found.programs >= EAGER_FROM_PROGRAMS or step_ms > SHORT_STEP_UP_TO_MS:
        return passed(evidence, reason="a step is many programs, or long enough")
    means = signals.steps.mean_parts()
    calls_ms, starting_ms = means.get(part.DISPATCH, 0.0), _starting_ms(signals)
    evidence.append(Evidence("time of calls", calls_ms, "ms per step"))
    calling, share = calls_ms / step_ms, min((calls_ms + starting_ms) / step_ms, 1.0)
    if calling < FAILS_FROM_SHARE and share < MOSTLY_SHORT_FROM_SHARE:
        return passed(evidence)
    if starting_ms:
        what = "short ops of the device, whose time may be their work or the cost of starting them"
        evidence.append(Evidence(what, starting_ms, "ms per step"))
    programs = max(round(found.programs), 1)
    program = "one short program" if programs == 1 else f"{programs} short programs"
    return failed(
        share,
        evidence,
        title=f"A step is {program} ({format_ms(step_ms)}), and up to {format_share(share)} of it goes to "
        f"calls{' and to starting ops' if signals.device_type == 'CPU' else ''}",
        price=Price(savings=Savings(_least(signals, calling) * step_ms, share * step_ms, BOUND)),
        confidence="medium" if calling >= FAILS_FROM_SHARE else "low",
    )


def _starting_ms(signals: Signals) -> float:
    """What of a step a CPU device may take to start short ops (ms); 0 on others."""
    if signals.device_type != "CPU":
        return 0.0
    means = signals.steps.mean_parts()
    return signals.short_ops_share * means.get(part.COMPUTE, 0.0) + means.get(part.OTHER_DEVICE, 0.0)


def _least(signals: Signals, calling: float) -> float:
    """What one call for many steps saves at least (share).

    In it the device waits for no other call. But Python may need each result before the next step, and calls take
    longer where other work has the CPUs.
    """
    on_busy_cpus = signals.device_type == "CPU" and signals.cpus_taken
    return calling if calling >= FAILS_FROM_SHARE and signals.bound != "sync" and not on_busy_cpus else 0.0
