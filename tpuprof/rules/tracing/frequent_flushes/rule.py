"""Deferred ops are run again and again within a step, because values are read.

## What it detects

TorchTPU steps with deferred and fused ops (TORCH_TPU_DEFER_AND_FUSE=1) that read values or wait for the device at least
four times, where that and the programs it makes take at least a tenth of the step.

## Why it costs time

A read needs its value now: all that was deferred until then runs as a program of its own. What could be one program
becomes several, each costs a dispatch, the compiler cannot fuse over the read, and the host waits each time.

## Evidence

Programs run and ops called per step, and each line that reads or waits, with how often per step and how long it blocks.

## How to fix in TorchTPU

Read once, at the end of the step: keep the values on the device, `torch.stack` them, and call `.tolist()` on the
stack; rarer still where every twentieth step will do. Replace a branch on a value by `torch.where`.

## Limits and false positives

TorchTPU ends programs by itself, too: of a model of equal layers it makes a program of a few layers that it then runs
again (`repeated_op_heuristic` in a log of TORCH_TRACE). Of nine programs of a step on the CPU plugin six ended at reads
and three so. Such programs do not count here. Without deferred ops a read ends no program: see device-to-host-sync.
What fusion gains on a device is not known, and none of this was tried on one, so there is no price.

## References

- https://developers.googleblog.com/torchtpu-running-pytorch-natively-on-tpus-at-google-scale/
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import format_share, times

# Reads of a step from which they end programs too often (reads). One for a log and one for a branch (a scaler that
# looks for infinite gradients, say) are usual, and three still leave most of a step whole. A judgement.
FLUSHES_FROM = 4
# Lines listed as evidence (rows).
SHOWN = 5


@rule(
    about="reads that end fused programs",
    good="Deferred ops are seldom run before their step ends",
    bad="Reads run deferred ops again and again in a step",
    of_one_host=True,
    reads=(
        "typical_parts",
        "typical_ms",
        "steps",
        "sees_device",
        "framework",
        "eager_dispatch",
        "defers_ops",
        "host_reads",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where ops are deferred, steps read often, and reads and the programs they end take enough of a step."""
    if signals.framework != "torch_tpu":
        return not_applicable("only TorchTPU defers ops and fuses them")
    found = signals.eager_dispatch
    if not signals.defers_ops or found is None:
        return not_applicable("ops are not deferred, so a read ends no fused program")
    rows = sorted(signals.host_reads, key=lambda row: -row.occurrences)
    steps = len(signals.steps)
    flushes = sum(row.occurrences for row in rows) / steps
    evidence = [
        Evidence("programs run", found.programs, "per step"),
        Evidence("ops called", found.ops, "per step"),
    ]
    evidence += [
        Evidence(
            f"{row.call}, {row.occurrences / steps:.2g} per step, blocks",
            row.blocked_ms_per_step,
            "ms per step",
            source=row.source,
        )
        for row in rows[:SHOWN]
    ]
    if flushes < FLUSHES_FROM:
        return passed(evidence)
    parts = signals.typical_parts
    ended = min(flushes / found.programs, 1.0) if found.programs else 1.0
    cost = ended * parts.get(part.DISPATCH, 0.0) + parts.get(part.HOST_SYNC, 0.0)
    share = cost / signals.typical_ms
    if share < FAILS_FROM_SHARE:
        return passed(evidence, reason="values are read often, but that takes little of the step")
    first = rows[0]
    place = f" at {first.source}" if first.source else ""
    often = "" if len(rows) == 1 else f", most of them {first.call}{place}"
    said = f"{first.call}{place} ends" if len(rows) == 1 else "Reads end"
    return failed(
        # Without a device plane the host may run ahead of a busy device: what is at stake is nothing to all of it.
        share if signals.sees_device else share / 2,
        evidence,
        title=f"{said} a fused program {times(round(flushes))} per step{often}: reads and the programs they end take "
        f"{format_share(share)} of it",
        reason="it cannot be priced: what a program of the whole step would take is unknown",
        confidence="medium" if signals.sees_device else "low",
    )
