"""Ops run on the host because XLA has no lowering for them.

## What it detects

`aten::` counters that rise in the captured steps: ops torch_xla cannot lower, which it runs on the CPU instead.

## Why it costs time

Each such op cuts the graph, waits for the device, copies its inputs to the host, computes there and copies the result
back; nothing overlaps with it.

## Evidence

The ops and how often a step they fell back, and the time a step spent reading from and writing to the device.

## How to fix

Replace the op by ones that XLA lowers, or move it out of the step.

Before:

    ranks = torch.linalg.matrix_rank(x)

After:

    with torch.no_grad():
        if step % 100 == 0:
            ranks = torch.linalg.matrix_rank(x.cpu())

## Limits and false positives

The price leaves out the waits, transfers and cuts of the step; what the op's replacement costs on the device is not in
it. `aten::_local_scalar_dense` is a read of a value and counted by device-to-host-sync.

## References

- https://docs.pytorch.org/xla/release/r2.9/learn/troubleshoot.html
- https://github.com/pytorch/xla/issues/2422
"""

from __future__ import annotations

from tpuprof.model import attribution as part
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import STABLE, Outcome, counterfactual, failed, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, FALLBACKS_FROM
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change

_SIDE = (part.HOST_SYNC, part.HOST_TO_DEVICE)


@rule(good="Every op is lowered to XLA", bad="Ops fall back to the host", status=STABLE)
def check(signals: Signals) -> Outcome:
    """Fail where ops fall back in the usual step and the replay without them is worth naming."""
    found = {name: count for name, count in signals.fallbacks.items() if count >= FALLBACKS_FROM}
    evidence = [Evidence(name, count, "calls a step") for name, count in found.items()]
    if not found:
        return passed()
    share = 1 - signals.busy_share
    if share < FAILS_FROM_SHARE:
        return passed(evidence, reason="ops fall back, but the device hardly idles")
    gone = dict.fromkeys(_SIDE, 0.0)
    return failed(
        share,
        evidence,
        title=f"{', '.join(found)} {'falls' if len(found) == 1 else 'fall'} back to the host",
        price=counterfactual(Change(host=gone, unblock=True, join_cuts=0.0), Change(host=gone, unblock=True)),
        confidence="high",
    )
