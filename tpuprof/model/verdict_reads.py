"""What reads of values, and ops that fall back to the host, hold back: the turns and the graphs that they force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tpuprof.model.decisions import MS, SHARE, STEPS, Decisions
from tpuprof.model.read_graphs import reads_cost_at_most
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.model.verdict_words import (
    DEVICE_BOUND_FROM_SHARE,
    MOSTLY_BUSY_FROM_SHARE,
    NAMED_FROM_SHARE,
    READS_IN_STEPS_SHARE,
    groups_of,
    named,
)
from tpuprof.parts import COMPILE

# Device time over host work (ratio) from which a read that lets them take turns is the thing to fix: below
# it the host is the slower of the two by far, and would hold the step back without the read as well.
BALANCE_FOR_SYNC = 0.8
# Cost of reads that run graphs, over the rest of the host's work of that kind, from which the reads are named (ratio):
# that rest is also slower beside reads. Without 20 reads per step captured steps saved 1.45 times what the reads took,
# so what costs half of the rest saves as much as is left.
OF_TRACING_FOR_READS = 0.5
# How many times what the host does per step one wait must take for the device to be the slower of the two (ratio): one
# that is as fast has at most one step left. Twice that, as steps vary.
AHEAD_FROM = 2.0
# Then how many times the device's work must take of what handing it over takes, or the other way round, for it to be
# what holds the step back (ratio): both are known in part only. A judgement.
DECIDES_FROM = 2.0
# What a read of a value takes that is ready (ms): 0.2 on TorchTPU's CPU plugin. What reads take beyond that is a wait.
READY_READ_MS = 0.2
# Words of the host's time that may run beside a device which the trace does not show.
_MAY_RUN_BESIDE = ("sync", "dispatch", "tracing")
# Words of host work that a read adds where it runs a graph of its own.
_MAKES_GRAPHS = ("tracing", "dispatch")
# Words of time that is lost in turns, where a read or an op on the host makes host and device take turns.
TURNS_EXPLAIN = ("tracing", "sync", "dispatch", "unknown", "host", "undecided")


def reads_hold_it(load: StepTimes, word: str, ms: float, why: Decisions) -> Bound | None:
    """The bound where reads hold the step back: by the turns that they force, or by work done again for them.

    Or the bound that their waits show, of a device that the trace does not.
    """
    if not load.seen and (unseen := _of_unseen_device(load, word, why)) is not None:
        return unseen
    turns = _taking_turns(load, why) if word in TURNS_EXPLAIN else 0.0
    if turns and why.at_least(
        "time lost because a blocking read keeps host and device from overlapping",
        turns / load.wall,
        NAMED_FROM_SHARE,
        SHARE,
        yes="the read counts as what holds the step back: sync-bound",
        no="the read is not what holds the step back; the largest part is looked at",
    ):
        if load.again and _again_costs_more(load, turns, why):
            return Bound("sync", load.again / load.wall, load.again, again=True)
        # Without the read the step is shorter by both: what idles in turns, and what the device does again. A part of
        # that is one time, as the read waits for the run of its own graph.
        twice = load.again >= NAMED_FROM_SHARE * load.wall
        cost = _no_more_than_gained(load, turns + load.again) if twice else turns
        return Bound("sync", cost / load.wall, cost, again=twice, by_turns=True)
    if load.again and _computes_again(load, word, ms, why):
        return Bound("sync", load.again / load.wall, load.again, again=True)
    if word == "sync":
        return _made_for_reads(load, why)
    return _cuts_of_reads(load, word, ms, why) if word in _MAKES_GRAPHS else None


def _of_unseen_device(load: StepTimes, word: str, why: Decisions) -> Bound | None:
    """The bound where reads wait for work handed over before, of a device that the trace does not show."""
    if word == "sync" and _works_on(load, why):
        return _of_unfinished(load) if _is_told(load, why) else _of_either(load)
    if _ran_ahead(load, why):
        return _of_what_is_behind(load, why)
    return _either(load, word, why) if word in _MAY_RUN_BESIDE else None


def _either(load: StepTimes, word: str, why: Decisions) -> Bound | None:
    """Undecided where the host waits in reads and the device may work all the while; None where evidence tells.

    The step would be as long without the reads if the device works all along, and if it idles while the host works,
    shorter by what the reads wait for.
    """
    groups = groups_of(load)
    waits = groups.get("sync", 0.0)
    if load.reads is None or (word != "sync" and load.behind is not None):
        return None
    often = _reads_often(
        load, why, "a slower device would be waited for in few steps, and for several at once"
    )
    # What the few reads wait for may have been handed over before the recording began: nothing tells that it was not.
    if not often and word != "sync":
        return None
    if not why.at_least(
        "time in reads beyond what those of ready values take",
        max(waits - load.reads * READY_READ_MS, 0.0) / load.wall,
        NAMED_FROM_SHARE,
        SHARE,
        yes="the host waits for the device: whether that works all along is looked for",
        no="the values are ready when they are read: the host is not behind the device",
    ):
        return None
    if load.at_most is not None and _is_host_slower(load, load.at_most, word, why):
        return None
    ms = groups[word]
    return Bound("undecided", ms / load.wall, ms, meanwhile=word, waits=waits)


def _is_host_slower(load: StepTimes, at_most: float, word: str, why: Decisions) -> bool:
    """Whether the device works for so short that the host, or the reads in which it waits, hold the step back."""
    if word == "sync":
        return why.at_least(
            "what a step is shorter without reads at least, as the device works for no longer than its threads did",
            max(load.wall - max(load.host_work, at_most), 0.0) / load.wall,
            NAMED_FROM_SHARE,
            SHARE,
            yes="the reads cost that",
            no="the device may work all along: undecided",
        )
    return why.at_least(
        "the host's work, compared with the longest that the device may have worked",
        load.host_work,
        at_most,
        MS,
        yes="the host is the slower of the two: its part is named",
        no="the device may work all along: undecided",
    )


def _works_on(load: StepTimes, why: Decisions) -> bool:
    """Whether reads wait for work that takes nearly all of the step, of a device that the trace does not show.

    Where few steps read, what they wait for was handed over in all of them: the same share as of a device that is seen.
    """
    worked = _work_before(load)
    if not worked:
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


def _ran_ahead(load: StepTimes, why: Decisions) -> bool:
    """Whether the host gets ahead of a device that the trace does not show, and then waits for several steps at once.

    A device that is as fast as the host has no more than one step left to do whenever the host waits for it.
    """
    if not load.at_once or load.reads_share >= READS_IN_STEPS_SHARE:
        return False
    return why.at_least(
        f"the longest wait for work handed over before, compared with {AHEAD_FROM:g} times what the host does per step",
        load.at_once,
        AHEAD_FROM * max(load.wall - load.unfinished, 0.0),
        MS,
        yes="the host was ahead by steps: the device, or what hands programs to it, is slower than the host",
        no="the host may be as slow as the device",
    )


def _of_unfinished(load: StepTimes) -> Bound:
    """The bound where reads wait for work that takes nearly all of the step: the device, or handing programs over."""
    word = "device" if load.unfinished >= load.feeding else "dispatch"
    ms = _work_before(load) if word == "device" else load.feeding
    return Bound(word, ms / load.wall, ms, elsewhere=word == "dispatch")


def _is_told(load: StepTimes, why: Decisions) -> bool:
    """Whether the device, or the thread that feeds it, is clearly what reads wait for.

    What the device does is known at least, as only waits show it, and handing over is known as a whole.
    """
    return load.unfinished >= load.feeding or why.at_least(
        f"handing programs over, compared with {DECIDES_FROM:g} times what the device works at least",
        load.feeding,
        DECIDES_FROM * load.unfinished,
        MS,
        yes="handing programs over holds the step back",
        no="either may hold the step back: undecided",
    )


def _of_either(load: StepTimes, ahead: float = 0.0) -> Bound:
    """The bound where reads wait for the device, or for the thread that hands programs to it.

    `ahead` is the longest wait for work of several steps, where that shows it.
    """
    ms = _work_before(load)
    return Bound("undecided", ms / load.wall, ms, elsewhere=True, ahead=ahead)


def _of_what_is_behind(load: StepTimes, why: Decisions) -> Bound:
    """The bound where the host is ahead by steps: the device, the thread that feeds it, or either of them."""
    larger, smaller = max(load.unfinished, load.feeding), min(load.unfinished, load.feeding)
    if why.at_least(
        f"the larger of the device's work and of handing it over, compared with {DECIDES_FROM:g} times the other",
        larger,
        DECIDES_FROM * smaller,
        MS,
        yes="the larger holds the step back",
        no="either may hold the step back: undecided",
    ):
        return replace(_of_unfinished(load), ahead=load.at_once)
    return _of_either(load, load.at_once)


def _work_before(load: StepTimes) -> float:
    """What takes as long without reads: the device's work, and handing programs to it, neither of which is in both."""
    return min(load.unfinished + load.feeding, load.wall)


