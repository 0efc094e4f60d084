"""Graph cuts of the training thread that ran a graph: when, which graph, and whether gradients were on."""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import Bool, Int64
from tpuprof.model.timeline import Track
from tpuprof.own_events import GRAPH_CUT, HOST_READ
from tpuprof.records import record

GRAD_STAT = "grad"
UNKNOWN = -1


@record(frozen=True)
class Cuts:
    """Cuts in time order, ps. `graph` is a number for the program that a cut ran, the same for the same program.

    `grad` is 1 where gradients were on at the cut, 0 where they were off; both are -1 where unknown. `source` is the
    line that cut, empty where unknown. `reads` are reads of values between the cuts that ran a graph too.
    """

    start: Int64
    end: Int64
    graph: Int64
    grad: Int64
    source: list[str]
    reads: Cuts | None = None

    def __len__(self) -> int:
        return len(self.end)


@record(frozen=True)
class _Runs:
    """Graphs that were handed to the runtime, in time order: from when on each could run (ps), and its program."""

    start: Int64
    graph: Int64

    def last_in(self, start: Int64, end: Int64) -> Int64:
        """The last of them in each interval, -1 where there is none."""
        at = np.searchsorted(self.start, end, "right") - 1
        return np.where((at >= 0) & (self.start[np.maximum(at, 0)] >= start), at, -1)

    def graph_of(self, at: Int64) -> Int64:
        """The program of each, unknown where there is none."""
        if not len(self.graph):
            return np.full(len(at), UNKNOWN, np.int64)
        return np.where(at >= 0, self.graph[np.maximum(at, 0)], UNKNOWN)


def reads_alone(driver: Track, vocabulary: Vocabulary, devices: list[DeviceActivity]) -> Cuts | None:
    """Reads that ran a graph, of a program that nothing else cuts the graph of; None where there are none."""
    work = _work(driver, vocabulary)
    if not len(work):
        return None
    return _reads(driver, np.empty(0, np.int64), _runs(driver, vocabulary, work, devices))


def _work(driver: Track, vocabulary: Vocabulary) -> Int64:
    return np.flatnonzero(np.isin(driver.name_row, vocabulary.graph_cut.rows(driver.plane.events.names)))


def read_cuts(driver: Track, vocabulary: Vocabulary, devices: list[DeviceActivity]) -> Cuts | None:
    """Cuts that ran a graph, None where there are none; one that ran nothing ends nothing."""
    names = driver.plane.events.names
    rows = np.flatnonzero(np.isin(driver.name_row, vocabulary.step_boundary.rows(names)))
    work = _work(driver, vocabulary)
    if not len(rows) or not len(work):
        return None
    rows = rows[np.argsort(driver.start[rows], kind="stable")]
    starts = np.sort(driver.start[work])
    holds = np.searchsorted(starts, driver.end[rows]) > np.searchsorted(starts, driver.start[rows])
    rows = rows[holds]
    if not len(rows):
        return None
    runs = _runs(driver, vocabulary, work, devices)
    grad, source = _own_facts(driver, rows)
    start, end = driver.start[rows], driver.end[rows]
    graph = runs.graph_of(runs.last_in(start, end))
    return Cuts(start, end, graph, grad, source, _reads(driver, rows, runs))


def _runs(driver: Track, vocabulary: Vocabulary, work: Int64, devices: list[DeviceActivity]) -> _Runs:
    """Each hand-over, from the end of the wait for the graph before it that it holds."""
    names = driver.plane.events.names
    handed = np.flatnonzero(np.isin(driver.name_row, vocabulary.handed_over.rows(names)))
    handed = handed if len(handed) else work
    handed = handed[np.argsort(driver.start[handed], kind="stable")]
    start, end = driver.start[handed], driver.end[handed]
    waiting = [row for row, name in enumerate(names) if vocabulary.activity(name) is Activity.DEVICE_WAIT]
    waits = np.flatnonzero(np.isin(driver.name_row, waiting))
    # Of a wait that ended before the hand-over nothing is left to wait for.
    waited = np.concatenate(([0], np.sort(driver.end[waits])))
    start = np.maximum(start, waited[np.searchsorted(waited, end, "right") - 1])
    return _Runs(start, _graphs(start, devices))


