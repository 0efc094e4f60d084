"""Stretches that are not training: evaluation and other graphs between training steps."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tpuprof.model.intervals import Bool, Int64
from tpuprof.model.steps.cuts import UNKNOWN, Cuts
from tpuprof.model.steps.phase import Phase
from tpuprof.report.between import EVALUATION, OTHER_GRAPHS
from tpuprof.units import counted

# Share of steps that may begin with such a stretch: what nearly every step does is part of the step.
PART_OF_STEP_FROM_SHARE = 0.9
# Times that reads must run one graph to be an evaluation (count): one that has a single batch is not recognised.
MIN_BATCHES = 2

# Name of a phase, its end (ps), number of cuts or reads, and the evidence.
_Found = tuple[str, int, int, str]


def leading_phases(cuts: Cuts, start: Int64, end: Int64, number: Int64) -> list[Phase]:
    """Phases at the beginning of steps, which last from each `start` to `end`.

    A step ends with the cut that runs its update. What is cut before that, with gradients off or as graphs that
    other steps do not run, comes between two steps. So do reads with gradients off that run one graph again and again,
    where the step then cuts the same graphs as others: had they run a part of the step, it would cut a smaller one.
    """
    of_step = np.searchsorted(start, cuts.end, "left") - 1
    # A cut at a step's very end is the one that ends it; one at its start ended the step before.
    inside = (of_step >= 0) & (cuts.end <= end[np.maximum(of_step, 0)])
    groups = [np.flatnonzero(inside & (of_step == row)) for row in range(len(start))]
    usual = Counter(len(group) for group in groups).most_common(1)[0][0] if groups else 0
    common = _common_graphs(cuts, groups)
    found = []
    for row, group in enumerate(groups):
        phase = _leading(cuts, group[:-1], len(group) - usual, common)
        if phase is None and len(group) and common.issuperset(cuts.graph[group].tolist()):
            phase = _reading(cuts.reads, int(start[row]), int(cuts.start[group[0]]))
        if phase is not None:
            name, last, count, evidence = phase
            found.append(Phase(name, int(start[row]), last, count, evidence, int(number[row])))
    return found if len(found) < PART_OF_STEP_FROM_SHARE * len(start) else []


def _common_graphs(cuts: Cuts, groups: list[Int64]) -> set[int]:
    """Graphs that at least half of the steps run."""
    counts = Counter(graph for group in groups for graph in {*cuts.graph[group].tolist()} - {UNKNOWN})
    return {graph for graph, count in counts.items() if count >= len(groups) / 2}


def _leading(cuts: Cuts, group: Int64, extra: int, common: set[int]) -> _Found | None:
    """The phase that a step's cuts begin with."""
    off = _leads(cuts.grad[group] == 0)
    if off:
        evidence = _evidence(off, "with gradients off", cuts.source[int(group[0])])
        return EVALUATION, int(cuts.end[group[off - 1]]), off, evidence
    strange = np.array([graph not in {*common, UNKNOWN} for graph in cuts.graph[group].tolist()], np.bool_)
    count = min(_leads(strange), extra)
    if count <= 0 or not common:
        return None
    text = _evidence(count, "of graphs that training steps do not run", cuts.source[int(group[0])])
    return OTHER_GRAPHS, int(cuts.end[group[count - 1]]), count, text


def _reading(reads: Cuts | None, begin: int, until: int) -> _Found | None:
    """The reads with gradients off that a stretch begins with, if they are an evaluation.

    One that runs a graph once may read what training computed.
    """
    if reads is None:
        return None
    rows = np.arange(*np.searchsorted(reads.start, [begin, until]))
    count = _leads(reads.grad[rows] == 0)
    rows = rows[:count]
    again = Counter(graph for graph in reads.graph[rows].tolist() if graph != UNKNOWN)
    if not again or max(again.values()) < MIN_BATCHES:
        return None
    text = f"{counted(count, 'read')} with gradients off, which ran the same graph again and again"
    source = reads.source[int(rows[0])]
    return EVALUATION, int(reads.end[rows[-1]]), count, text + (f", first at {source}" if source else "")


def _evidence(count: int, what: str, source: str) -> str:
    return f"{counted(count, 'graph cut')} {what}, before any optimizer step" + (
        f", first at {source}" if source else ""
    )


def _leads(wanted: Bool) -> int:
    """How many rows from the first on are wanted."""
    return len(wanted) if wanted.all() else int(np.argmin(wanted))
