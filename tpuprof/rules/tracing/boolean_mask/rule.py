"""A boolean mask selects elements in the middle of the step.

## What it detects

`aten::nonzero` or `aten::masked_select` among the ops that fall back in captured steps: a boolean mask as index
(`x[mask]`, `x[mask] = v`) or `nonzero()`.

## Why it costs time

How many elements a mask selects is known only once it is computed. torch_xla runs all that was traced so far, reads the
mask back, counts on the host, and begins another graph. The graph behind it has the count in its shapes, so each new
count compiles.

## Evidence

How often a step selects, and the compiles whose inputs differ by the length of a list of indices, with their lines.

## How to fix

Keep the shape and compute both cases: `torch.where(mask, v, x)` or `x.masked_fill(mask, v)` in place of
`x[mask] = v`. To sum or average the selected elements, multiply by the mask. Where a list of indices is needed, give it
a fixed length, for example by `torch.topk`.

## Limits and false positives

`torch.where` computes both cases for all elements. Where few of many rows are selected for much work, a list of fixed
length is better. Where the program also reads values in each step, host and device go on taking turns at those reads:
the price begins at the op's own time. A list of indices that comes from the input pipeline and changes its length looks
the same as one that the step makes, if the step also selects by a mask.

## References

- https://github.com/pytorch/xla/issues/4248
- https://docs.pytorch.org/xla/release/r2.9/perf/recompilation.html
"""

from __future__ import annotations

import re

from tpuprof import parts as part
from tpuprof.report.labels import places_text
from tpuprof.report.schema import CompileRow
from tpuprof.report.sections import FallbackRow
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
from tpuprof.rules.shared.recompiles import SHOWN
from tpuprof.rules.shared.returning_compiles import returning
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.units import times

# Dimensions of a tensor that is indexed (dimensions). A list of indices is `s64[count,dimensions]`; a batch of tokens,
# `s64[rows,length]`, is wider than any tensor has dimensions.
DIMENSIONS_AT_MOST = 8
_CHANGED = re.compile(r"s64\[(\d+),(\d+)\] became s64\[(\d+),(\d+)\]")


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
    compiles = _compiles_for_counts(signals)
    evidence = calls_evidence(found)
    evidence += [compile_evidence(row) for row in compiles[:SHOWN]]
    share = 1 - signals.busy_share
    if share < FAILS_FROM_SHARE:
        return passed(evidence, reason="masks select, but the device hardly idles")
    least, most, _ = returning(signals, signals.step_compiles, compiles)
    reads = reads_that_stay(signals)
    stays = [*reads, *waits_that_stay(signals)]
    return failed(
        share,
        [*evidence, *stays],
        title=_title(found, compiles),
        price=price_without(stays, {part.COMPILE: 1 - most}, {part.COMPILE: 1 - least}),
        confidence="high" if least == most and not stays else "medium",
    )


def _title(found: list[FallbackRow], compiles: list[CompileRow]) -> str:
    source = next((places_text(row.places) for row in found if row.source), "")
    if not source:
        lines = [
            f"{row.cause.source_file}:{row.cause.source_line}" for row in compiles if row.cause.source_file
        ]
        source = lines[0] if lines else ""
    calls = times(sum(row.per_step or 0.0 for row in found))
    where = f" at {source}" if source else ""
    more = ", and new counts compile" if compiles else ""
    return f"A boolean mask or nonzero{where} reads its count back {calls} per step{more}"


def _compiles_for_counts(signals: Signals) -> list[CompileRow]:
    """Compiles in steps for which only lists of indices changed their length; none where compiles were not seen."""
    try:
        compiles = signals.step_compiles
    except Unavailable:
        return []
    return [row for row in compiles if row.cause.kind == "shape" and counts_changed(row.cause.detail)]


def counts_changed(detail: str) -> bool:
    """Whether all inputs that a compile's cause lists are lists of indices that changed their length."""
    changed = _CHANGED.findall(detail)
    return len(changed) == detail.count(" became ") > 0 and all(
        was != now and wide == still and int(wide) <= DIMENSIONS_AT_MOST for was, wide, now, still in changed
    )
