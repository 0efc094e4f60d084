"""Compiling keeps training from starting.

## What it detects

Graph cuts before the captured steps that spent at least twenty seconds on compiling. Where they did not, captured
steps that are left out because they compiled what never compiled again, as the first evaluation does, for as long.
Where captured steps are among those of the start, since compiles ended some time after them, all that it compiled.

## Why it costs time

Every start of the run waits for them: each edit, each preemption, each resumed job.

## Evidence

Graphs compiled before training was steady, the time those graph cuts took; where many of the first steps compiled a
graph of their own, how many, what changed from one to the next, and its line; of a predicted run, what the
TPU compiler took for the step; how many layers repeat, and how much of the program they are, where annotations name
them; where no layers repeat, the lines that each hold a tenth of the program's ops and more. A preflight's compile
times, where it is in the run folder.

## How to fix

[many] Each of these steps compiled a graph of its own, until there was one for each case. Where a Python number selects
a position or a length (`queue[:, i:i + n] = rows`), let a tensor on the device do so: `queue.index_copy_(1, positions,
rows)`, or `torch.roll`. Where it is a value, make it a tensor (recompiles-constant); where shapes differ, pad them to
one, or a few (recompiles-shape); where Python decides what is computed, such as which layers are dropped, compute all
of it and select (recompiles-other).

[reads] Most of these graphs are run by reads of values in mid-step: each of them compiles a graph of its own. A step
without such reads is one graph. Take the reads out first: see device-to-host-sync.

[later] A part of the program that runs seldom, an evaluation, say, compiles as it first runs, and training waits for
that in each run. Where a value that is read ends a Python loop there (`if done.all(): break`), run a fixed number of
rounds, or end each round with `torch_xla.sync()` and read after it. Where a size grows from round to round, as that of
a cache of keys and values, allocate the whole length once. All rounds then run one program.

[lines] Much of the program comes from few lines, which the evidence names: Python runs them over and over, and each
turn stands in the program. Where turns do not need each other's results (tasks, heads, rows), write one op over all of
them: a batched op, or `torch.func.vmap`. Where they do (time steps), use `torch_xla.experimental.scan.scan`.

[large] Make the program smaller: what a Python loop repeats stands in it once per turn. Fold equal layers with
scan_layers. On TPU compare the step before you keep it: scan stacks every activation, and in preflight's comparison of
a 24-layer decoder (docs/preflight.md) it halved the compile and doubled the step.

Then let later runs find programs compiled, where that works: see persistent-cache-off.

## How to fix in TorchTPU

[many] Each of these steps compiled a program of its own, until there was one for each case: give what changes from step
to step as a tensor, and shapes one size, or a few.

[later] A part of the program that runs seldom, an evaluation, say, compiles as it first runs, and training waits for
that in each run. Where a size grows from round to round there, allocate the whole length once.

Have later starts find programs compiled: see persistent-cache-off. Of a model under torch.compile, compile the block
that repeats instead of the whole model (`for block in blocks: block.compile()`): programs of equal blocks are one
program. On the CPU plugin the start of a model of forty blocks took a third of the CPU time, and its step took longer.
On a device this was not tried.

## How to fix in JAX

[many] Each of these steps compiled a program of its own, until there was one for each case. Give what changes as an
array: `jax.lax.dynamic_update_slice(queue, rows, (0, i))` takes a position as a traced number. Where shapes differ, pad
them to one, or a few (recompiles-shape).

[later] A part of the program that runs seldom, an evaluation, say, compiles as it first runs, and training waits for
that in each run. Where a size grows from round to round, as that of a prompt or of a cache of keys and values, allocate
the whole length once, and pass the position as an array: all rounds then run one program.

[lines] Much of the program comes from few lines, which the evidence names: Python runs them over and over, and each
turn stands in the program. Where turns do not need each other's results (tasks, heads, rows), use `jax.vmap`. Where
they do (time steps), use `jax.lax.scan`.

[large] Make the program smaller: `jax.lax.scan` over stacked layers. Compare the step before you keep it: scan stores
every activation unless the body is under `jax.checkpoint`.

Then keep compiled programs: see persistent-cache-off.

## Limits and false positives

The time is that of the graph cuts that compiled, tracing's last part included. The price spreads it over the steps of
a run of ten thousand steps: a longer run pays less a step. Where annotations name the layers
(`tpuprof.annotate_modules`), or a JAX program on the CPU device tells that they repeat, folding saves the compile of
their ops, all but one layer's, and compiling is taken to last as long as the program has ops: at least those that
belong to a layer, in what the line compiled that compiled longest, at most those that name nothing as well. Else it is
not known what folding leaves, and the whole compile is the upper bound. What scan adds to stack parameters and to
cut gradients apart is not counted: layers of many small parameters save less.

Where the line that compiled longest goes on to compile in captured steps at least half as often, and after them, it
does not fail: that is no start, and the findings on compiles price it.

Compiles that reads make have no line in the notes of the steps before the capture. They are taken for those of the
reads that run graphs in the captured steps, where those are at least half as many.

Where each of the first steps compiled a graph of its own, the price is at most what all but one of them took, and at
least what all but two did where a number in the graph changed: as a tensor it is in one graph, or in two, as at any
start. Where shapes changed, how many are left is unknown, and it begins at nothing.

## References

- https://github.com/pytorch/xla/issues/6614
- https://docs.pytorch.org/xla/release/r2.9/features/scan.html
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tpuprof.model.compile.recurrence import Returns
from tpuprof.model.steps.phase import ONE_OFF_COMPILE
from tpuprof.report.between import compiles_in
from tpuprof.report.labels import longest_line, source_of
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import STABLE, Outcome, failed, passed, rule
from tpuprof.rules.shared.compile_kinds import compile_evidence as compile_row_evidence
from tpuprof.rules.shared.first_steps import first_steps
from tpuprof.rules.shared.startup import (
    at_stake,
    compile_evidence,
    saved_at_start,
    saved_of,
    share_of_short_run,
    slow_start,
)
from tpuprof.rules.shared.uncut import uncut
from tpuprof.rules.thresholds import SLOW_COMPILE_FROM_SECONDS
from tpuprof.signals import Signals
from tpuprof.units import MS_PER_S, counted

if TYPE_CHECKING:
    from tpuprof.model.compile.start_graphs import StartGraphs
    from tpuprof.report.schema import LoopRow
    from tpuprof.report.sections import GraphCutRow

# Share of the rate at which steps compiled before the capture that captured ones must have for the start to be no other
# thing (share): a program that compiles now and then, and did so for its start, has one. A judgement.
ALIKE_FROM = 0.5
# Share of the start's compiles, by time, of which no line is known, and of their number that reads must run per
# captured step, for them to be the reads' (share): most of them. A judgement.
OF_READS_FROM = 0.5
# What is said where the compiles of the start go on while training: their own findings price them.
COME_AGAIN = "Compiles before the captured steps are of a line that compiles again and again"
_CHANGED = {
    "constant": "a number in the graph changed",
    "shape": "shapes changed",
    "dtype": "types of inputs changed",
    "sharding": "shardings changed",
    "again": "the same graph was compiled again",
}


@rule(
    status=STABLE,
    about="compile time before training is steady",
    good="Compiling does not hold up the start",
    bad="Compiling keeps training from starting",
    broad=True,
    reads=(
        "step_ms",
        "startup_compile_seconds",
        "startup_compile_source",
        "startup_compiles",
        "startup_longest_line_share",
        "startup_unlined_share",
        "cutting_reads",
        "uncut_steps",
        "compile_share",
        "start_graphs",
        "phases",
        "compiles_outside_steps",
        "compiles_return",
        "after_capture",
        "records_if_noted",
        "step_compiles",
        "records",
        "steps",
        "predicted",
        "unrolled",
        "program_lines",
        "preflight",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where compiles before the capture take too long."""
    evidence = compile_evidence(signals)
    beyond = None if signals.predicted else _still_starting(signals)
    if beyond or not slow_start(signals):
        return beyond or _first_runs(signals) or passed(evidence)
    seconds = signals.startup_compile_seconds
    if signals.predicted:
        return failed(
            0.0,
            evidence,
            title=f"The TPU compiler took {seconds:.0f} s for the step",
            reason="it cannot be priced: that was on the machine that predicted this run, not on the TPU's host",
        )
    if uncut(signals) or _come_again(signals):
        return passed(evidence, title=COME_AGAIN)
    many = signals.start_graphs
    if many is not None:
        return _one_by_one(signals, many, evidence)
    title = _waited(seconds)
    reads = _of_reads(signals)
    if reads:
        return failed(
            at_stake(signals),
            # What the longest graph cut compiled is the smaller part.
            [*(_graphs(row) for row in reads), *(replace(each, source="") for each in evidence)],
            title=f"{title}, most of it for graphs that reads run at {reads[0].source}",
            price=saved_at_start(signals, 0.0, 1.0),
            cases=frozenset({"reads"}),
        )
    least, most, layers = _folded(signals)
    lines = [] if layers else [_of_line(row) for row in signals.program_lines]
    return failed(
        at_stake(signals),
        # A finding is at the line of its first evidence.
        [*lines, *evidence, *layers],
        title=title,
        price=saved_at_start(signals, least, most),
        cases=frozenset({"lines" if lines else "large"}),
    )


