"""The verdict in words: one sentence with its figures."""

from __future__ import annotations

from tpuprof import parts
from tpuprof.model.decisions import Decisions
from tpuprof.model.device.cpu import Queue
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.model.verdict import SLOWER_FROM, is_device_bound, near
from tpuprof.model.verdict_reads import TURNS_EXPLAIN
from tpuprof.model.verdict_words import NAMED_FROM_SHARE, groups_of
from tpuprof.units import format_ms, format_share

# Idle time beside the part a sentence speaks of, from which it says how much there is in all (share).
IDLE_BESIDE_FROM_SHARE = 0.05
# What the sentence's shares are of: the steps, or the one window of a capture in which no step was found.
STEP = "each step"
ONE_STEP = "the one step captured"
CAPTURE = "the whole capture, in which no step was found"
# The same where few steps are far longer than the others: a share is then of no single step.
MEAN = "the steps' time"
# What is said where the trace has no device plane, and so shows only the host.
UNSEEN = " The trace has no device plane, so whether the device works meanwhile is unknown."
UNSEEN_READS = (
    " The trace has no device plane, so how much of that is the device's own work is unknown: the read costs time only "
    "where the device then waits for the host."
)
# What is said of time in which programs run on the device, and none of the ops that compute or move data.
NO_OP = "and the trace shows no op that computes or moves data"
# What is added where that is nearly all of the device's time, and from which share of it on: the trace has no ops then.
NO_OP_AT_ALL = " Whether it computes there or waits is unknown."
NO_OPS_FROM_SHARE = 0.9
IN_NO_OP = f" For {{time}} it is inside a program, {NO_OP}."
# The sentence where reads find work unfinished for nearly all of the step.
UNFINISHED = (
    "Probably device-bound: work that was handed over before takes {of_step}, as reads that wait for it show, and "
    "takes as long without them. The trace has no device plane, so what of it is the device's own is unknown."
)
# The sentence where that is more of the thread that hands programs over than of the device.
HANDED_OVER_ELSEWHERE = (
    f"Dispatch-bound: {parts.ELSEWHERE} for {{of_step}}. Reads wait for that, and it takes as long "
    "without them."
)
# How much longer another cause takes than the one named to be larger (ratio): up to a quarter more is about as much.
LARGER_FROM = 1.25
# The sentence where reads wait for either of the two.
EITHER_BEFORE = (
    f"{parts.EITHER_BEFORE}, which takes {{of_step}}, as long without them. The device, or the thread that hands "
    "programs to it, holds training up; the trace has no device plane that tells which."
)
# The sentence where the host is ahead by steps, and either of the two may be behind.
BEHIND_THE_HOST = (
    "Undecided: the training thread hands over several steps, and then waits {wait} at once for their work, which "
    "takes at least {of_step}. The device, or the thread that hands programs to it, holds training up; the trace has "
    "no device plane that tells which."
)
# The sentence where the thread that hands programs to the device works all the time, so that training is ahead of it.
NEVER_RESTS = (
    "Undecided: the thread that hands programs to the device works for {share} of the middle step, so the training "
    "thread is ahead of it. The device, or handing programs over, may be what holds training up; the trace has no "
    "device plane that tells. Meanwhile {meanwhile}"
)
# The sentence where the host waits in reads, and the device may work all along, or wait for the host in turn. What
# decides it is a run without the reads.
EITHER_HOLDS_IT = (
    "Undecided: {does}. The device may work all along and hold training up; or it idles while the host works, and "
    "{else_} up. The trace has no device plane that tells which. If steps take as long without these reads, it is the "
    "device, or what hands programs to it."
)
# What is said of turns where other work had the CPUs for so long that it may be why one of the two takes longer.
CPUS_DECIDE = (
    "which of them is slower is unknown: the program's threads waited for a CPU for {share} of the time that they "
    "could have run"
)
# What is said beside a busy device: only of steps that were measured.
KEEPS_UP = "; the host keeps up"
# The sentence where the device does its work again, for values that are read in mid-step.
COMPUTED_AGAIN = (
    "Sync-bound: reads of values in mid-step run graphs of their own, and the step computes the same again, which "
    "costs about {of_step}."
)
# What each of the sentences on lost overlap says.
TAKE_TURNS = "take turns"
# The sentence where host and device would work side by side without the read.
TURNS_BY_READS = (
    "Sync-bound: a device-to-host read in the step makes host and device take turns, which costs up to "
    "{of_step}."
)
# The sentence where reads cost both: turns, and work that the device does again.
TURNS_AND_AGAIN = (
    "Sync-bound: reads of values in mid-step make host and device take turns, and the step computes the same again, "
    "which costs up to {of_step}{at_least}."
)
# The sentence where reads of values cost most by the graphs that they run.
CUT_BY_READS = (
    "Sync-bound: reads of values in mid-step run graphs of their own. The host makes each graph and waits for it, "
    "which costs {of_step}."
)
# The sentence where ops that run on the host cost more than their own time.
FALLBACKS_FORCE_TURNS = (
    "Fallback-bound: ops that XLA does not know run on the host, which makes host and device take turns and costs "
    "up to {of_step}."
)
# The sentence where the device does its work again, for what such ops take in.
COMPUTED_AGAIN_FOR_OPS = (
    "Fallback-bound: ops that XLA does not know run on the host. What they take in comes from graphs of their own, "
    "and the step computes the same again, which costs about {of_step} in all."
)

