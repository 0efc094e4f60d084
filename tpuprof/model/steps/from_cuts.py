"""Steps from graph cuts alone, or from reads that run graphs, where neither markers nor optimizer calls tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.intervals import Bool, Int64, ascending_distinct
from tpuprof.model.steps.cuts import UNKNOWN, Cuts
from tpuprof.model.steps.markers import Markers
from tpuprof.model.steps.phase import Phase
from tpuprof.model.steps.repetition import EXPLAINS_FROM_SHARE, MIN_REPEATS, find_repetition
from tpuprof.model.steps.table import LOW, MEDIUM, Steps, StepSource
from tpuprof.records import record
from tpuprof.report.between import EVALUATION
from tpuprof.units import counted, format_share

_MARK = "mark steps with tpuprof.step if that is not yours"


@record(frozen=True)
class _Words:
    """What is said of steps by what they are read from: of a single cut or read, and what it is called.

    `repeats` is what tells whether two of them are of the same kind; `usual` and `odd` what the reads of most steps do
    with it, and what the others do.
    """

    one: str
    noun: str
    repeats: str = "the graphs"
    usual: str = "runs the graph of most"
    odd: str = "run others"


_WORDS = {
    StepSource.CUTS: _Words("one graph cut (torch_xla.sync) counts as one step", "graph cut"),
    StepSource.READS: _Words("one read that runs a graph counts as one step", "read"),
    StepSource.EAGER_READS: _Words(
        "one read of a value counts as one step",
        "read",
        "the ops between them",
        "follows the ops that most follow",
        "follow others",
    ),
}
# Share of reads from which those that run one graph are each a step, and the others are parts of some steps: a result
# per batch, and a value that is logged every few batches. A judgement: micro-batches with an update of their own are
# told apart from it only up to this many per step.
MOST_READS_FROM_SHARE = 0.8
# Share of the time between reads that is before those of one graph, from which each of them may be a step: where the
# norms of parameters are read one by one, the forward and backward pass is before one of fourteen reads. A judgement:
# what is less than half of the time is not what steps are made of.
MOST_TIME_FROM_SHARE = 0.5


def cut_steps(cuts: Cuts | None, markers: Markers | None) -> Steps | None:
    """Steps from the period of the graphs that cuts run; None with too few cuts.

    What came before the first cut began before the capture and is left out, unless a marker shows its beginning.
    """
    return _steps_of(cuts, markers, StepSource.CUTS)


def read_steps(reads: Cuts | None, source: StepSource = StepSource.READS) -> Steps | None:
    """The same of reads of values, for a program that nothing else cuts the graph of.

    Where it calls op by op (`EAGER_READS`), `graph` numbers the ops that came before each read.
    """
    return _steps_of(reads, None, source)


def _steps_of(cuts: Cuts | None, markers: Markers | None, source: StepSource) -> Steps | None:
    if cuts is None:
        return _markers_alone(markers)
    cuts, opened = _within(cuts, markers)
    training = _training(cuts)
    rows = np.flatnonzero(training)
    if len(rows) + int(opened is not None) < MIN_REPEATS:
        return _markers_alone(markers)
    starts = np.concatenate(([opened if opened is not None else -1], cuts.end[:-1]))
    took = np.where(starts >= 0, cuts.end - starts, 0)
    first, until, confidence, note = _grouped(cuts.graph[rows], took[rows], source)
    begin, end = starts[rows[first]], cuts.end[rows[until - 1]]
    begin, end = begin[begin >= 0], end[begin >= 0]
    steps = Steps(source, confidence, _numbers(begin, markers), begin, end, note)
    return replace(steps, phases=tuple(_phases(cuts, training, starts, steps))) if len(steps) else None


def _within(cuts: Cuts, markers: Markers | None) -> tuple[Cuts, int | None]:
    """The cuts that lie in the capture's markers, and where the first marker begins."""
    if markers is None:
        return cuts, None
    inside = np.flatnonzero((cuts.start >= markers.start[0]) & (cuts.start < markers.end[-1]))
    sources = [cuts.source[row] for row in inside.tolist()]
    kept = Cuts(cuts.start[inside], cuts.end[inside], cuts.graph[inside], cuts.grad[inside], sources)
    return kept, int(markers.start[0])