def _still_starting(signals: Signals) -> Outcome | None:
    """All that the start compiled before, in and after the captured steps; None where these are not a part of it."""
    if signals.compiles_return != Returns.NEVER.value:
        return None
    # Most runs have none, and a plain analysis starts faster without it.
    from tpuprof.model.compile.start_graphs import MANY_STEPS

    start = first_steps(signals)
    if start is None or start.seconds < SLOW_COMPILE_FROM_SECONDS:
        return None
    rows = start.compiles
    cause = rows[0].cause
    one_by_one = start.steps >= MANY_STEPS and cause.kind in _CHANGED
    title, (least, most) = _waited(start.seconds), (0.0, 1.0)
    if one_by_one:
        source = next(iter(cause.places), "")
        title += f": {_each_compiled(start.steps, start.of, cause.kind, source)}"
        least, most = _all_but_two_or_one(start.steps)
    return failed(
        share_of_short_run(start.seconds, start.later_ms or 0.0),
        [
            compile_row_evidence(rows[0]),
            Evidence("graphs compiled before, in and after the captured steps", start.graphs, "graphs"),
            Evidence("time of the graph cuts that compiled them", start.seconds, "s"),
        ],
        title=title,
        price=saved_of(start.seconds, least if cause.kind == "constant" else 0.0, most),
        cases=frozenset({"many" if one_by_one else "large"}),
        specific=one_by_one and bool(cause.places),
    )