# Words of time in which the device is in a program: what it does there may not be in the trace.
_OF_DEVICE = ("collective", "offload", "callback")
# Words whose own sentence says what the host does while a device is behind.
_TOLD_MEANWHILE = ("input", "host")
# What reads are called in a sentence, and what it says instead where they are waits that read nothing.
A_WAIT = {
    "a device-to-host read in the step": "a wait for the device in the step",
    "while the host reads a value from it": "while the host waits for it",
    "waits in device-to-host reads": "waits for the device to finish",
    "without these reads": "without these waits",
    "the reads hold training": "the waits hold training",
    "The longest read is": "The longest wait is",
}


def sentence(
    bound: Bound,
    load: StepTimes,
    tracing_hidden: float,
    over: str = STEP,
    few: str = "",
    detail: str = "",
    beside: str = "",
) -> str:
    """The verdict for people: one sentence with its figures; `over` is what they are shares of.

    `few` says in which few steps nearly all of the cost is, empty where each step has it; of a device that is busy, of
    its idle time. `detail` says more about the
    cause that is named (its line, its op): it stands before all other causes. `beside` says more about the host's other
    work, where that is another cause.
    """
    share, time, wall = format_share(bound.share), format_ms(bound.ms), format_ms(load.wall)
    over = MEAN if few else over
    average = " on average" if over == MEAN else ""
    of_step = f"{share} of {over} ({time} of {wall}{average}{_also(few)})"
    if load.behind is not None and bound.word == "undecided" and not (bound.ahead or bound.waits):
        return _behind_sentence(load.behind, bound, of_step) + detail
    if not load.seen:
        return (_either_sentence(bound, load, of_step) if bound.waits else _unseen(bound, of_step)) + detail
    if bound.name:
        return _held_back(bound, of_step) + detail + _idle_in_all(bound, load)
    if bound.turns:
        return _turns_sentence(bound, load, over) + detail
    if bound.word == "device":
        return _busy_sentence(load, share, wall + average, over, few) + _without_ops(load) + detail
    text = _own_sentence(bound).format(of_step=of_step, at_least=_at_least(bound, load)) + detail
    if bound.word == "tracing" and tracing_hidden >= NAMED_FROM_SHARE * load.wall:
        per = "" if over == CAPTURE else " per step"
        text += f" Another {format_ms(tracing_hidden)} of tracing{per} is hidden behind device work."
    text += _without_ops(load) if bound.word in _OF_DEVICE else ""
    return text + _turns_of_runtime(bound, load) + _as_large(bound, load, beside) + _idle_in_all(bound, load)


def _own_sentence(bound: Bound) -> str:
    if bound.again and bound.by_turns:
        return TURNS_AND_AGAIN
    if bound.again:
        return COMPUTED_AGAIN_FOR_OPS if bound.word == "fallback" else COMPUTED_AGAIN
    if bound.by_cuts:
        return CUT_BY_READS
    if bound.by_turns:
        return FALLBACKS_FORCE_TURNS if bound.word == "fallback" else TURNS_BY_READS
    return parts.word_of(bound.word).sentence


