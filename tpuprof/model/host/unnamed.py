"""What the training thread is inside while the device idles and no vocabulary says what that means."""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.vocabulary import Activity
from tpuprof.model.intervals import EMPTY, intersect, merge, subtract, union
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Track
from tpuprof.records import record

# Share of the time from which an event is named: most of it.
MOST_FROM_SHARE = 0.5
# Share of all step time from which an event is around the steps and says nothing of what is in them.
AROUND_FROM_SHARE = 0.9
# Activities of which nothing says what the host does: where it traces lazy tensors, that may be tracing.
UNEXPLAINED = (Activity.UNKNOWN, Activity.HOST_OTHER)


@record(frozen=True)
class Unnamed:
    """Idle time in steps of which the cause is unknown, and the event that most of it is inside (ps)."""

    total_ps: int
    event: str
    event_ps: int


def unnamed_time(
    driver: Track | None, activity: HostActivity, steps: Steps, devices: list[DeviceActivity]
) -> Unnamed | None:
    """The innermost event of the training thread that holds most of such time; None where there is none."""
    if driver is None or not devices or not len(steps):
        return None
    known = [spans for each, spans in activity.by_activity.items() if each not in UNEXPLAINED]
    known += [activity.dispatching, activity.compiling, *(device.busy for device in devices)]
    inside = union(steps.start, steps.end)
    spans = subtract(inside, merge(*known, EMPTY))
    names = driver.plane.events.names
    lengths = np.bincount(
        np.maximum(driver.name_row, 0), weights=driver.end - driver.start, minlength=len(names)
    )
    found: dict[str, int] = {}
    for row in np.flatnonzero(lengths >= MOST_FROM_SHARE * spans.total).tolist():
        chosen = driver.name_row == row
        own = union(driver.start[chosen], driver.end[chosen])
        time = intersect(own, spans).total
        around = intersect(own, inside).total >= AROUND_FROM_SHARE * inside.total
        if not around and time >= MOST_FROM_SHARE * spans.total:
            found[names[row]] = time
    event = min(found, key=lambda name: found[name], default="")
    return Unnamed(spans.total, event, found[event]) if event and spans.total else None
