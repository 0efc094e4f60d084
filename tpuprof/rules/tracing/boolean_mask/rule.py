"""A boolean mask selects elements in the middle of the step.

## What it detects

`aten::nonzero` or `aten::masked_select` among the ops that fall back in captured steps: a boolean mask as index
(`x[mask]`, `x[mask] = v`) or `nonzero()`.

## Why it costs time

How many elements a mask selects is known only once it is computed. torch_xla runs all that was traced so far, reads the
mask back, counts on the host, and begins another graph. The graph behind it has the count in its shapes, so each new
count compiles. What is computed of the selected elements has the count in its ops as well, as sizes and constants:
those graphs compile too.

## Evidence

How often a step selects, and the compiles whose inputs differ by the length of a list of indices, with their lines.

## How to fix

Keep the shape and compute both cases: `torch.where(mask, v, x)` or `x.masked_fill(mask, v)` in place of
`x[mask] = v`. To sum or average the selected elements, multiply by the mask. Where a list of indices is needed, give it
a fixed length, for example by `torch.topk`.

## Limits and false positives

`torch.where` computes both cases for all elements. Where few of many rows are selected for much work, a list of fixed
length is better. Where the program also reads values in each step, host and device go on taking turns at those reads:
the price begins at the op's own time. Compiles of other graphs behind one for a new count, in the same step, are in the
upper end of the price alone: the program may also build other graphs by itself. A list of indices that comes from the
input pipeline and changes its length looks the same as one that the step makes, if the step also selects by a mask.

## References

- https://github.com/pytorch/xla/issues/4248
- https://docs.pytorch.org/xla/release/r2.9/perf/recompilation.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.labels import places_text
from tpuprof.report.schema import CompileRow
from tpuprof.report.sections import FallbackRow
from tpuprof.report.user_frames import in_package
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.shared.compile_kinds import compile_evidence
from tpuprof.rules.shared.fallbacks import (
    SELECTING,
    calls_evidence,
    price_without,
    reads_that_stay,
    usual_fallbacks,
    waits_that_stay,
)
from tpuprof.rules.shared.mask_compiles import behind_counts, for_counts
from tpuprof.rules.shared.recompiles import FURTHER_FROM_SHARE, SHOWN
from tpuprof.rules.shared.returning_compiles import returning
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.units import counted, times


@rule(
    about="boolean masks in the step",
    good="Boolean masks in the step cost little or nothing",
    bad="A boolean mask selects elements in the middle of the step",
    torch_only=True,
    narrows="aten-fallback",
    reads=(
        "steps",
        "busy_share",
        "step_compiles",
        "fallbacks",
        "after_capture",
        "records_if_noted",
        "python_reads_if_seen",
        "runtime_wait_ms",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where a usual step selects by a mask and the device idles enough for it to matter."""
    found = [row for row in usual_fallbacks(signals) if row.op in SELECTING]
    if not found:
        return not_applicable("no step selects elements by a mask")
    compiles = for_counts(_step_compiles(signals))
    evidence = calls_evidence(found)
    evidence += [compile_evidence(row) for row in compiles[:SHOWN]]
    share = 1 - signals.busy_share
    if share < FAILS_FROM_SHARE:
        return passed(evidence, reason="masks select, but the device hardly idles")
    least, most, _ = returning(signals, _step_compiles(signals), compiles)
    further, widest = _that_may_follow(signals, compiles, most)
    reads = reads_that_stay(signals)
    stays = [*reads, *waits_that_stay(signals)]
    return failed(
        share,
        [*evidence, *stays],
        title=_title(found, compiles) + (_of_further(further) if further else ""),
        price=price_without(stays, {part.COMPILE: 1 - widest}, {part.COMPILE: 1 - least}),
        confidence="high" if least == widest and not stays else "medium",
    )


def _title(found: list[FallbackRow], compiles: list[CompileRow]) -> str:
    known = next((row for row in found if row.source), None)
    source = places_text(known.places) if known is not None else ""
    if known is not None and known.inside:
        source += f" (in {in_package(known.inside)})"
    if not source:
        source = next((row.cause.place for row in compiles if row.cause.place), "")
    calls = times(sum(row.per_step or 0.0 for row in found))
    where = f" at {source}" if source else ""
    more = ", and new counts compile" if compiles else ""
    return f"A boolean mask or nonzero{where} reads its count back {calls} per step{more}"


def _of_further(compiles: list[CompileRow]) -> str:
    """That the upper end counts these: whether a count is in a graph's ops cannot be seen."""
    come = counted(len(compiles), "further compile") + (" comes" if len(compiles) == 1 else " come")
    return (
        f"; {come} behind them in the same step, of other graphs, and may follow from those counts: the upper end "
        f"counts {'it' if len(compiles) == 1 else 'them'}"
    )


def _step_compiles(signals: Signals) -> list[CompileRow]:
    """Compiles in steps; none where compiles were not seen."""
    try:
        return signals.step_compiles
    except Unavailable:
        return []


def _that_may_follow(
    signals: Signals, compiles: list[CompileRow], most: float
) -> tuple[list[CompileRow], float]:
    """Further compiles that counts may make, and what of all compiling comes again with them; none where it is little.

    `most` is what comes again of `compiles`, which are for new counts.
    """
    further = behind_counts(_step_compiles(signals))
    widest = returning(signals, _step_compiles(signals), [*compiles, *further]).most
    return (further, widest) if widest >= most + FURTHER_FROM_SHARE else ([], most)
