"""Each op of the step runs as a program of its own.

## What it detects

Training in torch_xla's eager mode (`torch_xla.experimental.eager_mode(True)`) without `torch_xla.compile`, or with a
part of the step outside of the compiled function, such as optimizer.step().

## Why it costs time

In eager mode the host cuts a graph, looks a program up and hands it over for each op. The compiler cannot fuse ops, and
every value between two of them goes through device memory.

## Evidence

Ops per step that torch_xla ran eagerly, by its own metric `EagerOpExecuteTime`; of captures without it, programs that
the training thread and autograd's threads hand over.

## How to fix

[whole] Compile the step: put forward, backward and optimizer.step() in a function, and call
`torch_xla.compile(function)`. Eager mode stays on for the rest. Or leave eager mode off, and call torch_xla.sync() once
per step.

[rest] A part of the step is compiled already. Put what runs eagerly beside it in the same function, mostly
optimizer.step() and optimizer.zero_grad(). Or leave eager mode off, and call torch_xla.sync() once per step.

## Limits and false positives

The price knows the host's side: a compiled step still traces its ops, in about a third of the time, and waits for the
device in none of them. What fusion gains on the device is not in it.

Where a part of the step is compiled already, only what the host does for the other ops is priced, and waits for the
device stay. The price then begins with half of what their own graph cuts and hand-overs take while the device idles: a
larger function still runs the Python around them. For an AdamW of 53 parameters beside a compiled forward and backward
pass the device waited for 66 ms of each step of 159 ms, and 9.8 to 55 ms were said; in the compiled function as well,
it saved 22 ms (the CPU device).

## References

- https://docs.pytorch.org/xla/release/r2.9/learn/eager.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.host.eager_mode import EagerOps
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.simulate.timeline import DEVICE_WAIT

# How much of the host's time a compiled step needs (ratio). A step of three linear layers took 4.0 to 5.5 ms with lazy
# tensors and 14 to 16 ms in eager mode (measured, PJRT_DEVICE=CPU, torch_xla 2.9).
LEFT_AT_LEAST = 0.2
LEFT_AT_MOST = 0.5
_HOST = (part.TRACING, part.DISPATCH)


@rule(
    about="eager mode",
    good="Eager mode costs little or nothing",
    bad="Each op is a program of its own: eager mode is on",
    torch_only=True,
    of_one_host=True,
    reads=("typical_parts", "typical_ms", "eager_ops"),
)
def check(signals: Signals) -> Outcome:
    """Fail where most of the step's ops run eagerly and the device waits for them."""
    found = signals.eager_ops
    if found is None:
        return passed()
    what = "by torch_xla's own count" if found.counted else "by the programs that autograd's threads run too"
    evidence = [Evidence(f"ops run one by one, {what}", found.per_step, "ops per step")]
    waits = sum(signals.typical_parts.get(name, 0.0) for name in _HOST)
    evidence.append(Evidence("device idle while the host traces or hands over", waits, "ms per step"))
    if found.own_share is not None:
        waits *= found.own_share
        evidence.append(Evidence("of it outside of compiled functions", waits, "ms per step"))
    share = waits / signals.typical_ms
    if share < FAILS_FROM_SHARE:
        return passed(evidence, reason="eager mode is on, but the device hardly waits for it")
    if found.own_share is not None:
        return _beside(found, share, found.own_share, evidence)
    return failed(
        share,
        evidence,
        title=f"Eager mode runs each op as a program of its own: {found.per_step:,.0f} programs per step",
        price=counterfactual(_compiled(LEFT_AT_LEAST), _compiled(LEFT_AT_MOST)),
        confidence="high" if found.counted else "medium",
        cases=frozenset({"whole"}),
    )


def _beside(found: EagerOps, share: float, own_share: float, evidence: list[Evidence]) -> Outcome:
    """Ops beside a compiled function: of the host's time no more than theirs goes, and for sure that of their cuts.

    The device's waits for the compiled function's program are there with the ops in it as well.
    """
    gone = ((1 - LEFT_AT_LEAST) * own_share, (1 - LEFT_AT_MOST) * found.cuts_share)
    most, least = (Change(host=dict.fromkeys(_HOST, 1 - each)) for each in gone)
    programs = f"{found.per_step:,.0f} programs per step"
    return failed(
        share,
        evidence,
        title=f"Eager mode runs each op outside of the compiled function as a program of its own: {programs}",
        price=counterfactual(most, least),
        cases=frozenset({"rest"}),
    )


def _compiled(left: float) -> Change:
    """A step that is one program, for which the host works for so much of its time (ratio).

    The runtime's waits go with the small programs: each waits for one before it, and a step of one program runs ahead.
    """
    return Change(host={**dict.fromkeys(_HOST, left), DEVICE_WAIT: 0.0})