def _first_runs(signals: Signals) -> Outcome | None:
    """Compiles of captured steps that are left out, since they never came again, where they took long; else None."""
    left_out = [row for row in signals.phases if row.name == ONE_OFF_COMPILE]
    rows = compiles_in(signals.compiles_outside_steps, left_out)
    seconds = sum(row.duration_ms for row in rows) / MS_PER_S
    if seconds < SLOW_COMPILE_FROM_SECONDS:
        return None
    line, _ = longest_line(rows)
    return failed(
        share_of_short_run(seconds, signals.step_ms),
        [
            Evidence("graphs compiled in captured steps that are left out", len(rows), "graphs", source=line),
            Evidence("time of these compiles", seconds, "s"),
        ],
        title=f"Training waited {seconds:.0f} s for {counted(len(rows), 'compile')} that never came again"
        + (f", most of it at {line}" if line else ""),
        price=saved_of(seconds, 0.0, 1.0),
        cases=frozenset({"later"}),
    )


def _of_reads(signals: Signals) -> list[GraphCutRow]:
    """The reads in captured steps whose graphs are most of what the start compiled; empty where they are not."""
    share = signals.startup_unlined_share
    if share < OF_READS_FROM:
        return []
    reads = [row for row in signals.cutting_reads if row.source]
    enough = OF_READS_FROM * share * signals.startup_compiles
    return reads if sum(row.per_step for row in reads) >= enough else []


