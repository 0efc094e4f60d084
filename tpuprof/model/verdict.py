"""What holds a step, and a run, back.

A part of the step is worth naming when it takes at least a tenth of it; a device that works nine tenths of
the time leaves less than that to name, and the run is device-bound. Of the parts that are not the device's
own computing, the largest decides: computing is what the step is for, so it only decides when nothing else
reaches the threshold.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuprof import parts
from tpuprof.model.decisions import MS, SHARE, Decisions
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.model.verdict_reads import fallbacks_hold_it, reads_hold_it, reads_now_and_then
from tpuprof.model.verdict_words import (
    DEVICE_BOUND_FROM_SHARE,
    MOSTLY_BUSY_FROM_SHARE,
    NAMED_FROM_SHARE,
    groups_of,
    named,
)

# How many times slower the slower of host and device must be to be the bound, where the runtime makes them take turns
# (ratio): nearer, a measurement on a shared machine does not tell which it is. The inverse of BALANCE_FOR_SYNC.
SLOWER_FROM = 1.25
# How many times longer than the host works the device must idle for the host's waits in the runtime to be no waits for
# its programs (ratio): in turns, one works while the other waits. 200 MB of NumPy that each call copies to the device
# are such a wait: 106 ms, with 13 ms of work. A judgement. A device that is busy for most of the step is what decides.
IDLES_BEYOND = 2.0
# Share of the largest cause from which another one is about as large: repeated captures of one program differ by a
# fifth and more in what of two such causes is larger.
AS_LARGE_FROM = 0.8
# What the host does for every step. Of two causes about as large, one that names more than this is the bound.
_GENERAL = ("tracing", "dispatch", "host", "undecided")
# Parts in which the training thread waits for something that is not the device: samples see for sure that it does.
_BLOCKED = tuple(parts.HOST_PREFIX + each for each in ("sleep", "io", "lock", "gil"))
# Words of time in which the device is in a program.
_OF_DEVICE = ("collective", "offload", "callback")
# Words of host work that a slower device hides, unless something makes host and device take turns.
_HIDES_BEHIND_THE_DEVICE = ("tracing", "dispatch", "undecided")
# Words of what else the host does. A device that is behind with its programs may not wait for it.
_OF_THE_HOST = ("input", "host")


def bound_of(load: StepTimes, why: Decisions | None = None) -> Bound:
    """Name what holds back a step (or the mean step); `why` gets each comparison that is made for it."""
    why = why or Decisions()
    if load.wall <= 0:
        return Bound("unknown", 0.0, 0.0)
    groups = groups_of(load)
    device = groups.pop("device", 0.0)
    if groups.get("sync") and reads_now_and_then(load, why):
        del groups["sync"]
    word = _largest(groups, load, why)
    ms = groups.get(word, 0.0)
    held = _costlier(reads_hold_it(load, word, ms, why), fallbacks_hold_it(load, groups, word, why), why)
    if held is not None:
        return held
    if word == "unknown" and ms >= NAMED_FROM_SHARE * load.wall and _outweighs_unknown(load, why):
        word = _largest({each: time for each, time in groups.items() if each != word}, load, why)
        ms = groups.get(word, 0.0) if word != "unknown" else 0.0
    if not why.at_least(
        f"the largest part that is not the device's computing: {named(word)}",
        ms / load.wall,
        NAMED_FROM_SHARE,
        SHARE,
        yes="it is large enough to name",
        no="no single cause of idling is worth naming: the device decides",
    ):
        return _no_cause(load, device, why)
    slower = _slower(load, why) if _may_hide(word, load) else ""
    if slower:
        at_stake = (load.busy / load.wall, device) if slower == "device" else (ms / load.wall, ms)
        return Bound(slower, *at_stake, turns=ms, meanwhile=word)
    if word.startswith(parts.USER_PREFIX):
        name = word.removeprefix(parts.USER_PREFIX)
        said = name if name in parts.OWN_ANNOTATIONS else parts.ANNOTATION
        return Bound(said, ms / load.wall, ms, name)
    return Bound(word, ms / load.wall, ms)


def _costlier(reads: Bound | None, ops: Bound | None, why: Decisions) -> Bound | None:
    """What costs more: reads of values, or ops that run on the host; None where neither holds the step back."""
    if reads is None or ops is None:
        return reads or ops
    more = why.at_least(
        "what ops that run on the host cost, compared with what reads of values cost",
        ops.ms,
        reads.ms,
        MS,
        yes="the ops cost more",
        no="the reads cost more",
    )
    return ops if more else reads


def _may_hide(word: str, load: StepTimes) -> bool:
    """Whether a device that is slower, or behind with its programs, may hide what holds the step back."""
    if word in _HIDES_BEHIND_THE_DEVICE:
        return True
    return load.behind is not None and (word in _OF_THE_HOST or word.startswith(parts.USER_PREFIX))


def _outweighs_unknown(load: StepTimes, why: Decisions) -> bool:
    """Whether the device works for so much of the time that idle time without a known cause is not the verdict."""
    return load.seen and why.at_least(
        "device busy, compared with idle time without a known cause",
        load.busy / load.wall,
        MOSTLY_BUSY_FROM_SHARE,
        SHARE,
        yes="the device decides, unless a known cause is worth naming; the idle time is said beside it",
        no="the device idles too much to be what decides: no known cause",
    )


def _no_cause(load: StepTimes, device: float, why: Decisions) -> Bound:
    """Where nothing that idles the device is worth naming: the device, if it is seen."""
    if not load.seen:
        return Bound("unknown", 1.0, load.wall)
    is_device_bound(load, why)
    return Bound("device", load.busy / load.wall, device)


def is_device_bound(load: StepTimes, why: Decisions) -> bool:
    """Whether the device is busy for so much of the step that nothing else is worth naming."""
    return why.at_least(
        "device busy",
        load.busy / load.wall,
        DEVICE_BOUND_FROM_SHARE,
        SHARE,
        yes="device-bound",
        no="mostly device-bound: it idles, for no single cause that is worth naming",
    )


def _largest(groups: Mapping[str, float], load: StepTimes, why: Decisions) -> str:
    """The word with most time; of those about as large, one that names more than the host's usual work."""
    ranked = sorted(groups, key=lambda each: -groups[each])
    if not ranked:
        return "unknown"
    first, second = ranked[0], ranked[1] if len(ranked) > 1 else ""
    # Samples name the host's lines: what the device does in the same time is no surer.
    less = _OF_DEVICE if first == "host" else ()
    special = next((each for each in ranked if each not in (first, *less) and _names_more(each, load)), "")
    if (
        first in _GENERAL
        and not _names_more(first, load)
        and special
        and groups[special] > 0
        and _is_as_large(groups, special, first, load, why)
    ):
        return special
    if second and groups[second] > 0:
        why.at_least(
            f"the largest part, {named(first)}, compared with the next one, {named(second)}",
            groups[first] / load.wall,
            groups[second] / load.wall,
            SHARE,
            yes=f"the verdict looks at {named(first)}",
            no=f"the verdict would look at {named(second)}",
        )
    return first


