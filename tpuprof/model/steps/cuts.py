"""Graph cuts of the training thread that ran a graph: when, which graph, and whether gradients were on."""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.intervals import Int64
from tpuprof.model.timeline import Track
from tpuprof.records import record

CUT_EVENT = "tpuprof.graph_cut"
GRAD_STAT = "grad"
UNKNOWN = -1


@record(frozen=True)
class Cuts:
    """Cuts in time order, ps. `graph` is a number for the program that a cut ran, the same for the same program.

    `grad` is 1 where gradients were on at the cut, 0 where they were off; both are -1 where unknown. `source` is the
    line that cut, empty where unknown.
    """

    start: Int64
    end: Int64
    graph: Int64
    grad: Int64
    source: list[str]

    def __len__(self) -> int:
        return len(self.end)


def read_cuts(driver: Track, vocabulary: Vocabulary, devices: list[DeviceActivity]) -> Cuts | None:
    """Cuts that ran a graph, None where there are none; one that ran nothing ends nothing."""
    names = driver.plane.events.names
    rows = np.flatnonzero(np.isin(driver.name, vocabulary.step_boundary.rows(names)))
    work = np.flatnonzero(np.isin(driver.name, vocabulary.graph_cut.rows(names)))
    if not len(rows) or not len(work):
        return None
    rows = rows[np.argsort(driver.start[rows], kind="stable")]
    starts = np.sort(driver.start[work])
    holds = np.searchsorted(starts, driver.end[rows]) > np.searchsorted(starts, driver.start[rows])
    rows = rows[holds]
    if not len(rows):
        return None
    grad, source = _own_facts(driver, rows)
    end = driver.end[rows]
    return Cuts(driver.start[rows], end, _graphs(end, devices), grad, source)


def _own_facts(driver: Track, rows: Int64) -> tuple[Int64, list[str]]:
    """What tpuprof's own event around each cut says of it."""
    names = driver.plane.events.names
    own = np.flatnonzero(np.isin(driver.name, [row for row, name in enumerate(names) if name == CUT_EVENT]))
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


def _graphs(end: Int64, devices: list[DeviceActivity]) -> Int64:
    """A number for the program that each cut ran, by the device's record of what it ran.

    A TPU runs programs in the order in which they were handed over, so the i-th cut is given the i-th program: where a
    program from before the capture shifts all, what repeats and how often stays the same. The CPU client names no
    program on its executions, but begins each with its ops, and the next cut waits for it.
    """
    if not devices:
        return np.full(len(end), UNKNOWN, np.int64)
    device = devices[0]
    if device.type == "CPU":
        return _by_first_op(end, device)
    order = np.argsort(device.modules.start, kind="stable")
    program = device.modules.module[order]
    if len(program) < len(end):
        return np.full(len(end), UNKNOWN, np.int64)
    # Programs that reads and others ran beside the cuts look like those of cuts: then nothing is known.
    return program[: len(end)] if len(program) <= len(end) + 1 else np.full(len(end), UNKNOWN, np.int64)


def _by_first_op(end: Int64, device: DeviceActivity) -> Int64:
    events = device.op_events
    if not len(events.start):
        return np.full(len(end), UNKNOWN, np.int64)
    order = np.argsort(events.start, kind="stable")
    at = np.searchsorted(events.start[order], end)
    modules = {name: row for row, name in enumerate(dict.fromkeys(device.ops.module))}
    number = np.array([modules[name] for name in device.ops.module], np.int64)
    known = at < len(order)
    found = number[events.op[order[np.minimum(at, len(order) - 1)]]]
    return np.where(known, found, UNKNOWN)