def _at_least(bound: Bound, load: StepTimes) -> str:
    """What the device computes again of the cost of reads, which is sure, where that is clearly less; else empty."""
    return f", {format_ms(load.again)} of it at least" if LARGER_FROM * load.again < bound.ms else ""


def _held_back(bound: Bound, of_step: str) -> str:
    """The sentence of a bound that has a name: an annotation of the user's, or what tpuprof marks by itself."""
    if bound.name in parts.OWN_ANNOTATIONS:
        what, doing = parts.OWN_ANNOTATIONS[bound.name]
        return f"Held back by {what}: the device idles for {of_step} while {doing}."
    return (
        f"Held back by {bound.name!r}: the device idles for {of_step} while the host is in that annotation."
    )


def _as_large(bound: Bound, load: StepTimes, beside: str) -> str:
    """Another cause that takes about as much as the one named, or more; empty where there is none.

    The cost of turns holds the idle time that they explain: that is no other cause.
    """
    same = (bound.word, "device", *(TURNS_EXPLAIN if bound.by_turns else ()))
    others = {
        word: ms
        for word, ms in groups_of(load).items()
        if word not in same and not word.startswith(parts.USER_PREFIX)
    }
    if bound.by_cuts:
        # What the host does in reads is in the cost that is named.
        others["tracing"] = others.get("tracing", 0.0) - load.for_reads
    word = max(others, key=lambda each: others[each], default="")
    stretch = parts.said_of(parts.word_of(word).stretch, sees_device=bool(load.seen)) if word else ""
    if not stretch or others[word] < near(bound.ms, load.wall):
        return ""
    takes = "is about as large" if others[word] <= LARGER_FROM * bound.ms else "takes more time"
    return (
        f" Another cause {takes}: {stretch}, {format_share(others[word] / load.wall)} "
        f"({format_ms(others[word])}){beside if word == 'host' else ''}."
    )


def _behind_sentence(queue: Queue, bound: Bound, of_step: str) -> str:
    """The sentence where the host runs so far ahead that programs of the capture did not begin within it."""
    meanwhile = parts.word_of(bound.meanwhile).unseen.partition(": ")[2].format(of_step=of_step)
    if bound.meanwhile not in _TOLD_MEANWHILE or not meanwhile:
        does = "works on the next graphs" if queue.handed_over else "calls ops"
        meanwhile = f"the host {does} for {of_step}."
        if bound.meanwhile.startswith(parts.USER_PREFIX):
            meanwhile = f"the host is in {parts.noun_of(bound.meanwhile)} for {of_step}."
    if queue.never_rests:
        return NEVER_RESTS.format(share=format_share(queue.feeding), meanwhile=meanwhile)
    ran = f"{queue.ran} of them" if queue.ran else "none of them"
    more = "to see the device" if queue.seen else "to see whether the device falls further behind"
    return (
        f"Undecided: the host handed {queue.handed_over} programs over, and {ran} began while the profiler was on. The "
        f"device is behind the host, so it may be what holds training up, or the profile lost events. Meanwhile "
        f"{meanwhile} Capture more steps (`--steps`) {more}."
    )


def _either_sentence(bound: Bound, load: StepTimes, of_step: str) -> str:
    """The sentence where the device, or the host with its reads, may hold training up."""
    does = parts.word_of(bound.meanwhile).unseen.partition(": ")[2].format(of_step=of_step).removesuffix(".")
    if bound.meanwhile == "sync":
        return EITHER_HOLDS_IT.format(does=does, else_="the reads hold training")
    waits = f"{format_share(bound.waits / load.wall)} ({format_ms(bound.waits)})"
    does += f", and waits in device-to-host reads for {waits}"
    return EITHER_HOLDS_IT.format(does=does, else_="the host's work and the reads hold training")


