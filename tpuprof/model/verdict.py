"""What holds a step, and a run, back.

A part of the step is worth naming when it takes at least a tenth of it; a device that works nine tenths of
the time leaves less than that to name, and the run is device-bound. Of the parts that are not the device's
own computing, the largest decides: computing is what the step is for, so it only decides when nothing else
reaches the threshold.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace

from tpuprof import parts
from tpuprof.model.device.cpu import Queue
from tpuprof.records import record
from tpuprof.units import format_ms, format_share

# Share of a step from which a part is worth naming; below it, removing the part whole gains less than the
# run-to-run noise usually seen (a tenth, as the warning threshold of a tracing time near the step time asks).
NAMED_FROM_SHARE = 0.10
# Share of device-busy time from which a run is device-bound: the complement of the above.
DEVICE_BOUND_FROM_SHARE = 0.90
# Device time over host work (ratio) from which a read that lets them take turns is the thing to fix: below
# it the host is the slower of the two by far, and would hold the step back without the read as well.
BALANCE_FOR_SYNC = 0.8
# How many times slower the slower of host and device must be to be the bound, where the runtime makes them take turns
# (ratio): nearer, a measurement on a shared machine does not tell which it is. The inverse of the above.
SLOWER_FROM = 1.25
# Share of steps that must hold a blocking read for reads to be the run's rhythm and not an accident.
READS_IN_STEPS_SHARE = 0.5
# Share of device-busy time from which reads in fewer steps than that are not what holds a run up: the host runs ahead
# and waits for all of it at once. Not fitted: above it the device's own work is more than twice what is left.
MOSTLY_BUSY_FROM_SHARE = 0.7
# Share of a step that compiling must take for the step to count as one that compiles: less is another thread's.
COMPILES_FROM_SHARE = 0.01
# Idle time beside the part a sentence speaks of, from which it says how much there is in all (share).
IDLE_BESIDE_FROM_SHARE = 0.05
# Share of the largest cause from which another one is about as large: repeated captures of one program differ by a
# fifth and more in what of two such causes is larger.
AS_LARGE_FROM = 0.8
# What the host does for every step. Of two causes about as large, one that names more than this is the bound.
_GENERAL = ("tracing", "dispatch", "host", "undecided")
# What the sentence's shares are of: the steps, or the one window of a capture in which no step was found.
STEP = "each step"
ONE_STEP = "the one step captured"
CAPTURE = "the whole capture, in which no step was found"
# Words of host work that a slower device hides, unless something makes host and device take turns.
_HIDES_BEHIND_THE_DEVICE = ("tracing", "dispatch", "undecided")
# What is said where the trace has no device plane, and so shows only the host.
UNSEEN = " The trace has no device plane, so whether the device works meanwhile is unknown."
UNSEEN_READS = (
    " The trace has no device plane, so how much of that is the device's own work is unknown: the read costs time only "
    "where the device then waits for the host."
)
# What is said beside a busy device: only of steps that were measured.
KEEPS_UP = "; the host keeps up"

# What makes host and device take turns, in the sentence: a read, or a wait that reads nothing.
A_READ, A_WAIT = "a device-to-host read in the step", "a wait for the device in the step"


@record(frozen=True)
class StepTimes:
    """What a verdict looks at: mean or single-step times in ms.

    `host_work` is time the training thread worked rather than waited, `busy` time the device was in a
    program; `reads_share` the share of steps that hold a blocking device-to-host read. `waited` is time the
    training thread waited for the device in the runtime itself: for buffers, or for the program before. `seen` says
    whether the trace shows what the device does at all. `blocked` is the time that reads block the training thread
    (None: unknown). `behind` is
    the device's queue of programs where it grows: how long the device idles is then unknown.
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


@record(frozen=True)
class Bound:
    """The verdict's word, the share of step time at stake, and the milliseconds per step that is.

    `turns` is the idle time that the device has because the runtime makes host and device take turns (ms).
    """

    word: str
    share: float
    ms: float
    name: str = ""
    turns: float = 0.0


