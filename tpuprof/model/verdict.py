"""What holds a step, and a run, back.

A part of the step is worth naming when it takes at least a tenth of it; a device that works nine tenths of
the time leaves less than that to name, and the run is device-bound. Of the parts that are not the device's
own computing, the largest decides: computing is what the step is for, so it only decides when nothing else
reaches the threshold.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuprof import parts
from tpuprof.model.decisions import MS, SHARE, STEPS, Decisions
from tpuprof.model.step_times import Bound, StepTimes

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
# and waits for all of it at once. Nor does idle time of unknown cause take the verdict from such a device. Not fitted:
# above it the device's own work is more than twice what is left.
MOSTLY_BUSY_FROM_SHARE = 0.7
# Cost of reads that run graphs, over the rest of the host's work of that kind, from which the reads are named (ratio):
# that rest is also slower beside reads. Without 20 reads per step captured steps saved 1.45 times what the reads took,
# so what costs half of the rest saves as much as is left.
OF_TRACING_FOR_READS = 0.5
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
# Words of host work that a read adds where it runs a graph of its own.
_MAKES_GRAPHS = ("tracing", "dispatch")
# Words of what else the host does. A device that is behind with its programs may not wait for it.
_OF_THE_HOST = ("input", "host")
# Words of time that is lost in turns, where a read or an op on the host makes host and device take turns.
TURNS_EXPLAIN = ("tracing", "sync", "dispatch", "unknown", "host", "undecided")
# What words are called inside a sentence, where that is not the word itself.
_SPOKEN = {
    "undecided": "tracing or other Python",
    "unknown": "what the trace does not name",
    "sync": "reads of values from the device",
    "host": "other work of the host",
    "input": "input",
}


def bound_of(load: StepTimes, why: Decisions | None = None) -> Bound:
    """Name what holds back a step (or the mean step); `why` gets each comparison that is made for it."""
    why = why or Decisions()
    if load.wall <= 0:
        return Bound("unknown", 0.0, 0.0)
    groups = groups_of(load)
    device = groups.pop("device", 0.0)
    if groups.get("sync") and _reads_now_and_then(load, why):
        del groups["sync"]
    word = _largest(groups, load, why)
    ms = groups.get(word, 0.0)
    held = _reads_hold_it(load, word, ms, why) or _fallbacks_hold_it(load, groups, word, why)
    if held is not None:
        return held
    if word == "unknown" and ms >= NAMED_FROM_SHARE * load.wall and _outweighs_unknown(load, why):
        word = _largest({each: time for each, time in groups.items() if each != word}, load, why)
        ms = groups.get(word, 0.0) if word != "unknown" else 0.0
    if not why.at_least(
        f"the largest part that is not the device's computing: {_named(word)}",
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


def _may_hide(word: str, load: StepTimes) -> bool:
    """Whether a device that is slower, or behind with its programs, may hide what holds the step back."""
    if word in _HIDES_BEHIND_THE_DEVICE:
        return True
    return load.behind is not None and (word in _OF_THE_HOST or word.startswith(parts.USER_PREFIX))


def _works_on(load: StepTimes, why: Decisions) -> bool:
    """Whether reads wait for work that takes nearly all of the step, of a device that the trace does not show.

    Where few steps read, what they wait for was handed over in all of them: the same share as of a device that is seen.
    """
    worked = max(load.unfinished, load.feeding)
    if load.seen or not worked:
        return False
    often = _reads_often(load, why, "the host runs ahead of the device, and waits for all of it at once")
    return why.at_least(
        "work handed over before, which reads wait for and which takes as long without them",
        worked / load.wall,
        DEVICE_BOUND_FROM_SHARE if often else MOSTLY_BUSY_FROM_SHARE,
        SHARE,
        yes="the device, or what hands programs to it, holds the step back",
        no="the reads may cost what the host does before them",
    )


def _of_unfinished(load: StepTimes) -> Bound:
    """The bound where reads wait for work that takes nearly all of the step: the device, or handing programs over."""
    word = "device" if load.unfinished >= load.feeding else "dispatch"
    ms = max(load.unfinished, load.feeding)
    return Bound(word, ms / load.wall, ms)


def _reads_hold_it(load: StepTimes, word: str, ms: float, why: Decisions) -> Bound | None:
    """The bound where reads hold the step back: by the turns that they force, or by work done again for them.

    Or the bound that their waits show, of a device that the trace does not.
    """
    if word == "sync" and _works_on(load, why):
        return _of_unfinished(load)
    turns = _taking_turns(load, why) if word in TURNS_EXPLAIN else 0.0
    if turns and why.at_least(
        "time lost because a blocking read keeps host and device from overlapping",
        turns / load.wall,
        NAMED_FROM_SHARE,
        SHARE,
        yes="the read holds the step back: sync-bound",
        no="the read is not what holds the step back; the largest part is looked at",
    ):
        if load.again and _again_costs_more(load, turns, why):
            return Bound("sync", load.again / load.wall, load.again, again=True)
        return Bound("sync", turns / load.wall, turns, by_turns=True)
    if load.again and _computes_again(load, word, ms, why):
        return Bound("sync", load.again / load.wall, load.again, again=True)
    return _cuts_of_reads(load, word, ms, why) if word in _MAKES_GRAPHS else None


def _cuts_of_reads(load: StepTimes, word: str, ms: float, why: Decisions) -> Bound | None:
    """The bound where reads that run graphs of their own cost more than all other tracing, or handing over.

    Each of them is traced to its end, handed over, waited for, and partly computed again: all of it goes with the read.
    """
    if not load.for_reads or load.reads_share < READS_IN_STEPS_SHARE:
        return None
    waits = groups_of(load).get("sync", 0.0)
    cost = load.for_reads + waits + load.again
    others = max(ms - load.for_reads, 0.0)
    if not why.at_least(
        f"graphs that reads run by themselves, beside {OF_TRACING_FOR_READS:g} times the rest of {_named(word)}",
        cost,
        max(OF_TRACING_FOR_READS * others, NAMED_FROM_SHARE * load.wall),
        MS,
        yes="the reads are what costs most, or as much: sync-bound",
        no=f"{_named(word)} costs more without them: it is named",
    ):
        return None
    return Bound("sync", cost / load.wall, cost, by_cuts=True)


def _fallbacks_hold_it(
    load: StepTimes, groups: Mapping[str, float], word: str, why: Decisions
) -> Bound | None:
    """The bound where ops that run on the host in most steps cost most, with the turns that they force.

    Such an op waits for its inputs, so that the device has nothing to do when it ends. Without it the thread goes on
    earlier by the op's own time and by its waits for the device, at most, until the step takes as long as the host's
    other work. A device that works for longer than that is waited for without the op as well.
    """
    own = groups.get("fallback", 0.0)
    often = load.fallbacks_share >= READS_IN_STEPS_SHARE
    # Where reads stay, host and device take turns at them.
    alone = load.seen and load.reads_share < READS_IN_STEPS_SHARE
    if not own or not often or not alone or word not in (*TURNS_EXPLAIN, "fallback"):
        return None
    rest = load.host_work - own
    turns = min(load.wall - rest, own + load.waited)
    if (
        rest >= load.busy
        and turns > own
        and why.at_least(
            f"ops that run on the host, with the turns that they force, beside {_named(word)}",
            turns,
            max(groups[word], NAMED_FROM_SHARE * load.wall),
            MS,
            yes="the ops hold the step back: fallback-bound",
            no="the ops are not what holds the step back; the largest part is looked at",
        )
    ):
        return Bound("fallback", turns / load.wall, turns, by_turns=True)
    return None


def _again_costs_more(load: StepTimes, turns: float, why: Decisions) -> bool:
    """Whether reads cost more by work that the device does twice for them than by the turns that they force."""
    return why.at_least(
        "work that the device does again because of reads in mid-step, beside the turns that they force",
        load.again,
        turns,
        MS,
        yes="the reads cost most by that work: sync-bound",
        no="the turns that they force cost as much, and are named",
    )


def _computes_again(load: StepTimes, word: str, ms: float, why: Decisions) -> bool:
    """Whether the device does enough of its work twice, for values that are read in mid-step, to be what costs most."""
    return why.at_least(
        f"work that the device does again because of reads in mid-step, beside {_named(word)}",
        load.again,
        max(ms, NAMED_FROM_SHARE * load.wall),
        MS,
        yes="the reads cost more than any idle time: sync-bound",
        no="the largest idle time is looked at",
    )


def _outweighs_unknown(load: StepTimes, why: Decisions) -> bool:
    """Whether the device works for so much of the time that idle time without a known cause is not the verdict."""
    return load.seen and why.at_least(
        "device busy, beside idle time without a known cause",
        load.busy / load.wall,
        MOSTLY_BUSY_FROM_SHARE,
        SHARE,
        yes="the device decides, unless a known cause is worth naming; the idle time is said beside it",
        no="the device idles too much to be what decides: no known cause",
    )


def groups_of(load: StepTimes) -> dict[str, float]:
    """Time by word of the verdict (ms)."""
    groups: dict[str, float] = {}
    for name, ms in load.parts.items():
        word = parts.part_of(name).word
        groups[word] = groups.get(word, 0.0) + ms
    return groups


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
            f"the largest part, {_named(first)}, beside the next one, {_named(second)}",
            groups[first] / load.wall,
            groups[second] / load.wall,
            SHARE,
            yes=f"{_named(first)} is looked at",
            no=f"{_named(second)} would be looked at",
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


def _reads_now_and_then(load: StepTimes, why: Decisions) -> bool:
    """Whether a busy device is waited for in few steps: what it idles then is no turn that host and device take."""
    if not load.seen or not why.at_least(
        f"device busy, beside {MOSTLY_BUSY_FROM_SHARE:g} of the step",
        load.busy,
        MOSTLY_BUSY_FROM_SHARE * load.wall,
        MS,
        yes="reads count where most steps hold one",
        no="reads count also where few steps hold one",
    ):
        return False
    return not _reads_often(load, why, "reads in few steps do not hold a busy device up: they are left out")


def _reads_often(load: StepTimes, why: Decisions, no: str) -> bool:
    """Whether blocking reads are the run's rhythm; `no` says what follows where they are not."""
    return why.at_least(
        "steps that hold a blocking read of a value from the device",
        load.reads_share,
        READS_IN_STEPS_SHARE,
        STEPS,
        yes="reads are part of the run's rhythm",
        no=no,
    )