def _unseen(bound: Bound, of_step: str) -> str:
    """The sentence of a trace that shows only the host: the device may work or idle meanwhile."""
    if bound.name in parts.OWN_ANNOTATIONS:
        what, doing = parts.OWN_ANNOTATIONS[bound.name]
        return f"Held back by {what}: for {of_step} {doing}.{UNSEEN}"
    if bound.name:
        return f"Held back by {bound.name!r}: the host is in that annotation for {of_step}.{UNSEEN}"
    if bound.word == "device":
        return UNFINISHED.format(of_step=of_step)
    if bound.is_either:
        # With a step that waits for several at once, that is said.
        text = BEHIND_THE_HOST if bound.ahead else EITHER_BEFORE
        return text.format(of_step=of_step, wait=format_ms(bound.ahead))
    if bound.elsewhere:
        return HANDED_OVER_ELSEWHERE.format(of_step=of_step) + UNSEEN
    text = parts.word_of(bound.word).unseen or parts.word_of("unknown").unseen
    return text.format(of_step=of_step) + (UNSEEN_READS if bound.word == "sync" else UNSEEN)


def _idle_in_all(bound: Bound, load: StepTimes) -> str:
    """All idle time, where the verdict names no cause for part of it: the part is not all."""
    idle = 1 - load.busy / load.wall
    if (
        not (bound.name or bound.word in ("unknown", "undecided"))
        or idle - bound.share < IDLE_BESIDE_FROM_SHARE
    ):
        return ""
    return f" In all the device idles for {format_share(idle)}."


def _also(few: str) -> str:
    return f", {few}" if few else ""


def _without_ops(load: StepTimes) -> str:
    """How long the device is in a program and does no op's work: busy, and no use; empty where that is little."""
    ms = load.parts.get(parts.OTHER_DEVICE, 0.0)
    if ms < NAMED_FROM_SHARE * load.wall:
        return ""
    text = IN_NO_OP.format(time=f"{format_share(ms / load.wall)} ({format_ms(ms)})")
    return text + NO_OP_AT_ALL if ms >= NO_OPS_FROM_SHARE * load.busy else text


def _busy_sentence(load: StepTimes, share: str, wall: str, over: str, few: str) -> str:
    busy = format_ms(load.busy)
    if is_device_bound(load, Decisions()):
        # One step does not tell: what the host does between steps is not in it.
        keeps_up = KEEPS_UP if over == STEP else ""
        return f"Device-bound: the device is busy for {share} of {over} ({busy} of {wall}){keeps_up}."
    head = f"Mostly device-bound: the device is busy for {share} of {over} ({busy} of {wall})"
    unnamed = load.parts.get(parts.UNKNOWN, 0.0)
    if unnamed >= NAMED_FROM_SHARE * load.wall:
        idle = f"{format_share(unnamed / load.wall)} ({format_ms(unnamed)}{_also(few)})"
        return f"{head}. It idles for {idle} {parts.NOT_NAMED}."
    idle = f" ({few})" if few else ""
    return f"{head}, and no single cause of its idling{idle} reaches {format_share(NAMED_FROM_SHARE)}."


def _turns_sentence(bound: Bound, load: StepTimes, over: str) -> str:
    """Where host and device wait for each other in the runtime: which of the two is slower, or that both may be."""
    busy, wall, turns = format_share(load.busy / load.wall), format_ms(load.wall), format_ms(bound.turns)
    works = format_ms(load.busy)
    waits = f"The host waits {format_ms(load.waited)} for the device inside the runtime"
    if bound.word == "device":
        return (
            f"Mostly device-bound: the device is busy for {busy} of {over} ({works} of {wall}). {waits}, and prepares "
            f"the next graph afterwards, while the device idles ({turns})."
        )
    about = load.works / SLOWER_FROM <= load.busy < SLOWER_FROM * load.works
    which = "need about as long" if about else CPUS_DECIDE.format(share=format_share(load.cpu_wait))
    return (
        f"Undecided: host and device wait for each other, and {which}. The device is busy for "
        f"{works} of {over} ({wall}); the host works for {format_ms(load.works)}, most of it "
        f"tracing, and the device idles meanwhile for {turns}. {waits}."
    )


def _turns_of_runtime(bound: Bound, load: StepTimes) -> str:
    """What else makes host and device take turns beside a read, where without it much of the tracing stays exposed."""
    idle = load.parts.get(parts.TRACING, 0.0)
    named = NAMED_FROM_SHARE * load.wall
    longer = load.waited >= max(bound.ms, named) and idle >= bound.ms + named
    if bound.word != "sync" or not bound.by_turns or not longer:
        return ""
    return (
        f" The host waits longer for the device inside the runtime, {format_ms(load.waited)}, and the device idles "
        f"{format_ms(idle)} while the host traces."
    )
