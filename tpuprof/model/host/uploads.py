"""Copies to the device of what was copied there before: the capture compares the arrays."""

from __future__ import annotations

from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.vocabulary import Activity
from tpuprof.model.intervals import Spans, covered, intersect, union
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Track
from tpuprof.own_events import UPLOAD

_AGAIN = "again"


def again_share(driver: Track | None, activity: HostActivity, steps: Steps) -> float:
    """Share of the time of copies to the device in steps that copies an array again; 0 where nothing tells."""
    if driver is None or not len(steps):
        return 0.0
    copies = activity.spans(Activity.HOST_TO_DEVICE)
    whole = int(covered(copies, steps.start, steps.end).sum())
    again = int(covered(intersect(copies, _again(driver)), steps.start, steps.end).sum())
    return again / whole if whole else 0.0


def _again(driver: Track) -> Spans:
    rows = driver.named(UPLOAD)
    told = driver.plane.stat_integers(driver.stats(_AGAIN), _AGAIN, len(driver), missing=0)
    rows = rows[told[rows] > 0]
    return union(driver.start[rows], driver.end[rows])