def _is_as_large(
    groups: Mapping[str, float], special: str, general: str, load: StepTimes, why: Decisions
) -> bool:
    """Whether a cause that names more is about as large as the host's usual work, and large enough to name."""
    return why.at_least(
        f"{_named(special)}, beside {AS_LARGE_FROM:g} times {_named(general)}, which names less",
        groups[special],
        near(groups[general], load.wall),
        MS,
        yes=f"they are about as large: {_named(special)} decides, and both are named",
        no=f"{_named(general)} is clearly larger, or the other is too small to name",
    )


def spoken(bound: Bound) -> str:
    """What a bound is called inside a sentence."""
    own = parts.OWN_ANNOTATIONS.get(bound.name)
    return own[0] if own else repr(bound.name) if bound.name else _named(bound.word)


def _named(word: str) -> str:
    return _SPOKEN.get(word) or word.removeprefix(parts.USER_PREFIX)


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
    waits = why.at_least(
        "the host's own waits for the device in the runtime",
        load.waited,
        NAMED_FROM_SHARE * load.wall,
        MS,
        yes="host and device take turns: the slower of the two is looked for",
        no=host,
    )
    if not waits or not why.at_least(
        f"device busy, beside the host's work over {SLOWER_FROM:g}",
        load.busy,
        load.host_work / SLOWER_FROM,
        MS,
        yes="the host is not clearly the slower of the two",
        no=host,
    ):
        return ""
    slower = why.at_least(
        f"device busy, beside {SLOWER_FROM:g} times the host's work",
        load.busy,
        SLOWER_FROM * load.host_work,
        MS,
        yes="the device is the slower of the two: mostly device-bound",
        no="both need about as long: undecided",
    )
    return "device" if slower else "undecided"


def _taking_turns(load: StepTimes, why: Decisions) -> float:
    """Time per step loses because a blocking read keeps host and device from overlapping (ms).

    Without the read they could run side by side, and the step would take as long as the slower of the two.
    """
    if not load.seen:
        return 0.0
    no_turns = "reads do not make host and device take turns"
    often = _reads_often(load, why, no_turns)
    if not often or not why.at_least(
        f"device busy, beside {BALANCE_FOR_SYNC:g} times the host's work",
        load.busy,
        BALANCE_FOR_SYNC * load.host_work,
        MS,
        yes="without the read the two could run side by side",
        no=f"{no_turns}: the host alone would take about as long",
    ):
        return 0.0
    turns = max(load.wall - max(load.busy, load.host_work), 0.0)
    # Without the read the thread goes on earlier by what the read blocks, and by no more: the rest are other waits.
    return turns if load.blocked is None else min(turns, load.blocked)