def bound_of(load: StepTimes) -> Bound:
    """Name what holds back a step (or the mean step)."""
    if load.wall <= 0:
        return Bound("unknown", 0.0, 0.0)
    groups = _groups(load)
    device = groups.pop("device", 0.0)
    if _reads_now_and_then(load):
        groups.pop("sync", None)
    word = _largest(groups, load.wall)
    ms = groups.get(word, 0.0)
    turns = _taking_turns(load)
    if turns / load.wall >= NAMED_FROM_SHARE and word in (
        "tracing",
        "sync",
        "dispatch",
        "unknown",
        "host",
        "undecided",
    ):
        return Bound("sync", turns / load.wall, turns)
    if ms / load.wall < NAMED_FROM_SHARE:
        return (
            Bound("device", load.busy / load.wall, device) if load.seen else Bound("unknown", 1.0, load.wall)
        )
    slower = _slower(load) if word in _HIDES_BEHIND_THE_DEVICE else ""
    if slower:
        at_stake = (load.busy / load.wall, device) if slower == "device" else (ms / load.wall, ms)
        return Bound(slower, *at_stake, turns=ms)
    if word.startswith(parts.USER_PREFIX):
        return Bound("unknown", ms / load.wall, ms, word.removeprefix(parts.USER_PREFIX))
    return Bound(word, ms / load.wall, ms)


def _groups(load: StepTimes) -> dict[str, float]:
    """Time by word of the verdict (ms)."""
    groups: dict[str, float] = {}
    for name, ms in load.parts.items():
        word = parts.part_of(name).word
        groups[word] = groups.get(word, 0.0) + ms
    return groups


def _largest(groups: Mapping[str, float], wall: float) -> str:
    """The word with most time; of those about as large, one that names more than the host's usual work."""
    word = max(groups, key=lambda each: groups[each], default="unknown")
    if word not in _GENERAL:
        return word
    near = [
        each
        for each in groups
        if each not in (*_GENERAL, "unknown") and _near(groups[each], groups[word], wall)
    ]
    return max(near, key=lambda each: groups[each], default=word)


def _near(ms: float, most: float, wall: float) -> bool:
    return ms >= AS_LARGE_FROM * most and ms >= NAMED_FROM_SHARE * wall


def _reads_now_and_then(load: StepTimes) -> bool:
    """Whether a busy device is waited for in few steps: what it idles then is no turn that host and device take."""
    busy = load.busy >= MOSTLY_BUSY_FROM_SHARE * load.wall
    return load.seen and busy and load.reads_share < READS_IN_STEPS_SHARE


def _slower(load: StepTimes) -> str:
    """`device` where the runtime's own waits let a slower device idle, `undecided` where both need about as long.

    Empty where the host hardly waits for the device, or is the slower of the two: it is then what holds the step back.
    """
    if load.behind is not None:
        return "undecided"
    if (
        not load.seen
        or load.waited < NAMED_FROM_SHARE * load.wall
        or load.busy * SLOWER_FROM < load.host_work
    ):
        return ""
    return "device" if load.busy >= SLOWER_FROM * load.host_work else "undecided"


def without_part(load: StepTimes, name: str) -> StepTimes:
    """The mean step as it would be if one part of it took no time and nothing else changed."""
    gone = load.parts.get(name, 0.0)
    parts = {each: ms for each, ms in load.parts.items() if each != name}
    return replace(load, wall=load.wall - gone, parts=parts, host_work=max(load.host_work - gone, 0.0))


def sentence(bound: Bound, load: StepTimes, tracing_hidden: float, over: str = STEP) -> str:
    """The verdict for people: one sentence with its figures; `over` is what they are shares of."""
    share, time, wall = format_share(bound.share), format_ms(bound.ms), format_ms(load.wall)
    of_step = f"{share} of {over} ({time} of {wall})"
    if load.behind is not None and bound.word == "undecided":
        return _behind_sentence(load.behind, of_step)
    if not load.seen:
        return _unseen(bound, of_step)
    if bound.name:
        text = f"Held back by {bound.name!r}: the device idles for {of_step} while the host is in that annotation."
        return text + _idle_in_all(bound, load)
    if bound.turns:
        return _turns_sentence(bound, load, over)
    if bound.word == "device":
        return _device_sentence(load, share, wall, over)
    text = parts.word_of(bound.word).sentence.format(of_step=of_step)
    if bound.word == "tracing" and tracing_hidden >= NAMED_FROM_SHARE * load.wall:
        text += f" Another {format_ms(tracing_hidden)} of tracing per step is hidden behind device work."
    return text + _as_large(bound, load) + _idle_in_all(bound, load)


def _as_large(bound: Bound, load: StepTimes) -> str:
    """Another cause that takes about as much as the one named, or more; empty where there is none."""
    others = {
        word: ms
        for word, ms in _groups(load).items()
        if word not in (bound.word, "device") and not word.startswith(parts.USER_PREFIX)
    }
    word = max(others, key=lambda each: others[each], default="")
    stretch = parts.word_of(word).stretch if word else ""
    if not stretch or not _near(others[word], bound.ms, load.wall):
        return ""
    return (
        f" Another cause is about as large: {stretch}, {format_share(others[word] / load.wall)} "
        f"({format_ms(others[word])})."
    )


