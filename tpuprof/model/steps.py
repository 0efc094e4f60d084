"""Where each training step begins and ends, and how sure we are of it.

Sources are tried in the order of trust: marked steps on the host (StepTrace and tpuprof.step write `_r`,
torch.profiler writes `ProfilerStep#N`), the device's `Steps` line, else boundaries are inferred: from the
host's graph cuts, or from the period of the device's programs.
"""

from __future__ import annotations

import re

import numpy as np

from tpuprof.model.device import DeviceActivity, ModuleEvents
from tpuprof.model.host_activity import marks
from tpuprof.model.intervals import Bool, Int64, Spans, contains
from tpuprof.model.timeline import Track
from tpuprof.model.vocabulary import Vocabulary
from tpuprof.records import dataclass

_PROFILER_STEP = re.compile(r"ProfilerStep#(\d+)")
# A repeating sequence of programs longer than this is not looked for (programs a step).
MAX_PERIOD = 32
# Share of programs that must fit the repetition for it to count as the step.
MIN_PERIODIC_SHARE = 0.9
# Fewer repetitions than this do not make a period.
MIN_REPEATS = 3


@dataclass(frozen=True)
class Steps:
    """Steps in time order. `number` is what the program called each, `start` and `end` in ps from origin.

    A step lasts until the next one starts: work between two markers belongs to the one before.
    `confidence` is high, medium or low; `method` names the source.
    """

    method: str
    confidence: str
    number: Int64
    start: Int64
    end: Int64
    note: str = ""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def wall_ps(self) -> Int64:
        """Wall time of each step in ps."""
        return self.end - self.start

    def hold(self, times: Int64) -> Bool:
        """Whether each time lies in a step."""
        return contains(self.spans, times)

    @property
    def spans(self) -> Spans:
        """The steps as intervals, which may touch."""
        return Spans(self.start, self.end)


def find_steps(driver: Track | None, devices: list[DeviceActivity], vocabulary: Vocabulary) -> Steps:
    """The steps of one host, by the first source that has any."""
    on_host = (_marked(driver) or _profiler_steps(driver)) if driver is not None else None
    if on_host:
        return on_host
    cuts = _graph_cuts(driver, vocabulary) if driver is not None else None
    return _device_line(devices) or cuts or _module_period(devices) or no_steps()


def no_steps() -> Steps:
    """The result where nothing tells steps apart."""
    none = np.empty(0, np.int64)
    return Steps("none", "low", none, none, none, "no step marker, graph cut or repeating program was found")


def _marked(driver: Track) -> Steps | None:
    stats = driver.stats("_r", "step_num")
    plane = driver.plane
    key = plane.stat_ids.get("_r")
    if key is None or not len(stats):
        return None
    roots = np.flatnonzero(np.bincount(stats.select(key).row))
    values, codes = marks(driver)
    if "step" in values:
        own = roots[codes[roots] == values.index("step")]
        roots = own if len(own) else roots
    roots = _outermost(driver, roots)
    number = plane.stat_integers(stats, "step_num", len(driver), missing=-1)[roots]
    if not len(roots):
        return None
    if (number < 0).any():
        number = np.arange(len(roots))
    return _tiled("step markers", "high", number, driver.start[roots], driver.end[roots])


def _outermost(driver: Track, rows: Int64) -> Int64:
    """Of several markers inside one another, the outer ones; in time order."""
    rows = rows[np.argsort(driver.start[rows], kind="stable")]
    inside = np.zeros(len(rows), np.bool_)
    if len(rows) > 1:
        reach = np.maximum.accumulate(driver.end[rows])[:-1]
        inside[1:] = driver.end[rows][1:] <= reach
    return rows[~inside]


def _profiler_steps(driver: Track) -> Steps | None:
    names = driver.plane.events.names
    numbers = np.array([_profiler_step_number(name) for name in names] + [-1], np.int64)[driver.name]
    rows = _outermost(driver, np.flatnonzero(numbers >= 0))
    if not len(rows):
        return None
    return _tiled("torch.profiler steps", "high", numbers[rows], driver.start[rows], driver.end[rows])


