"""The capture is not whole.

## What it detects

Traces that lost a part: processes without a profile, hosts without device activity or without a training thread,
errors the profiler noted. Fewer steps than asked for, because the program ended before, are no loss.

## Why it costs time

It costs none. But what is missing is in no figure: the step that explains the run may be the one that was lost.

## Evidence

What is missing.

## How to fix

Capture fewer steps, as XProf stops at 2 GB per host, and while training still runs.

## How to fix in TorchTPU

Capture fewer steps, and see that every rank's file is in the same folder: `<host>_<rank>.xplane.pb`.

## How to fix in JAX

Capture fewer steps, as XProf stops at 2 GB per host, and while training still runs.

## Limits and false positives

A host that had no work in the captured steps shows no device activity for a good reason.

## References

- https://github.com/vllm-project/tpu-inference/pull/3039
- https://github.com/jax-ml/jax/issues/21295
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, passed, rule
from tpuprof.rules.shared.uncut import uncut
from tpuprof.signals import Signals


@rule(
    about="completeness of the capture",
    good="Nothing is known to be missing from the capture",
    bad="The capture is not whole",
    reads=(
        "missing",
        "uncut_steps",
        "cutting_reads",
        "compile_share",
        "off_device",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where something is known to be missing; no step time is at stake."""
    evidence = [Evidence(note) for note in signals.missing]
    if not evidence:
        return passed()
    if uncut(signals) and not signals.cutting_reads:
        return passed(evidence, reason="no graph ran in the captured steps: see no-graph-cut")
    if signals.off_device:
        return passed(evidence, reason="the captured steps used nothing of the device: see not-on-device")
    return failed(0.0, evidence, reason="no step time is at stake, only what is known of it")