def _behind_sentence(queue: Queue, of_step: str) -> str:
    """The sentence where the host runs so far ahead that programs of the capture did not begin within it."""
    ran = f"{queue.ran} of them" if queue.ran else "none of them"
    return (
        f"Undecided: the host handed {queue.handed_over} programs over, and {ran} began while the profiler was on. The "
        f"device is behind the host, so it may be what holds training up, or the profile lost events. The host "
        f"works on the next graphs for {of_step} meanwhile. Capture more steps (`--steps`) to see the device."
    )


def _unseen(bound: Bound, of_step: str) -> str:
    """The sentence of a trace that shows only the host: the device may work or idle meanwhile."""
    if bound.name:
        return f"Held back by {bound.name!r}: the host is in that annotation for {of_step}.{UNSEEN}"
    text = parts.word_of(bound.word).unseen or parts.word_of("unknown").unseen
    return text.format(of_step=of_step) + (UNSEEN_READS if bound.word == "sync" else UNSEEN)


def _idle_in_all(bound: Bound, load: StepTimes) -> str:
    """All idle time, where the verdict names no cause for part of it: the part is not all."""
    idle = 1 - load.busy / load.wall
    if bound.word not in ("unknown", "undecided") or idle - bound.share < IDLE_BESIDE_FROM_SHARE:
        return ""
    return f" In all the device idles for {format_share(idle)}."


def compile_sentence(times: list[tuple[float, float]]) -> str:
    """The verdict where only some steps compile; `times` is (wall, of it idle for compiles) of each step in ms.

    Empty where all steps compile.
    """
    without = [wall for wall, compiling in times if compiling < COMPILES_FROM_SHARE * wall]
    if not without or len(without) == len(times):
        return ""
    compiled = len(times) - len(without)
    wall, lost = sum(wall for wall, _ in times), sum(compiling for _, compiling in times)
    return (
        f"Compile-bound: {compiled} of {len(times)} steps {'compiles' if compiled == 1 else 'compile'}, which takes "
        f"{format_share(lost / wall)} of the captured steps' time ({format_ms(lost)} of {format_ms(wall)}); "
        f"a step without a compile takes {format_ms(statistics.median(without))}."
    )


def _device_sentence(load: StepTimes, share: str, wall: str, over: str) -> str:
    if load.busy / load.wall >= DEVICE_BOUND_FROM_SHARE:
        # One step does not tell: what the host does between steps is not in it.
        keeps_up = KEEPS_UP if over == STEP else ""
        return f"Device-bound: the device is busy for {share} of {over} ({wall}){keeps_up}."
    return (
        f"Mostly device-bound: the device is busy for {share} of {over} ({wall}), and no single cause of its "
        f"idling reaches {format_share(NAMED_FROM_SHARE)}."
    )


def _turns_sentence(bound: Bound, load: StepTimes, over: str) -> str:
    """Where the runtime makes host and device take turns: which of the two is slower, or that both are candidates."""
    busy, wall, turns = format_share(load.busy / load.wall), format_ms(load.wall), format_ms(bound.turns)
    waits = f"The host waits {format_ms(load.waited)} for the device inside the runtime"
    if bound.word == "device":
        return (
            f"Mostly device-bound: the device is busy for {busy} of {over} ({wall}). {waits}, and prepares the next "
            f"graph afterwards, while the device idles ({turns})."
        )
    return (
        f"Undecided: host and device take turns, and need about as long. The device is busy for "
        f"{format_ms(load.busy)} of {over} ({wall}); the host works for {format_ms(load.host_work)}, most of it "
        f"tracing, and the device idles meanwhile for {turns}. {waits}."
    )


def _taking_turns(load: StepTimes) -> float:
    """Time per step loses because a blocking read keeps host and device from overlapping (ms).

    Without the read they could run side by side, and the step would take as long as the slower of the two.
    """
    if not load.seen:
        return 0.0
    if load.reads_share < READS_IN_STEPS_SHARE or load.busy < BALANCE_FOR_SYNC * load.host_work:
        return 0.0
    turns = max(load.wall - max(load.busy, load.host_work), 0.0)
    # Without the read the thread goes on earlier by what the read blocks, and by no more: the rest are other waits.
    return turns if load.blocked is None else min(turns, load.blocked)
