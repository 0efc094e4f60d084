"""What of the host's work is of eager ops where a part of the step is compiled: only that goes with the ops.

`torch_xla.compile` traces its function with eager mode off, and hands one graph over in the cut at its end. What the
host does from the graph before it until that cut has ended is the compiled function's.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.driver import autograd_threads
from tpuprof.model.host.event_times import COMPILED_REGION
from tpuprof.model.host.vocabulary import Activity, NameSet, Vocabulary
from tpuprof.model.intervals import Int64, Spans, contains, covered, intersect, merge, subtract, union
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host, Track

# Share of the steps in which a compiled function runs, from which the steps are those of such a program (share). A
# judgement: an evaluation that is compiled runs in a few steps.
COMPILED_IN_STEPS_SHARE = 0.5
_CUT = "graph_cut"


def eager_shares(
    host: Host,
    driver: Track | None,
    vocabulary: Vocabulary,
    steps: Steps,
    devices: list[DeviceActivity],
    activity: HostActivity,
) -> tuple[float, float] | None:
    """Shares of the tracing and handing over for which devices wait: of eager ops, and of their own cuts alone.

    Handing their programs over counts with the cuts. A compiled step needs few of these, and still runs the Python
    around them. None where no function is compiled in the usual step, or the devices wait for none of it.
    """
    if driver is None or not len(steps):
        return None
    compiled = _compiled(driver, vocabulary)
    if (covered(compiled, steps.start, steps.end) > 0).mean() < COMPILED_IN_STEPS_SHARE:
        return None
    busy = merge(*(each.busy for each in devices))
    work = merge(activity.spans(Activity.TRACING), activity.dispatching)
    waited = subtract(intersect(work, Spans(steps.start, steps.end)), busy)
    if not waited.total:
        return None
    of_ops = subtract(waited, compiled)
    cuts = [activity.dispatching]
    for track in (driver, *autograd_threads(host)):
        walks = [row for row, name in enumerate(track.plane.events.names) if vocabulary.cuts(name)]
        cuts.append(_spans(track, np.flatnonzero(np.isin(track.name_row, walks))))
    in_cuts = intersect(of_ops, merge(*cuts))
    return of_ops.total / waited.total, in_cuts.total / waited.total


def _compiled(driver: Track, vocabulary: Vocabulary) -> Spans:
    """When the training thread is in compiled functions: until a cut that hands a graph over, or a call of dynamo's."""
    graphs = _rows_of(driver, vocabulary.handed_over)
    handed = np.sort(driver.start[graphs])
    cuts, calls = (
        _spans(driver, _rows_of(driver, vocabulary.named(event))) for event in (_CUT, COMPILED_REGION)
    )
    alone = graphs[~contains(cuts, driver.start[graphs])]
    # A cut without a graph ends what was before, too: `torch_xla.compile` makes one before it calls its function.
    ends = np.sort(np.concatenate((driver.end[alone], cuts.end, calls.end)))
    hands_over = np.diff(np.searchsorted(handed, np.stack(cuts, axis=1).ravel()))[::2] > 0
    found = merge(Spans(cuts.start[hands_over], cuts.end[hands_over]), calls)
    before = np.searchsorted(ends, found.start, "right") - 1
    return union(np.where(before >= 0, ends[np.maximum(before, 0)], found.start), found.end)


def _rows_of(track: Track, names: NameSet) -> Int64:
    return np.flatnonzero(np.isin(track.name_row, names.rows(track.plane.events.names)))


def _spans(track: Track, rows: Int64) -> Spans:
    return union(track.start[rows], track.end[rows])
