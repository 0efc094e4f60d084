"""Steps of the device's own `Steps` line."""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.intervals import Int64
from tpuprof.model.median import median
from tpuprof.model.steps.holes import by_programs, lacking, without_holes
from tpuprof.model.steps.table import (
    HIGH,
    Steps,
    StepSource,
    begun_whole,
    tiled,
    whole_steps,
)
from tpuprof.model.steps.whole_capture import Times, over_the_capture
from tpuprof.records import record
from tpuprof.units import PS_PER_MS, counted, format_ms

# Devices that wait for each other in every step have steps of the same length but for some microseconds. Above this
# ratio of their median lengths, they have not.
SAME_STEPS = 1.01


@record(frozen=True)
class _Line:
    """Steps of one device in time order, each once (ps); `lack` is how many the trace lacks behind each."""

    device: str
    start: Int64
    end: Int64
    lack: Int64

    @property
    def covered(self) -> int:
        """Time from the first step to the end of the last."""
        return int(self.end[-1] - self.start[0])

    @property
    def length(self) -> float:
        """Length of the step in the middle."""
        return median(self.end - self.start)


def device_line_steps(devices: list[DeviceActivity]) -> Steps | None:
    """The steps of the device whose steps are the longest: a step has ended where its slowest device has.

    XProf, too, gives each step the time of the device that takes longest for it. A device whose steps end long before
    those of others, or begin long after them, does not speak for all. None where no device has such a line.
    """
    lines = [_line(each) for each in devices if len(each.step_start)]
    if not lines:
        return None
    shortest = min(lines, key=lambda each: each.length)
    lines = over_the_capture(lines, [Times(each.covered, len(each.start)) for each in lines])
    longest = max(lines, key=lambda each: each.length)
    same = longest.length <= shortest.length * SAME_STEPS
    # What a device lacks is not always known: of the same steps, that with most of them lacks fewest.
    chosen = max(lines, key=lambda each: len(each.start)) if same else longest
    note = "" if same else _differ(longest, shortest)
    number = np.arange(len(chosen.start)) + np.cumsum(chosen.lack) - chosen.lack
    steps = tiled(StepSource.DEVICE, HIGH, number, chosen.start, chosen.end, note)
    return _whole(without_holes(steps, chosen.end, chosen.lack))


def _differ(longest: _Line, shortest: _Line) -> str:
    slow, fast = (format_ms(each.length / PS_PER_MS) for each in (longest, shortest))
    return (
        f"the devices' own steps differ: half of them take {slow} or longer on {longest.device}, whose steps are used, "
        f"and {fast} on {shortest.device}"
    )


def _line(device: DeviceActivity) -> _Line:
    order = np.lexsort((-device.step_end, device.step_start))
    start, end = device.step_start[order], device.step_end[order]
    # What begins within another one and ends no later is a part of it, or the same step once more.
    reach = np.maximum.accumulate(end)
    own = np.ones(len(start), np.bool_)
    own[1:] = (start[1:] >= reach[:-1]) | (end[1:] > reach[:-1])
    own[1:] &= start[1:] != start[:-1]
    start, end, number = start[own], end[own], device.step_number[order][own]
    return _Line(device.name, start, end, lacking(number, start, by_programs(start, device.programs)))


def _whole(steps: Steps) -> Steps:
    """The steps without those at either end that the capture cut."""
    followed = np.arange(len(steps)) < len(steps) - 1
    kept = whole_steps(steps.start, steps.end, followed) & begun_whole(steps.start, steps.end, followed)
    left_out = int((~kept).sum())
    if not left_out:
        return steps
    are = "is" if left_out == 1 else "are"
    cut = f"{counted(left_out, 'step')} at the ends of the capture {are} not whole, and left out"
    return steps.only(kept, note=steps.noted(cut))
