"""Waits for the device inside a graph cut that was asked to wait: `torch_xla.sync(wait=True)`.

The runtime gives such a wait no event. It is at the end of `SyncTensorsGraph`, after the program was handed over, or
in handing it over, which takes next to no time by itself. tpuprof's capture says which cuts were asked to wait.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.intervals import EMPTY, Int64, Spans, intersect, merge, subtract, union
from tpuprof.model.timeline import Track
from tpuprof.own_events import GRAPH_CUT, HOST_READ, WAITS_ALONE

_SYNC, _HANDED_OVER, _HANDING_OVER = (
    "SyncTensorsGraph",
    "SyncTensorsGraphInternal",
    "ScheduleSyncTensorsGraph",
)
_BARRIER = "TensorCollectionBarrier"
# Calls that read one number: what they copy takes no time that counts beside a wait for the lock.
_NUMBER_READS = frozenset(["__float__", "__int__", "__bool__", "__index__", "item"])
# From how long on such a call waits for the lock, and not for the number's way from the device (ps). A thread that
# keeps the lock hands it over after 5 ms (sys.getswitchinterval), and a number is four bytes: a judgement.
LOCK_FROM_PS = 2_000_000_000
# A shorter end of a cut is not a wait (ps): cuts that do not wait took up to 60 us there (measured, PJRT_DEVICE=CPU).
WAIT_FROM_PS = 300_000_000


def blocking_waits(driver: Track) -> Spans:
    """When the training thread waited for the device at the end of its graph cuts."""
    sync, inner = driver.named(_SYNC), driver.named(_HANDED_OVER)
    if not len(sync) or not len(inner):
        return EMPTY
    handed = np.zeros(len(driver), np.int64)
    inside: Int64 = driver.parent[inner]
    np.maximum.at(handed, inside[inside >= 0], driver.end[inner][inside >= 0])
    start, end = handed[sync], driver.end[sync]
    waited = (start > 0) & (end - start >= WAIT_FROM_PS)
    return merge(union(start[waited], end[waited]), _while_handing_over(driver))


def waits_by_reason(driver: Track) -> tuple[Spans, Spans]:
    """Waits that the program asked for, and others: a cut also waits while the program before holds the device.

    A trace of another origin does not say which cuts were asked to wait: none of them counts as asked for.
    """
    waits = blocking_waits(driver)
    asked = intersect(waits, asked_to_wait(driver))
    return asked, subtract(waits, asked)


def asked_to_wait(driver: Track) -> Spans:
    """Graph cuts that tpuprof's capture saw being asked to wait; none in a trace of another origin."""
    cut = driver.named(GRAPH_CUT)
    if not len(cut):
        return EMPTY
    wait = driver.plane.stat_integers(driver.stats("wait"), "wait", len(driver), missing=0)
    cut = cut[wait[cut] > 0]
    return union(driver.start[cut], driver.end[cut])


def waits_alone(driver: Track) -> Spans:
    """When the training thread was in calls that wait for the device and read nothing (`block_until_ready`)."""
    return _in_calls(driver, WAITS_ALONE)


def number_reads(driver: Track) -> Spans:
    """When the training thread was in calls that wait for the device and read one number (`float(loss)`)."""
    return _in_calls(driver, _NUMBER_READS)


def reading_values(driver: Track) -> Spans:
    """When the training thread was in calls that read values, beside graph cuts, as tpuprof's capture shows both.

    Where reads alone cut, as in inference with `.cpu()`, their graphs are the steps' own.
    """
    rows = driver.named(HOST_READ) if len(driver.named(GRAPH_CUT)) else np.empty(0, np.int64)
    return union(driver.start[rows], driver.end[rows])


def long_ends(waits: Spans) -> Spans:
    """Those waits that last longer than a number takes from the device."""
    long = waits.end - waits.start >= LOCK_FROM_PS
    return union(waits.start[long], waits.end[long])


def _in_calls(driver: Track, calls: frozenset[str]) -> Spans:
    rows = driver.named(HOST_READ)
    names = driver.plane.stat_text(driver.stats("call"), "call", len(driver))
    rows = np.array([row for row in rows.tolist() if names[row] in calls], np.int64)
    return union(driver.start[rows], driver.end[rows])


def _while_handing_over(driver: Track) -> Spans:
    """Handing over for long, except for waits that have an event.

    The CPU device runs a program meanwhile: of the eight longest of 40 hand-overs (5 to 84 ms) it was busy for 96 %.
    """
    over, barrier = driver.named(_HANDING_OVER), driver.named(_BARRIER)
    over = over[driver.end[over] - driver.start[over] >= WAIT_FROM_PS]
    handing = union(driver.start[over], driver.end[over])
    return subtract(handing, union(driver.start[barrier], driver.end[barrier]))