def _names_more(word: str, load: StepTimes) -> bool:
    """Whether a word names more than usual work of the host: a sleep or a wait for another thread does."""
    if word != "host":
        return word not in (*_GENERAL, "unknown")
    of_host = {name: ms for name, ms in load.parts.items() if name.startswith(parts.HOST_PREFIX)}
    return max(of_host, key=lambda each: of_host[each], default="") in _BLOCKED


def near(most: float, wall: float) -> float:
    """From what time on (ms) a cause is about as large as the largest, and large enough to name."""
    return max(AS_LARGE_FROM * most, NAMED_FROM_SHARE * wall)


def _is_as_large(
    groups: Mapping[str, float], special: str, general: str, load: StepTimes, why: Decisions
) -> bool:
    """Whether a cause that names more is about as large as the host's usual work, and large enough to name."""
    least = near(groups[general], load.wall)
    as_large = least > NAMED_FROM_SHARE * load.wall
    beside = f"{AS_LARGE_FROM:g} times {named(general)}" if as_large else f"{NAMED_FROM_SHARE:g} of the step"
    smaller = f"{named(general)} is clearly larger" if as_large else f"{named(special)} is too small to name"
    return why.at_least(
        f"{named(special)}, which names more than {named(general)}, compared with {beside}",
        groups[special],
        least,
        MS,
        yes=f"they are about as large: the verdict is about {named(special)}, and names both",
        no=f"{smaller}: the verdict looks at {named(general)} first",
    )


def _slower(load: StepTimes, why: Decisions) -> str:
    """`device` where the runtime's own waits let a slower device idle, `undecided` where both need about as long.

    Empty where the host hardly waits for the device, or is the slower of the two: it is then what holds the step back.
    """
    if why.is_so(
        "the device, or the thread that feeds it, is behind the host: it did not do all that it was handed",
        load.behind is not None,
        yes="whether it idles is unknown: undecided",
        no="its idle time is what the trace shows",
    ):
        return "undecided"
    if not why.is_so(
        "the trace shows what the device does",
        load.seen,
        yes="host and device can be compared",
        no="the host's part is named; what the device does meanwhile is unknown",
    ):
        return ""
    return _by_work(load, why)


def _by_work(load: StepTimes, why: Decisions) -> str:
    """The same, of a trace that shows both: by what each of them needs."""
    host = "the host holds the step back: its part is named"
    if load.busy < MOSTLY_BUSY_FROM_SHARE * load.wall and why.at_least(
        f"idle time of the device, compared with {IDLES_BEYOND:g} times the host's work",
        load.wall - load.busy,
        IDLES_BEYOND * load.works,
        MS,
        yes=f"the host waits in the runtime while the device idles too, so it waits for something else: {host}",
        no="the host works while the device idles: they may take turns",
    ):
        return ""
    waits = why.at_least(
        "the host's own waits for the device in the runtime",
        load.waited,
        NAMED_FROM_SHARE * load.wall,
        MS,
        yes="host and device take turns: the slower of the two is looked for",
        no=host,
    )
    if not waits or not why.at_least(
        f"device busy, compared with the host's work over {SLOWER_FROM:g}",
        load.busy,
        load.works / SLOWER_FROM,
        MS,
        yes="the host is not clearly the slower of the two",
        no=host,
    ):
        alone = not waits or _also_on_free_cpus(
            load, "the host's work", load.works_alone, load.busy_alone, why
        )
        return "" if alone else "undecided"
    slower = why.at_least(
        f"device busy, compared with {SLOWER_FROM:g} times the host's work",
        load.busy,
        SLOWER_FROM * load.works,
        MS,
        yes="the device is the slower of the two: mostly device-bound",
        no="both need about as long: undecided",
    )
    alone = slower and _also_on_free_cpus(load, "device busy", load.busy_alone, load.works_alone, why)
    return "device" if alone else "undecided"


def _also_on_free_cpus(load: StepTimes, what: str, takes: float, other: float, why: Decisions) -> bool:
    """Whether the slower of the two is so without waits for a CPU as well.

    Of one program that another one ran beside, one capture found the device slower, and one the host.
    """
    return not load.cpu_wait or why.at_least(
        f"{what}, compared with the other of the two, both without what they wait for a CPU",
        takes,
        other,
        MS,
        yes="it is slower on a free machine as well",
        no="other work on the CPUs may make it the slower of the two: undecided",
    )