def _made_for_reads(load: StepTimes, why: Decisions) -> Bound | None:
    """The bound where reads cost most, and the host also makes graphs for them for so long that it is worth naming."""
    if load.reads_share < READS_IN_STEPS_SHARE or not why.at_least(
        "device idle while the host makes graphs that reads run by themselves",
        load.for_reads / load.wall,
        NAMED_FROM_SHARE,
        SHARE,
        yes="it is a part of what the reads cost",
        no="the wait for the values is what the reads cost",
    ):
        return None
    cost = _no_more_than_gained(load, load.for_reads + groups_of(load).get("sync", 0.0) + load.again)
    return Bound("sync", cost / load.wall, cost, by_cuts=True)


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
        f"graphs that reads run by themselves, compared with {OF_TRACING_FOR_READS:g} times the rest of {named(word)}",
        cost,
        max(OF_TRACING_FOR_READS * others, NAMED_FROM_SHARE * load.wall),
        MS,
        yes="the reads are what costs most, or as much: sync-bound",
        no=f"without them {named(word)} costs more, and is named",
    ):
        return None
    cost = _no_more_than_gained(load, cost)
    return Bound("sync", cost / load.wall, cost, by_cuts=True)


def _no_more_than_gained(load: StepTimes, cost: float) -> float:
    """The cost, and no more than a step is shorter without the reads: the limit that their price has as well."""
    if load.blocked is None:
        return cost
    idle = load.wall - load.parts.get(COMPILE, 0.0) - load.busy
    return min(cost, reads_cost_at_most(idle, load.again, load.blocked, on_cpu=load.on_cpu))


