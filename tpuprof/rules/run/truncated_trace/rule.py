"""The capture is not whole.

## What it detects

Traces that lost a part: processes without a profile, hosts without device activity or without a training thread,
errors the profiler noted. Fewer steps than asked for, because the program ended before, are no loss.

## Why it costs time

It costs none. But what is missing is in no figure: the step that explains the run may be the one that was lost.

## Evidence

What is missing: a part of the trace, or compiles that the captured steps asked for and that the trace does not show.

## How to fix

Capture fewer steps, as XProf stops at 2 GB per host, and while training still runs.

## How to fix in TorchTPU

[lost] Capture fewer steps, and see that every rank's file is in the same folder: `<host>_<rank>.xplane.pb`.

[start] Capture later steps (`--warmup`): these are among the first ones of training, and compiling ends after them.

[ahead] Capture more steps (`--steps`), or read a value every few steps: then compiles lie in the steps that need them.

## How to fix in JAX

Capture fewer steps, as XProf stops at 2 GB per host, and while training still runs.

## Limits and false positives

A host that had no work in the captured steps shows no device activity for a good reason.

## References

- https://github.com/vllm-project/tpu-inference/pull/3039
- https://github.com/jax-ml/jax/issues/21295
"""

from __future__ import annotations

from tpuprof.model.compile.recurrence import Returns
from tpuprof.model.compile.unseen import is_of_unseen_compiles
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
        "compiles_return",
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
    return failed(
        0.0, evidence, reason="no step time is at stake, only what is known of it", cases=_cases(signals)
    )


def _cases(signals: Signals) -> frozenset[str]:
    """What the advice is for: something was lost, or the host ran ahead of its compiles, at the start or all along."""
    ahead = [is_of_unseen_compiles(note) for note in signals.missing]
    found = {"lost"} if not all(ahead) else set()
    if any(ahead):
        found.add("start" if signals.compiles_return == Returns.NEVER.value else "ahead")
    return frozenset(found)
