"""Chips of a host wait for one that comes last, always the same or now one and now another.

## What it detects

Programs whose chips wait for each other, before they begin (`barrier-cores`) or in collectives of all chips, where a
chip of a host waits much less than another: it comes last. Where several wait as little, none is named. Also chips that
come last to collectives by turns: all of them wait long, and about as long as each other.

## Why it costs time

A program with collectives begins when its last chip is there, and a collective ends when the last one has come. All
others wait for what one chip does in addition.

## Evidence

Each chip of the host with its waits for the others inside steps, per step: its time in barriers, and how much longer
than the chip that came last it was in each collective.

## How to fix

[alone] Look at what the chip that comes last does alone: norms, logging or evaluation of rank 0, a larger shard, its
own uploads. Do it less often, or on all chips at the same time.

[turns] Look at what is unlike from chip to chip in each step: batches of unlike lengths (sort them by length, or pack
several into one row), tokens routed to experts (limit each expert's capacity), loops whose number of rounds depends on
the data. Give each chip as much work as the others.

## How to fix in JAX

[alone] Look at what the chip that comes last does alone: arrays that live on the first device only (`jnp.array`
without a sharding), its own uploads, a larger shard. Give such arrays the sharding of the others.

[turns] Look at what is unlike from chip to chip in each step: batches of unlike lengths (sort them by length, or pack
several into one row), tokens routed to experts (limit each expert's capacity), `jax.lax.while_loop` over data of one
chip. Give each chip as much work as the others.

## Limits and false positives

The price is a bound: how early the others could begin is not in the trace. Of chips that are late by turns it is what
each waits on average: so much is saved where all have as much work. Collectives of some of the chips are not
looked at, nor those that the trace shows on some chips only. Chips of other hosts are the business of straggler-host.

## References

- https://cloud.google.com/tpu/docs/performance-guide
"""

from __future__ import annotations

from tpuprof.report.late_chip import by_host, late_by_turns, spread
from tpuprof.report.schema import Evidence, Savings
from tpuprof.report.sections import ChipWaitRow
from tpuprof.rules.base import Outcome, Price, failed, not_applicable, not_checked, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import format_ms


@rule(
    about="chips of a host that wait for each other",
    good="Chips of a host hardly wait for one of them",
    bad="Chips of a host wait for one that comes last",
    of_one_host=True,
    reads=("step_ms", "step_count", "chips_per_host", "host_pace", "is_tpu"),
)
def check(signals: Signals) -> Outcome:
    """Fail where, on some host, chips wait for the last one for enough of the step, whichever it is."""
    if not signals.is_tpu:
        return not_applicable("only chips of a TPU are compared")
    if signals.chips_per_host < 2:
        return not_applicable("no host has two chips whose steps the trace shows")
    rows = [group for group in by_host(signals.host_pace.chip_waits) if len(group) > 1]
    if not rows:
        return not_checked(
            "the trace has neither `barrier-cores` events nor common collectives of several chips, so that its chips "
            "cannot be compared"
        )
    step_ms, count = signals.step_ms, signals.step_count
    worst = max(rows, key=_waited)
    lag = _waited(worst) / count
    ordered = sorted(worst, key=lambda row: row.all_ms_in_steps)
    evidence = [
        Evidence(f"{row.device} waits", row.all_ms_in_steps / count, "ms per step", host=row.host)
        for row in ordered
    ]
    if lag / step_ms < FAILS_FROM_SHARE:
        return passed(evidence)
    return failed(
        lag / step_ms,
        evidence,
        title=_title(ordered, lag, count, step_ms),
        cases=frozenset({"turns" if late_by_turns(worst) else "alone"}),
        price=Price(savings=Savings(0.0, lag, "bound")),
    )


def _waited(rows: list[ChipWaitRow]) -> float:
    """What chips wait for those that come late (ms): by turns all of them, so that the mean of them counts."""
    return sum(row.all_ms_in_steps for row in rows) / len(rows) if late_by_turns(rows) else spread(rows)


def _title(ordered: list[ChipWaitRow], lag: float, count: int, step_ms: float) -> str:
    """One chip is named as the last only where every other one waits enough longer than it."""
    if late_by_turns(ordered):
        return f"Chips come last by turns, no single one is late: each waits {format_ms(lag)} per step on average"
    alone = (ordered[1].all_ms_in_steps - ordered[0].all_ms_in_steps) / count
    if alone >= FAILS_FROM_SHARE * step_ms:
        return f"{ordered[0].device} comes last: another chip waits {format_ms(lag)} per step longer for it"
    return f"{ordered[-1].device} waits {format_ms(lag)} per step longer than the chips that come last"