def _reads(driver: Track, cuts: Int64, runs: _Runs) -> Cuts | None:
    """Reads that ran a graph outside of the cuts; of those inside each other the outermost."""
    rows = driver.named(HOST_READ)
    rows = rows[np.argsort(driver.start[rows], kind="stable")]
    at = runs.last_in(driver.start[rows], driver.end[rows])
    kept = np.flatnonzero((at >= 0) & ~_in_cuts(driver, cuts, rows))
    kept = kept[np.unique(at[kept], return_index=True)[1]]
    if not len(kept):
        return None
    rows = rows[kept]
    stats = driver.stats(GRAD_STAT, "source")
    grad = driver.plane.stat_integers(stats, GRAD_STAT, len(driver), missing=UNKNOWN)[rows]
    sources = driver.plane.stat_text(stats, "source", len(driver))
    source = [sources[row] for row in rows.tolist()]
    return Cuts(driver.start[rows], driver.end[rows], runs.graph_of(at[kept]), grad, source)


def _in_cuts(driver: Track, cuts: Int64, rows: Int64) -> Bool:
    """Whether each event is in one of the cuts."""
    if not len(cuts):
        return np.zeros(len(rows), np.bool_)
    before = np.searchsorted(driver.start[cuts], driver.start[rows], "right") - 1
    inside: Bool = (before >= 0) & (driver.end[cuts[np.maximum(before, 0)]] >= driver.end[rows])
    return inside


def _own_facts(driver: Track, rows: Int64) -> tuple[Int64, list[str]]:
    """What tpuprof's own event around each cut says of it."""
    own = driver.named(GRAPH_CUT)
    if not len(own):
        return np.full(len(rows), UNKNOWN, np.int64), [""] * len(rows)
    stats = driver.stats(GRAD_STAT, "source")
    grads = driver.plane.stat_integers(stats, GRAD_STAT, len(driver), missing=UNKNOWN)
    sources = driver.plane.stat_text(stats, "source", len(driver))
    own = own[np.argsort(driver.start[own], kind="stable")]
    at = np.searchsorted(driver.start[own], driver.start[rows], "right") - 1
    around = own[np.maximum(at, 0)]
    inside = (at >= 0) & (driver.end[around] >= driver.end[rows])
    found = zip(around.tolist(), inside.tolist(), strict=True)
    return np.where(inside, grads[around], UNKNOWN), [sources[row] if hit else "" for row, hit in found]


def _graphs(handed: Int64, devices: list[DeviceActivity]) -> Int64:
    """A number for the program of each graph that was handed over, by the device's record of what it ran.

    A TPU runs programs in the order in which they were handed over, so the i-th graph is given the i-th program: where
    a program from before the capture shifts all, what repeats and how often stays the same. The CPU client names no
    program on its executions, but begins each with its ops, and the next graph waits for it.
    """
    if not devices:
        return np.full(len(handed), UNKNOWN, np.int64)
    device = devices[0]
    if device.type == "CPU":
        return _by_first_op(handed, device)
    order = np.argsort(device.programs.start, kind="stable")
    program = device.programs.program[order]
    # Programs that others ran beside these look like theirs: then nothing is known.
    if not len(handed) <= len(program) <= len(handed) + 1:
        return np.full(len(handed), UNKNOWN, np.int64)
    return program[: len(handed)]


def _by_first_op(handed: Int64, device: DeviceActivity) -> Int64:
    events = device.op_events
    if not len(events.start):
        return np.full(len(handed), UNKNOWN, np.int64)
    order = np.argsort(events.start, kind="stable")
    at = np.searchsorted(events.start[order], handed)
    programs = {name: row for row, name in enumerate(dict.fromkeys(device.ops.program))}
    number = np.array([programs[name] for name in device.ops.program], np.int64)
    known = at < len(order)
    found = number[events.op[order[np.minimum(at, len(order) - 1)]]]
    return np.where(known, found, UNKNOWN)