def _training(cuts: Cuts) -> Bool:
    """Cuts that are not of an evaluation.

    Two cuts in a row with gradients off are one; a single one may be an update written by hand.
    """
    off = cuts.grad == 0
    if off.all() or not off.any():
        return np.ones(len(cuts), np.bool_)
    pair = off[1:] & off[:-1]
    beside = np.zeros(len(off), np.bool_)
    beside[1:] |= pair
    beside[:-1] |= pair
    return ~beside


def _grouped(graph: Int64, took: Int64, source: StepSource) -> tuple[Int64, Int64, str, str]:
    """The first cut of each step and the one after its last, confidence and note.

    `took` is how long each was after the one before (ps).
    """
    every, words = np.arange(len(graph)), _WORDS[source]
    one = words.one
    if (graph == UNKNOWN).any() or len(ascending_distinct(graph)) == 1:
        return every, every + 1, MEDIUM, f"{one}; {_MARK}"
    if source is not StepSource.CUTS and (most := _most_reads(graph, took)) is not None:
        first, until = np.append(0, most[:-1] + 1), most + 1
        others = format_share(1 - len(most) / len(graph))
        return first, until, MEDIUM, f"{one}, where it {words.usual}; {others} {words.odd}; {_MARK}"
    found = find_repetition(graph)
    if found is None:
        return every, every + 1, LOW, f"{one}, and {words.repeats} repeat in no fixed order; {_MARK}"
    cuts = counted(found.width, words.noun)
    held = float(found.held.mean())
    note = f"a step is {cuts}, which repeat; {_MARK}" if found.width > 1 else f"{one}; {_MARK}"
    if held < EXPLAINS_FROM_SHARE:
        return (
            found.first,
            found.until,
            LOW,
            f"{note}. Repetitions hold {format_share(held)} of the {words.noun.rpartition(' ')[2]}s",
        )
    return found.first, found.until, MEDIUM, note


def _most_reads(graph: Int64, took: Int64) -> Int64 | None:
    """Rows of the reads that run one and the same graph, where that is the graph of most reads, and takes most time."""
    graphs, counts = np.unique(graph, return_counts=True)
    if counts.max() < MOST_READS_FROM_SHARE * len(graph):
        return None
    most = graph == graphs[int(counts.argmax())]
    if took[most].sum() < MOST_TIME_FROM_SHARE * took.sum():
        return None
    return np.flatnonzero(most)


def _numbers(begin: Int64, markers: Markers | None) -> Int64:
    if markers is None:
        return np.arange(len(begin))
    at = np.maximum(np.searchsorted(markers.start, begin, "right") - 1, 0)
    # A marker opens a moment after the cut that it follows.
    near = np.minimum(np.searchsorted(markers.start, begin), len(markers.start) - 1)
    opens = markers.start[near] - begin < begin - markers.start[at]
    return markers.number[np.where(opens | (markers.start[at] > begin), near, at)]


def _phases(cuts: Cuts, training: Bool, starts: Int64, steps: Steps) -> list[Phase]:
    """Runs of cuts that are not training, each from the cut before it to its last one."""
    rows = np.flatnonzero(~training)
    if not len(rows):
        return []
    found = []
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
        source = cuts.source[int(run[0])]
        evidence = f"{counted(len(run), _WORDS[steps.source].noun)} with gradients off" + (
            f", first at {source}" if source else ""
        )
        begin, end = int(max(starts[run[0]], 0)), int(cuts.end[run[-1]])
        row = min(int(np.searchsorted(steps.start, begin)), len(steps) - 1)
        inside = bool(((steps.start < end) & (steps.end > begin)).any())
        found.append(Phase(EVALUATION, begin, end, len(run), evidence, int(steps.number[row]), inside))
    return found


def _markers_alone(markers: Markers | None) -> Steps | None:
    """Markers that the capture made from cuts, where the trace shows no cuts: as they stand."""
    if markers is None:
        return None
    until = np.append(markers.start[1:], markers.end[-1])
    note = f"{_WORDS[StepSource.CUTS].one}; {_MARK}"
    return Steps(StepSource.CUTS, MEDIUM, markers.number.astype(np.int64), markers.start, until, note)