def _profiler_step_number(name: str) -> int:
    found = _PROFILER_STEP.match(name)
    return int(found.group(1)) if found else -1


def _device_line(devices: list[DeviceActivity]) -> Steps | None:
    for device in devices:
        if len(device.step_start):
            order = np.argsort(device.step_start, kind="stable")
            start, end = device.step_start[order], device.step_end[order]
            return _tiled("device Steps line", "high", np.arange(len(start)), start, end)
    return None


def _graph_cuts(driver: Track, vocabulary: Vocabulary) -> Steps | None:
    """Steps from one graph cut's end to the next; cuts that ran no graph end nothing."""
    names = driver.plane.events.names
    rows = np.flatnonzero(np.isin(driver.name, vocabulary.step_boundary.rows(names)))
    work = np.flatnonzero(np.isin(driver.name, vocabulary.graph_cut.rows(names)))
    if not len(rows) or not len(work):
        return None
    rows = rows[np.argsort(driver.start[rows], kind="stable")]
    starts = np.sort(driver.start[work])
    holds = np.searchsorted(starts, driver.end[rows]) > np.searchsorted(starts, driver.start[rows])
    ends = driver.end[rows[holds]]
    if len(ends) < MIN_REPEATS:
        return None
    # What came before the first cut is a step too, but began before the capture: leave it out.
    return Steps(
        "inferred from graph cuts",
        "medium",
        np.arange(len(ends) - 1),
        ends[:-1],
        ends[1:],
        "one graph cut (torch_xla.sync) counts as one step; mark steps with tpuprof.step if yours holds several",
    )


def _module_period(devices: list[DeviceActivity]) -> Steps | None:
    """Steps from the repetition of programs on the first device that ran any."""
    for device in devices:
        modules = device.modules
        if len(modules.start) >= MIN_REPEATS:
            first = _period_starts(modules)
            if len(first) >= MIN_REPEATS:
                return _from_period(modules, first)
    return None


def _from_period(modules: ModuleEvents, first: Int64) -> Steps:
    order = np.argsort(modules.start, kind="stable")
    start = modules.start[order][first]
    end_by_module = modules.end[order]
    last = np.append(first[1:], len(order)) - 1
    last[-1] = min(int(first[-1] + np.median(np.diff(first)).astype(int) - 1), len(order) - 1)
    return _tiled(
        "inferred from the period of XLA Modules",
        "medium",
        np.arange(len(first)),
        start,
        end_by_module[last],
        "no step marker in the trace: a step is one repetition of the device's programs",
    )


def _period_starts(modules: ModuleEvents) -> Int64:
    """Positions (in time order) at which the repeating sequence of programs starts over."""
    order = np.argsort(modules.start, kind="stable")
    sequence = modules.module[order]
    duration = (modules.end - modules.start)[order]
    time_by_module = np.bincount(sequence, weights=duration)
    main = int(np.argmax(time_by_module))
    at = np.flatnonzero(sequence == main)
    # The heaviest program anchors the period; it may itself run several times a step (accumulation).
    for stride in range(1, MAX_PERIOD + 1):
        if len(at) < MIN_REPEATS * stride:
            break
        gaps = np.diff(at[::stride])
        if (
            len(gaps)
            and (gaps == np.median(gaps)).mean() >= MIN_PERIODIC_SHARE
            and _same_blocks(sequence, at[::stride])
        ):
            return at[::stride]
    return at


def _same_blocks(sequence: Int64, first: Int64) -> bool:
    """Whether most blocks between period starts hold the same programs."""
    width = int(np.median(np.diff(first))) if len(first) > 1 else 1
    blocks = [tuple(sequence[i : i + width]) for i in first[:-1]]
    most = max(blocks.count(block) for block in set(blocks))
    return most / len(blocks) >= MIN_PERIODIC_SHARE


def _tiled(method: str, confidence: str, number: Int64, start: Int64, end: Int64, note: str = "") -> Steps:
    """Let each step last until the next starts, so that nothing between markers is lost."""
    until = np.append(start[1:], end[-1])
    return Steps(method, confidence, number.astype(np.int64), start, np.maximum(until, start), note)
