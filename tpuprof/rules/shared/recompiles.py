"""What the rules on recompiles share: compiles inside the captured steps, chosen by the kind of their cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tpuprof import parts as part
from tpuprof.model.compile.places import line_order
from tpuprof.model.compile.recurrence import AGAIN
from tpuprof.model.outside_capture import SAME_RATE_FROM
from tpuprof.model.steps.phase import ONE_OFF_COMPILE
from tpuprof.report.labels import places_text, source_of
from tpuprof.report.schema import CompileRow, Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, passed
from tpuprof.rules.shared.common_caller import common_caller
from tpuprof.rules.shared.compile_kinds import (
    OF_ARGUMENTS,
    bakes_in_arrays,
    chosen_compiles,
    compile_evidence,
    definitions_text,
    graphs_per_shape,
)
from tpuprof.rules.shared.recompile_cases import cases_of
from tpuprof.rules.shared.returning_compiles import by_line, may_be_the_last, often_compiled, returning
from tpuprof.rules.shared.uncut import SEE, uncut
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.signals.inputs import COMPILES_FROM_STEPS
from tpuprof.simulate.change import Change
from tpuprof.units import counted, format_ms, format_share

# Compiles listed as evidence (rows).
SHOWN = 8
# Standard error of the share of steps that compile, over that share, up to which a price by it is sure (ratio): of n
# steps with the share p, sqrt((1 - p) / (n p)), a binomial distribution's. One of 45 steps has 0.99, four of eight
# 0.35. A judgement: half.
RATE_WITHIN = 0.5
# What is said where these are no finding.
TOO_LITTLE = "compiles take too little of the step time to matter"
ENDED = "compiles ended after the captured steps, so they count as start-up cost"
COMES_AGAIN_UNKNOWN = "; it is unknown whether compiles come again"
# Share of a price's upper end that is known to come again from which the finding keeps its confidence (share): the rest
# may be first calls, in a capture that begins with the training. A judgement: half.
SURE_FROM_SHARE = 0.5
# Share of the compiles from which arrays that a function bakes in are the cause (share). A judgement: most of them.
CLOSED_FROM_SHARE = 0.5
# Share of the time in compiles from which other graphs at the same line belong to the upper end of a price (share):
# below it neither the price nor its reader has any use for them. A judgement.
FURTHER_FROM_SHARE = 0.05


def check_kinds(signals: Signals, kinds: tuple[str, ...], elsewhere: Sequence[CompileRow] = ()) -> Outcome:
    """Fail where compiles with a cause of these kinds take enough of the step time, at the rate at which they return.

    A compile whose own cause is unknown (its program did not run before the capture ended, or is the first of its
    function) counts with the kind that most of the others have. One that never came again is not part of the steps;
    where it is unknown whether they return, the price begins at nothing. So it does of those that may have the cause of
    another finding (`elsewhere`).
    """
    compiles = signals.step_compiles
    if not compiles:
        if len(signals.steps) < COMPILES_FROM_STEPS:
            raise Unavailable("one step tells nothing of compiles that return: capture more steps")
        return passed(reason=_start_up(signals))
    chosen = chosen_compiles(compiles, kinds, signals.framework)
    if not chosen:
        return passed(reason=f"compiles in the captured steps have other causes ({len(compiles)})")
    if uncut(signals):
        return passed(reason=SEE)
    least, most, doubtful = returning(signals, compiles, chosen)
    if theirs := {id(row) for row in elsewhere}:
        least = returning(signals, compiles, [row for row in chosen if id(row) not in theirs]).least
    also = graphs_per_shape(compiles, chosen, kinds)
    widest = returning(signals, compiles, [*chosen, *also]).most
    if widest < most + FURTHER_FROM_SHARE:
        also, widest = [], most
    if may_be_the_last(signals, chosen):
        least, doubtful = 0.0, chosen
    unsure = {id(row) for row in doubtful}
    sure = often_compiled([row for row in chosen if id(row) not in unsure] or chosen)
    first = _first_dispatch(signals)
    compiling = signals.compile_share + _beside_compiling(signals, first)
    share = compiling * most
    part_of_all = _part_of_all(compiles, chosen)
    seen, alone = compiling * part_of_all, signals.compile_share * part_of_all
    shown = sorted(chosen, key=lambda row: (id(row) in unsure, _lacks_a_line(row)))[:SHOWN]
    evidence = [compile_evidence(row) for row in shown]
    if len(chosen) > SHOWN:
        evidence.append(Evidence("further compiles of this kind", len(chosen) - SHOWN, "compiles"))
    closed = closes_over_arrays(signals, chosen)
    within = common_caller(chosen) if _traces_to_compile(signals) else ""
    evidence = (
        _caller_evidence(within) + with_calls(signals, chosen, evidence, closed=closed) + rates(signals)
    )
    if _where_so_many(share, seen) < FAILS_FROM_SHARE:
        return passed(evidence, reason=TOO_LITTLE if widest else ENDED)
    more = _of_other_graphs(also) if also else ""
    # A cure of the lines that are named may leave others, and then saves nothing.
    others = _may_have_others(chosen)
    known = all(row.cause.kind != "unknown" for row in chosen) and not others and not elsewhere
    price = counterfactual(
        _without(signals, widest, first),
        _without(signals, 0.0 if others else least, first),
        of_step=1.0 - compiling * _part_of_all(compiles, [*chosen, *also]) + compiling * widest,
    )
    return failed(
        min(share + most * _hidden(signals), 1.0),
        evidence,
        title=_title(signals, chosen, (alone, seen), rarer=share < SAME_RATE_FROM * seen, unsure=len(unsure))
        + ("" if closed else _lines_text(signals, chosen, others=others))
        + more
        + definitions_text(chosen)
        + (f"; what compiles is called in {within}" if within else ""),
        price=replace(price, hidden=compiling * (widest - most)),
        confidence="low"
        if least < SURE_FROM_SHARE * most
        else "high"
        if known and not unsure and _rate_is_known(signals, chosen)
        else "medium",
        cases=cases_of(signals, sure),
    )


def _where_so_many(share: float, seen: float) -> float:
    """The share of compiles in steps that hold so many: those are shorter than captured ones, which hold `seen`."""
    return share / (1.0 - seen + share) if share > 0 and seen < 1 else share


def _traces_to_compile(signals: Signals) -> bool:
    """Whether the framework traces a function only where it compiles it."""
    return signals.framework == "jax"


def closes_over_arrays(signals: Signals, compiles: list[CompileRow]) -> bool:
    """Whether arrays of constants changed in most of these: JAX bakes in what a function takes from around it.

    It traces a function once for each object, so the function was made again; or it makes the array of a static
    argument. Both come from the line that calls it. That it made the same program again says nothing of constants.
    """
    changed = [row for row in compiles if row.cause.kind != AGAIN]
    arrays = sum(map(bakes_in_arrays, changed))
    return _traces_to_compile(signals) and arrays >= max(CLOSED_FROM_SHARE * len(changed), 1)


def _beside_compiling(signals: Signals, first: float) -> float:
    """Share of the step time in which functions are traced to be compiled, and first handed over."""
    if not _traces_to_compile(signals):
        return 0.0
    parts = signals.steps.mean_parts()
    return (parts.get(part.TRACING, 0.0) + first * parts.get(part.DISPATCH, 0.0)) / signals.step_ms


def _hidden(signals: Signals) -> float:
    """Tracing for compiles behind device work (share of the step): without it the host hands over that much earlier."""
    try:
        return signals.tracing_hidden_ms / signals.step_ms if _traces_to_compile(signals) else 0.0
    except Unavailable:
        return 0.0


def _first_dispatch(signals: Signals) -> float:
    """What steps that compile dispatch longer than others, as a share of all dispatching.

    JAX hands a new program over in Python, and one that ran before by a quick path; others have one way. 0 where every
    step compiles: there is then nothing to compare with.
    """
    if not _traces_to_compile(signals):
        return 0.0
    steps = signals.steps
    took = steps.parts.get(part.DISPATCH)
    compiled = {(row.host, row.step) for row in signals.step_compiles}
    hosts = (steps.hosts[host] for host in steps.host.tolist())
    first = np.array([each in compiled for each in zip(hosts, steps.number.tolist(), strict=True)], bool)
    if took is None or first.all() or not took.sum():
        return 0.0
    more = took[first] - np.median(took[~first])
    return float(np.maximum(more, 0.0).sum() / took.sum())


def _without(signals: Signals, share: float, first: float) -> Change:
    """The change that leaves out a share of compiling, and as much of what programs' first runs dispatch longer."""
    if not _traces_to_compile(signals):
        return Change(host={part.COMPILE: 1.0 - share})
    gone = dict.fromkeys((part.COMPILE, part.TRACING), 1.0 - share)
    return Change(host={**gone, part.DISPATCH: 1.0 - share * first})