def fallbacks_hold_it(
    load: StepTimes, groups: Mapping[str, float], word: str, why: Decisions
) -> Bound | None:
    """The bound where ops that run on the host in most steps cost most, with the turns that they force.

    Such an op waits for its inputs, so that the device has nothing to do when it ends. Without it the thread goes on
    earlier by the op's own time and by its waits for the device, at most, until the step takes as long as the host's
    other work. A device that works for longer than that is waited for without the op as well.
    """
    own = groups.get("fallback", 0.0)
    often = load.fallbacks_share >= READS_IN_STEPS_SHARE
    if own and often and load.again_for_ops and _computes_again_for_ops(load, own, word, groups, why):
        cost = own + load.again_for_ops
        return Bound("fallback", cost / load.wall, cost, again=True)
    # Where reads stay, host and device take turns at them.
    alone = load.seen and load.reads_share < READS_IN_STEPS_SHARE
    if not own or not often or not alone or word not in (*TURNS_EXPLAIN, "fallback"):
        return None
    rest = load.works - own
    turns = min(load.wall - rest, own + load.waited)
    if (
        rest >= load.busy
        and turns > own
        and why.at_least(
            f"ops that run on the host, with the turns that they force, compared with {named(word)}",
            turns,
            max(groups[word], NAMED_FROM_SHARE * load.wall),
            MS,
            yes="the ops hold the step back: fallback-bound",
            no="the ops are not what holds the step back; the largest part is looked at",
        )
    ):
        return Bound("fallback", turns / load.wall, turns, by_turns=True)
    return None


def _computes_again_for_ops(
    load: StepTimes, own: float, word: str, groups: Mapping[str, float], why: Decisions
) -> bool:
    """Whether ops that run on the host cost most, with the work that the device does twice for their inputs."""
    return why.at_least(
        f"ops that run on the host, with work that the device does again for them, compared with {named(word)}",
        own + load.again_for_ops,
        max(groups.get(word, 0.0) if word != "fallback" else 0.0, NAMED_FROM_SHARE * load.wall),
        MS,
        yes="the ops hold the step back: fallback-bound",
        no="the largest idle time is looked at",
    )


def _again_costs_more(load: StepTimes, turns: float, why: Decisions) -> bool:
    """Whether reads cost more by work that the device does twice for them than by the turns that they force."""
    return why.at_least(
        "work that the device does again because of reads in mid-step, compared with the turns that they force",
        load.again,
        turns,
        MS,
        yes="the reads cost most by that work: sync-bound",
        no="the turns that they force cost as much, and are named",
    )


def _computes_again(load: StepTimes, word: str, ms: float, why: Decisions) -> bool:
    """Whether the device does enough of its work twice, for values that are read in mid-step, to be what costs most."""
    return why.at_least(
        f"work that the device does again because of reads in mid-step, compared with {named(word)}",
        load.again,
        max(ms, NAMED_FROM_SHARE * load.wall),
        MS,
        yes="the reads cost more than any idle time: sync-bound",
        no="the largest idle time is looked at",
    )


def reads_now_and_then(load: StepTimes, why: Decisions) -> bool:
    """Whether a busy device is waited for in few steps: what it idles then is no turn that host and device take."""
    if not load.seen or not why.at_least(
        f"device busy, compared with {MOSTLY_BUSY_FROM_SHARE:g} of the step",
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


def _taking_turns(load: StepTimes, why: Decisions) -> float:
    """Time per step lost because a blocking read keeps host and device from overlapping (ms).

    Without the read they could run side by side, and the step would take as long as the slower of the two. A read of a
    value that is ready waits for nothing: it is the host's work.
    """
    if not load.seen:
        return 0.0
    often = _reads_often(load, why, "too few steps hold a read for turns to hold the run back")
    if not often or not why.at_least(
        f"device busy, compared with {BALANCE_FOR_SYNC:g} times the host's work",
        load.busy,
        BALANCE_FOR_SYNC * load.works,
        MS,
        yes="without the read the two could run side by side",
        no="the host works clearly longer than the device: turns are not what costs most",
    ):
        return 0.0
    turns = max(load.wall - max(load.busy, load.works), 0.0)
    if load.turns is not None:
        turns = min(turns, load.turns)
    # Without the read the thread goes on earlier by what the read blocks, and by no more: the rest are other waits.
    return turns if load.blocked is None else min(turns, max(load.blocked - load.ready, 0.0))