def _of_line(row: LoopRow) -> Evidence:
    what = "the program's ops that come from this line, of those that name one"
    return Evidence(what, row.ops_share_low, "share", source=row.source)


def _graphs(row: GraphCutRow) -> Evidence:
    return Evidence(
        "graphs that reads run per step, each compiled once", row.per_step, "graphs", source=row.source
    )


def _come_again(signals: Signals) -> bool:
    """Whether the line that compiled longest at the start compiles in captured steps about as often, and will again."""
    if signals.compiles_return != Returns.YES.value:
        return False
    rows = [row for row in signals.step_compiles if source_of(row.line) == signals.startup_compile_source]
    before = [bool(each.compiles) for each in signals.records if each.before and each.is_step]
    rate = sum(before) / len(before) if before else 0.0
    again = len({(row.host, row.step) for row in rows}) / len(signals.steps)
    return bool(signals.startup_compile_source) and again > 0 and again >= ALIKE_FROM * rate


def _one_by_one(signals: Signals, many: StartGraphs, evidence: list[Evidence]) -> Outcome:
    """Many of the first steps compiled a graph of their own: one of them, or two, would do."""
    cause = Evidence(
        f"{many.cause.kind}: {many.cause.detail}", source=many.cause.source, also=list(many.cause.also)
    )
    what = _each_compiled(many.steps, many.of, many.cause.kind, many.cause.source)
    two, one = (many.share * part for part in _all_but_two_or_one(many.steps))
    return failed(
        at_stake(signals),
        [cause, *evidence],
        title=f"{_waited(signals.startup_compile_seconds)}: {what}",
        price=saved_at_start(signals, two if many.cause.kind == "constant" else 0.0, one),
        cases=frozenset({"many"}),
        specific=bool(many.cause.source),
    )


def _waited(seconds: float) -> str:
    return f"Training waited {seconds:.0f} s for the compiler before it was steady"


def _each_compiled(steps: int, of: int, kind: str, source: str) -> str:
    """How many of the first steps compiled, or how many calls, and why. The detail of a cause is of one graph."""
    at = f" at {source}" if source else ""
    calls = f"{steps} of the first {counted(of, 'step')}" if of else counted(steps, "call")
    return f"{calls} compiled a graph each, as {_CHANGED.get(kind, 'the ops differed')}{at}"


def _all_but_two_or_one(steps: int) -> tuple[float, float]:
    """What of so many compiles all but two are, and all but one (share)."""
    two, one = (max(1 - left / steps, 0.0) for left in (2, 1))
    return two, one


def _folded(signals: Signals) -> tuple[float, float, list[Evidence]]:
    """Share of the compiles that folding repeated layers saves, at least and at most, and what tells of them.

    At least of the line that compiled longest: programs of other lines may hold no layers.
    """
    row = signals.unrolled
    if row is None or not row.trip_count or row.ops_share_low is None or row.ops_share_high is None:
        return 0.0, 1.0, []
    folded = 1 - 1 / row.trip_count
    evidence = [
        Evidence(f"{row.detail} in {row.module or 'a program'}", row.trip_count, "copies", source=row.source),
        Evidence("ops that belong to one of them, of all ops of the program", row.ops_share_low, "share"),
        Evidence("with those that name nothing", row.ops_share_high, "share"),
    ]
    least = row.ops_share_low * folded * signals.startup_longest_line_share
    return least, row.ops_share_high * folded, evidence
