"""What reads cost that run graphs of their own: making them, running them, and computing the same again."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tpuprof import parts as part
from tpuprof.model.in_few_steps import said_of_few
from tpuprof.model.read_graphs import ReadGraphs, reads_cost_at_most
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE
from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Outcome, Price, failed
from tpuprof.rules.pricing import BOUND
from tpuprof.rules.shared.named_reads import (
    at_place,
    blocked_by_reads,
    blocked_evidence,
    spoken,
)
from tpuprof.rules.shared.returning_compiles import returning
from tpuprof.rules.shared.step_shares import of_each_step
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import PS_PER_MS, counted, format_ms

# The named event of a read, with the graph that it runs.
READ = "host_read"
# What of a step goes with its reads: what the host itself does in a read too, but for tracing that the step's own graph
# then needs.
GONE = Change(unblock=True, named_events={READ: 0.0})
# All of the device's work over what reads block, up to which the reads wait for the host's own work more than for the
# device (ratio).
OF_BLOCKED = 0.5
# What the step computes again, over what reads block, from which they wait for their own graphs alone (ratio): half of
# the wait is then that graph's run, and making it is the rest. A judgement.
AGAIN_OF_BLOCKED = 0.5
# Evidence of compiles that go with the reads.
COMPILED = "compiles of graphs that reads run, at the rate at which they come again"
# Evidence of programs that tell nothing.
UNTOLD = (
    "graphs of reads whose ops have no source line: whether the step does that again is unknown, so only the upper "
    "bound has it"
)


class Compiled(NamedTuple):
    """What compiles take at least and at most (ms per step), and the most as a share of all compiling."""

    low: float
    high: float
    share: float


def computed_again(signals: Signals) -> Outcome | None:
    """Where reads run graphs of their own, and the step computes the same again; None where that takes too little."""
    by_step, step_ms = signals.computed_again_ms.tolist(), signals.step_ms
    steps = len(signals.steps)
    twice = sum(by_step) / steps
    alone = twice >= FAILS_FROM_SHARE * signals.uncompiled_ms > 0
    if not alone and not _add_up(signals, twice):
        return None
    rows = signals.read_graphs
    untold = sum(row.untold_ps for row in rows) / PS_PER_MS / steps
    least, most = _limits(signals, twice)[0], _limits(signals, twice + untold)[1]
    compiled = _compiled_for_reads(signals)
    few = said_of_few(by_step)
    evidence = [
        Evidence(
            f"graphs that {row.call} ran, {row.occurrences / steps:.2g} per step: device work that the step does again",
            row.again_ps / PS_PER_MS / steps,
            "ms per step",
            source=row.source,
        )
        for row in rows
        if row.again_ps
    ]
    if signals.graphs_for_reads_ms:
        made = "device idle while the host makes graphs that reads run: a part of what they block"
        evidence.append(Evidence(made, signals.graphs_for_reads_ms, "ms per step"))
    if untold:
        evidence.append(Evidence(UNTOLD, untold, "ms per step"))
    if compiled.high:
        evidence.append(Evidence(COMPILED, compiled.high, "ms per step"))
    evidence += blocked_evidence(signals)
    again = [row for row in rows if row.again_ps]
    first = max(again or rows, key=lambda row: row.again_ps)
    place = at_place(signals, first.call, first.source)
    who = f"{spoken(signals, first.call)}{place}{_and_others(again, first)}"
    holds = "" if alone else f", holds training up for {of_each_step(signals, blocked_by_reads(signals))}"
    compiles = f"; these graphs compile for {format_ms(compiled.high)} per step" if compiled.high else ""
    return failed(
        (most + compiled.high) / step_ms,
        evidence,
        title=f"{who} in mid-step{holds}, and the step computes the same again: "
        f"{format_ms(twice)} per step{f' ({few})' if few else ''}{compiles}",
        reason="" if alone else _waits_in_cuts(signals),
        # The change says which time it is, for other findings that sell it as well.
        price=Price(
            savings=Savings(least + compiled.low, most + compiled.high, BOUND),
            most=replace(GONE, host={part.COMPILE: 1.0 - compiled.share}) if compiled.high else GONE,
        ),
    )


def _compiled_for_reads(signals: Signals) -> Compiled:
    """Compiles of graphs that reads run, at the rate at which they come again: without the reads, there is one graph.

    A new shape then compiles once, and not once for each read: eleven reads of norms took 11 of 13.5 s that way.
    """
    compiles = signals.step_compiles
    chosen = [row for row in compiles if row.in_read]
    if not chosen:
        return Compiled(0.0, 0.0, 0.0)
    of_them = returning(signals, compiles, chosen)
    took = signals.step_ms - signals.uncompiled_ms
    if took * of_them.most < FAILS_FROM_SHARE * signals.step_ms:
        return Compiled(0.0, 0.0, 0.0)
    return Compiled(took * of_them.least, took * of_them.most, of_them.most)


def _and_others(again: list[ReadGraphs], first: ReadGraphs) -> str:
    """Which other reads run graphs beside the first one, at other lines or at its own, and that they do."""
    lines = {row.source for row in again} - {first.source, ""}
    if lines:
        return f" and reads at {counted(len(lines), 'other line')} run graphs of their own"
    if len(again) > 1:
        # Reads whose line is unknown may be anywhere.
        there = " there" if len({row.source for row in again}) == 1 else ""
        return f" and {counted(len(again) - 1, 'other read')}{there} run graphs of their own"
    return " runs graphs of its own"


def _add_up(signals: Signals, twice: float) -> bool:
    """Whether reads that wait for their own graphs alone are worth naming by all that they cost.

    What they block holds making that graph and running it, and what is computed again is that run: all of it is one
    time. A read that waits for other work of the device makes turns, whatever small graph it runs.
    """
    if (
        not signals.sees_device
        or not signals.python_reads
        or signals.reads_in_steps_share < READS_IN_STEPS_SHARE
    ):
        return False
    if not twice >= AGAIN_OF_BLOCKED * blocked_by_reads(signals) > 0:
        return False
    return _limits(signals, twice)[1] >= FAILS_FROM_SHARE * signals.uncompiled_ms


def _waits_in_cuts(signals: Signals) -> str:
    """What is said of waits for the device in graph cuts, beside the price of reads; empty where there are none."""
    waited = signals.runtime_wait_ms
    if not waited:
        return ""
    return (
        f"the runtime waits for the device too, {format_ms(waited)} per step: how much of that goes with the reads is "
        "unknown, and not in the price"
    )


def own_graphs(signals: Signals) -> Outcome | None:
    """Where the host makes graphs for reads, and a device that works little does not explain what they block."""
    blocked = blocked_by_reads(signals)
    made = signals.graphs_for_reads_ms
    if not made >= FAILS_FROM_SHARE * signals.uncompiled_ms > 0:
        return None
    if not signals.sees_device or not signals.python_reads:
        return None
    if signals.step_ms * signals.busy_share > OF_BLOCKED * blocked:
        return None
    least, most = _limits(signals, sum(signals.computed_again_ms.tolist()) / len(signals.steps))
    first = signals.python_reads[0]
    place = at_place(signals, first.call, first.source)
    evidence = [
        Evidence("device idle while the host makes graphs that reads run", made, "ms per step"),
        *blocked_evidence(signals),
    ]
    return failed(
        most / signals.step_ms,
        evidence,
        title=f"{spoken(signals, first.call)}{place} runs graphs of its own in mid-step, and holds training up for "
        f"{of_each_step(signals, blocked)}",
        price=Price(savings=Savings(least, most, BOUND), most=GONE),
    )


def _limits(signals: Signals, twice: float) -> tuple[float, float]:
    """What a step saves at least and at most without reads that run graphs, where it computes so much twice (ms).

    The host goes on earlier by what they block; at the worst it then waits for all that is left of the device's work.
    """
    rest, busy = signals.uncompiled_ms, signals.step_ms * signals.busy_share
    blocked = blocked_by_reads(signals)
    around = max(blocked, _in_calls(signals))
    most = reads_cost_at_most(rest - busy, twice, around, on_cpu=signals.device_type == "CPU")
    return max(min(blocked + twice - busy, most), twice), most


def _in_calls(signals: Signals) -> float:
    """What samples find at the lines that read, in ms per step: also entering the call, and freeing its graph."""
    lines = {(row.source, row.call) for row in signals.host_reads if row.source}
    return sum(
        row.exposed_ms_per_step + row.hidden_ms_per_step
        for row in signals.stacks_if_sampled
        if any(row.source == source and f"{call}(" in row.user_call for source, call in lines)
    )
