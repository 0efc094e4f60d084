"""What a verdict looks at, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tpuprof.model.device.cpu import Queue
from tpuprof.records import record


@record(frozen=True)
class StepTimes:
    """What a verdict looks at: mean or single-step times in ms.

    `host_work` is time the training thread worked rather than waited, `busy` time the device was in a
    program; `reads_share` the share of steps that hold a blocking device-to-host read. `waited` is time the
    training thread waited for the device in the runtime itself: for buffers, or for the program before. `seen` says
    whether the trace shows what the device does at all. `blocked` is the time that reads block the training thread
    (None: unknown). `behind` is the device's queue of programs where it grows: how long the device idles is then
    unknown. `again` is work of the device that reads ran by themselves in mid-step, and that the step computes as well.
    `fallbacks_share` is the share of steps that hold an op which falls back to the host; `again_for_ops` is what
    `again` is, for such ops. `unfinished` is how long the device worked at least, and `feeding` how long another thread
    handed programs to it, where the trace has no device plane and reads waited for both. `for_reads` is idle time in
    which the host makes graphs that reads run by themselves. `ready` is the time of reads that wait for
    nothing. `at_once` is the longest wait of one step for work that steps before it handed over, where the trace has no
    device plane. `reads` is how many values are read per step (None: of a single step), and `at_most` how long the
    device worked at most where the trace has no device plane (None: unknown). `cpu_wait` is the share of the time that
    the program's threads could have run in which they waited for a CPU; `host_wait` is that of the training thread, and
    `device_wait` of the device's threads, where it is a CPU: `on_cpu`. `turns` is what steps take beyond the slower of
    host and device, with no more of a lead than the host can have (None: unknown).
    """

    wall: float
    parts: Mapping[str, float]
    busy: float
    host_work: float
    reads_share: float
    waited: float = 0.0
    seen: bool = True
    blocked: float | None = None
    behind: Queue | None = None
    again: float = 0.0
    fallbacks_share: float = 0.0
    unfinished: float = 0.0
    feeding: float = 0.0
    for_reads: float = 0.0
    again_for_ops: float = 0.0
    ready: float = 0.0
    at_once: float = 0.0
    reads: float | None = None
    at_most: float | None = None
    cpu_wait: float = 0.0
    host_wait: float = 0.0
    device_wait: float = 0.0
    on_cpu: bool = False
    turns: float | None = None

    @property
    def works(self) -> float:
        """How long the host works (ms): a read of a value that is ready waits for nothing, so it is work as well."""
        return self.host_work + self.ready

    @property
    def works_alone(self) -> float:
        """How long the host works without its waits for a CPU (ms)."""
        return self.works * (1 - self.host_wait)

    @property
    def busy_alone(self) -> float:
        """How long the device is busy without its waits for a CPU (ms)."""
        return self.busy * (1 - self.device_wait)


@record(frozen=True)
class Bound:
    """The verdict's word, the share of step time at stake, and the milliseconds per step that is.

    `turns` is the idle time that the device has because the runtime makes host and device take turns (ms). `again` says
    that the time is the device's own, for work that it does a second time. `by_turns` says that the
    time is lost because reads, or ops on the host, make host and device take turns, `by_cuts` that it is what reads
    take that run graphs of their own. `elsewhere` says that it is the time of another thread, for which reads wait.
    `meanwhile` is the word of what the host does, where it is unknown whether the device waits for it. `ahead` is the
    longest wait for work of several steps (ms), where it shows that the host is ahead of a device that is not shown.
    `waits` is the time of reads (ms) in which a device that is not shown may work or not.
    """

    word: str
    share: float
    ms: float
    name: str = ""
    turns: float = 0.0
    again: bool = False
    by_turns: bool = False
    by_cuts: bool = False
    elsewhere: bool = False
    meanwhile: str = ""
    ahead: float = 0.0
    waits: float = 0.0

    @property
    def is_either(self) -> bool:
        """Whether reads wait for the device or for the thread that hands programs to it, and nothing tells which."""
        return self.word == "undecided" and self.elsewhere


def without_part(load: StepTimes, name: str) -> StepTimes:
    """The mean step as it would be if one part of it took no time and nothing else changed."""
    return without_some(load, {name: load.parts.get(name, 0.0)})


def without_some(load: StepTimes, less: Mapping[str, float]) -> StepTimes:
    """The mean step as it would be if parts took so much less time (ms) and nothing else changed."""
    gone = sum(less.values())
    parts = {
        each: ms - less.get(each, 0.0)
        for each, ms in load.parts.items()
        if ms > less.get(each, 0.0) or not ms
    }
    wall = load.wall - gone
    return replace(
        load,
        wall=wall,
        parts=parts,
        host_work=max(load.host_work - gone, 0.0),
        unfinished=min(load.unfinished, wall),
        feeding=min(load.feeding, wall),
    )


def with_some(load: StepTimes, name: str, ms: float) -> StepTimes:
    """The mean step as it would be if one more part took so much time (ms) in which nothing else happens."""
    parts = {**load.parts, name: load.parts.get(name, 0.0) + ms} if ms > 0 else load.parts
    return replace(load, wall=load.wall + ms, parts=parts, host_work=load.host_work + ms)