def _part_of_all(compiles: list[CompileRow], chosen: list[CompileRow]) -> float:
    """What the chosen compiles take of the time of all of them in the capture (ratio)."""
    total = sum(row.duration_ms for row in compiles)
    return sum(row.duration_ms for row in chosen) / total if total else 0.0


def _title(
    signals: Signals, chosen: list[CompileRow], shares: tuple[float, float], *, rarer: bool, unsure: int
) -> str:
    """What the compiles take of captured steps, alone and in all; where fewer steps compile after them, that too.

    Of `unsure` of them it is unknown whether they come again.
    """
    alone, share = map(format_share, shares)
    text = (
        f"{counted(len(chosen), 'compile')} in {counted(len(signals.steps), 'step')} "
        f"{'takes' if len(chosen) == 1 else 'take'} {share} of the time"
        f"{'' if alone == share else ', with their tracing and first calls'}"
    )
    if unsure == len(chosen):
        return text + COMES_AGAIN_UNKNOWN
    if unsure:
        return f"{text}; it is unknown whether {unsure} of them {'comes' if unsure == 1 else 'come'} again"
    after = signals.after_capture if rarer else None
    return text + (
        f"; after the capture {after.compiling_steps} of {after.steps_text} compiled" if after else ""
    )


def _of_other_graphs(compiles: list[CompileRow]) -> str:
    """That the upper end counts these: whether a graph compiles for its shapes alone cannot be seen."""
    count = len(compiles)
    are = "is of another graph" if count == 1 else "are of other graphs"
    return (
        f"; {counted(count, 'further compile')} at the same line {are}, which may compile once per shape: the upper "
        f"end counts {'it' if count == 1 else 'them'}"
    )


def _may_have_others(chosen: list[CompileRow]) -> bool:
    """Whether further lines may compile that no compile tells."""
    told = [row.cause.others for row in chosen if row.cause.kind == "constant" and row.cause.places]
    return bool(told) and all(told)


def _changed_at(row: CompileRow) -> list[str]:
    """The lines of what changed. Without one, a cause has that of the graph cut, which changes nothing."""
    return [place for place in row.cause.places if place not in map(source_of, row.frames[:1])]


def _lacks_a_line(row: CompileRow) -> bool:
    return not _changed_at(row)


def _lines_text(signals: Signals, chosen: list[CompileRow], *, others: bool) -> str:
    """All lines that make these compiles, where there are several: the price is of all of them together.

    A jitted function bakes in what it is given as a static argument: one number, passed as an array, is another cure.
    """
    places = {place for row in chosen if row.cause.kind == "constant" for place in _changed_at(row)}
    if len(places) < 2:
        return "; other lines may compile beside the one that is named" if others else ""
    needs = f"; a cure needs changes at {places_text(sorted(places, key=line_order))}"
    calls = _calls(chosen) if _traces_to_compile(signals) else []
    return (
        f"{needs}, or where the number comes from, before the call at {calls[0].source}" if calls else needs
    )


def rates(signals: Signals) -> list[Evidence]:
    """Steps that compile, per 100 steps: before, in and after the capture, as far as each is known."""
    before = [
        bool(record.compiles) for record in signals.records_if_noted if record.before and record.is_step
    ]
    inside = len({(row.host, row.step) for row in signals.step_compiles})
    captured = len(signals.steps)
    found = [
        ("before", sum(before), len(before), counted(len(before), "step")),
        ("in", inside, captured, counted(captured, "step")),
    ]
    after = signals.after_capture
    if after is not None:
        found.append(("after", after.compiling_steps, after.steps, after.steps_text))
    return [
        Evidence(f"steps that compiled {where} the capture ({of} of {text})", 100 * of / total, "per 100")
        for where, of, total, text in found
        if total
    ]


def _rate_is_known(signals: Signals, chosen: list[CompileRow]) -> bool:
    """Whether so many steps were seen that the share of those which compile is sure, where the price takes it from."""
    after, steps = signals.after_capture, len(signals.steps)
    compiling = len({(row.host, row.step) for row in chosen})
    if after is not None and after.shows(steps):
        compiling, steps = after.compiling_steps, after.steps
    if not compiling:
        return False
    return math.sqrt(max(steps - compiling, 0) / (steps * compiling)) <= RATE_WITHIN


def with_calls(
    signals: Signals, chosen: list[CompileRow], evidence: list[Evidence], *, closed: bool = False
) -> list[Evidence]:
    """The evidence with the lines that compile, which come first where that line is what a fix changes.

    A jitted function is given its arguments where it is called: its own first line that uses one can change nothing.
    `closed`: it closes over arrays, and is made there.
    """
    given = closed or (_traces_to_compile(signals) and chosen[0].cause.kind in OF_ARGUMENTS)
    calls = _calls(chosen)
    return [*calls, *evidence] if given else [*evidence, *calls]


def _caller_evidence(within: str) -> list[Evidence]:
    """The line from which all that compiles is called: there a jitted function would compile once."""
    name = within.partition(" (")[0]
    return [Evidence(f"calls what compiles, in {name}", source=source_of(within))] if within else []


def _calls(rows: list[CompileRow]) -> list[Evidence]:
    """The lines at which these compiles happened, most of them first: a cause may lie in a function that is called."""
    found = by_line(rows)
    lines = sorted((line for line in found if line), key=lambda line: -len(found[line]))
    return [
        Evidence("compiled when this line ran", len(found[line]), "times", source=source_of(line))
        for line in lines[:SHOWN]
    ]


def _start_up(signals: Signals) -> str:
    """What to say of compiles that are in no finding, as they never came again, say; empty where there were none."""
    once = [row for row in signals.phases if row.name == ONE_OFF_COMPILE]
    if not once:
        after = signals.after_capture
        if after is None or not after.lines:
            return ""
        from tpuprof.model.compile.no_finding import compiled_without_finding

        return compiled_without_finding(after, len(signals.steps))
    took = format_ms(sum(row.duration_ms for row in once))
    return (
        f"start-up cost: {counted(len(once), 'captured step')} ({took} in all) compiled what never compiled again, and "
        "counts as no step"
    )
