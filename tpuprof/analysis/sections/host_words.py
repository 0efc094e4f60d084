"""What the verdict adds on the host: the line that holds it, or what tells tracing from other Python."""

from __future__ import annotations

from tpuprof.model.host.handing_over import HandingOver
from tpuprof.model.host.stacks import JAX_COMPILER, makes_program
from tpuprof.model.host.vocabulary import PYTORCH
from tpuprof.model.run import Run
from tpuprof.model.run_facts import was_sampled
from tpuprof.model.step_times import StepTimes
from tpuprof.model.verdict_words import NAMED_FROM_SHARE
from tpuprof.parts import (
    CALLS_OPS,
    COMPILE,
    DISPATCH,
    HANDS_OVER,
    HOST_IO,
    HOST_OTHER,
    HOST_PREFIX,
    HOST_TO_DEVICE,
    INPUT_WAIT,
    NOT_NAMED,
    NOT_TOLD,
    TRACING,
    UNKNOWN,
    USER_PREFIX,
)
from tpuprof.report.host_lines import (
    LINE_FROM_SHARE,
    SEEN_FROM_SHARE,
    Where,
    beside,
    hidden_at,
    holder_of,
    is_at,
    line_calling,
    lines_of,
    verb_at,
    where_of,
)
from tpuprof.report.labels import places_text
from tpuprof.report.library_lines import inside
from tpuprof.report.sections import HostStackRow
from tpuprof.report.tracing_lines import forward_at, library_at, mostly_at
from tpuprof.units import format_ms, format_share

# Words of the verdict that eager mode explains.
_OF_EAGER_MODE = ("tracing", "dispatch", "undecided", "unknown")
# What the host does for input at the line that is named.
_AT_INPUT = {
    INPUT_WAIT: "The host makes the next batch, or waits for it, at",
    HOST_TO_DEVICE: "The host copies to the device at",
}
# Share of the time at the first line from which another is named beside it (share): two captures of a program differ
# by a fifth and more in what a line takes, so either of two such lines may come first. Half leaves room for that.
BESIDE_FROM_SHARE = 0.5
# Characters shown of an event's name: names of C++ templates can be as long as a page (characters).
LONGEST_NAME = 80
# Tracing time of a step over the ops of its program (ms), least and most: the samples decoder_loop (0.0065) and
# device_to_host_sync (0.007), and a chain of element-wise ops on a busy machine (0.06), PJRT_DEVICE=CPU, torch_xla 2.9.
# The range allows for hosts twice as fast, and half again as slow. A scan that traces its body again takes far longer.
TRACE_OP_MS = (0.003, 0.09)


# What tells tracing from other Python, where the capture sampled nothing, and where its samples do not tell.
TO_SAMPLE = " `tpuprof capture` samples the stack and tells."
TOO_COARSE = " The capture has too few samples to tell: capture more steps (`--steps`)."


def host_sentence(word: str, name: str, load: StepTimes, stacks: list[HostStackRow], run: Run) -> str:
    """One more sentence of a verdict, empty where there is nothing to add; `name` is of the annotation it names."""
    if word == "host":
        return _where(load, stacks)
    if name:
        return _in_annotation(USER_PREFIX + name, load, stacks)
    if word == "input":
        return _input(load, stacks, run)
    eager = _eager(run) if word in _OF_EAGER_MODE else ""
    more = {
        "undecided": lambda: _estimate(load, run),
        "tracing": lambda: _traced(load, stacks),
        "compile": lambda: _made_anew(stacks),
        "dispatch": lambda: _handing_over(load, stacks, run) if load.seen else "",
    }
    return eager or more.get(word, str)()


def host_beside(load: StepTimes, stacks: list[HostStackRow]) -> str:
    """Where most of the host's other work is, to end a sentence on another cause; empty where no line holds it."""
    sampled = _sampled(load)
    where = where_of(stacks, _largest(sampled)) if sampled else None
    if where is None or where.ms < LINE_FROM_SHARE * sum(sampled.values()):
        return ""
    return f", most of it at {where.text}"


def in_words_of(run: Run, text: str) -> str:
    """A sentence in the words of the framework: PyTorch on GPUs hands no programs over, it launches kernels."""
    found = _most_handing_over(run)
    by_op = all(host.framework == PYTORCH for host in run.hosts)
    what = CALLS_OPS if by_op else HANDS_OVER
    if found is not None and found.waits:
        what += ", or waits for them to begin"
    if all(host.framework == "jax" for host in run.hosts):
        text = text.replace("prepares the next graph", "prepares the next call")
    return text.replace(HANDS_OVER, what)


def _input(load: StepTimes, stacks: list[HostStackRow], run: Run) -> str:
    """The line, or the function, at which the host makes or awaits batches, or copies them; empty where unknown.

    Copies that the runtime makes of a call's arguments have that call's name.
    """
    largest = max((INPUT_WAIT, HOST_TO_DEVICE, HOST_IO), key=lambda name: load.parts.get(name, 0.0))
    given = next((host.copied_for for host in run.hosts if host.copied_for), "")
    if largest == HOST_TO_DEVICE and given:
        called = line_calling(stacks, given)
        at = f" at {called}" if called else ""
        return f" Most of it is copies of NumPy's arrays that {given} is given{at}."
    where = where_of(stacks, largest)
    # Where samples cover a small part of it, what they saw may be what came after.
    if largest not in _AT_INPUT or where is None or where.ms < SEEN_FROM_SHARE * load.parts[largest]:
        copied = next((host.copied_at for host in run.hosts if host.copied_at), "")
        return f" Most of it is copied at {copied}." if copied and largest == HOST_TO_DEVICE else ""
    return f" {_AT_INPUT[largest]} {where.text}, {format_ms(where.ms)} of {format_ms(load.wall)}."


def _eager(run: Run) -> str:
    """That eager mode is on, empty where it is not."""
    rows = [host.eager_ops for host in run.hosts if host.eager_ops is not None]
    if not rows:
        return ""
    most = max(rows, key=lambda each: each.per_step)
    where = "" if most.own_share is None else " outside of the compiled function"
    return (
        f" Eager mode is on: each op{where} is a program of its own, {most.per_step:,.0f} programs per step."
    )


def _handing_over(load: StepTimes, stacks: list[HostStackRow], run: Run) -> str:
    """How much of `dispatch` is a wait for work that has not begun, and the line or the event that takes a good part.

    A line of the program says more than an event of the runtime.
    """
    found = _most_handing_over(run)
    if found is None:
        return ""
    places = [] if found.waits else _seen_mostly_at(load, stacks, DISPATCH)
    if places:
        return _most_is_at(places)
    said = []
    if found.waits:
        share = format_share(found.waiting_ps / found.total_ps)
        said.append(
            f"{share} is a wait for work that it handed over, while the trace shows none on the device"
        )
    if found.longest:
        name = found.longest.removeprefix("$")[:LONGEST_NAME]
        said.append(f"{format_share(found.longest_ps / found.total_ps)} is inside {name!r} on one thread")
    return f" Of that, {', and '.join(said)}." if said else ""


def with_event(text: str, load: StepTimes, run: Run) -> str:
    """A sentence with the event that most of the idle time without a known cause is inside, where that is much."""
    found = [host.unnamed for host in run.hosts if host.unnamed is not None]
    unexplained = load.parts.get(UNKNOWN, 0.0) + load.parts.get(HOST_OTHER, 0.0)
    if not load.seen or not found or unexplained < NAMED_FROM_SHARE * load.wall:
        return text
    most = max(found, key=lambda each: each.total_ps)
    name = most.event.removeprefix("$")[:LONGEST_NAME]
    share = format_share(most.event_ps / most.total_ps)
    where = f"is inside {name!r} on the training thread, an event that tpuprof does not know."
    text = text.replace(f" {NOT_NAMED}.", f", {share} of which {where}")
    return text.replace(NOT_TOLD, f"{NOT_TOLD} {share} of that time {where}")


def _most_handing_over(run: Run) -> HandingOver | None:
    found = (host.handing_over for host in run.hosts if host.handing_over is not None)
    return max(found, key=lambda each: each.total_ps, default=None)


def _sampled(load: StepTimes) -> dict[str, float]:
    """Parts of the host's other work that samples tell (ms)."""
    return {name: ms for name, ms in load.parts.items() if name.startswith(HOST_PREFIX)}


def _largest(sampled: dict[str, float]) -> str:
    return max(sampled, key=lambda name: sampled[name])


def _where(load: StepTimes, stacks: list[HostStackRow]) -> str:
    sampled = _sampled(load)
    part = _largest(sampled)
    where = where_of(stacks, part)
    text = f" The host {verb_at(part, where, stacks)}"
    if where is not None:
        text += (
            f" at {where.text}{inside(stacks, part, where)}, {format_ms(where.ms)} of {format_ms(load.wall)}"
        )
        text += f"{_more_of(part, where, load, stacks)}."
    else:
        text += f", {format_ms(sampled[part])} of {format_ms(load.wall)}."
    holder = holder_of(stacks, part)
    return f"{text} That thread is at {holder}." if holder else text


def _more_of(part: str, first: Where, load: StepTimes, stacks: list[HostStackRow]) -> str:
    """What the host does at the first line while the device works, and at another line for nearly as long."""
    enough = max(BESIDE_FROM_SHARE * first.ms, NAMED_FROM_SHARE * load.wall)
    hidden = hidden_at(stacks, part, first)
    text = f", and {format_ms(hidden)} more while the device works" if hidden >= enough else ""
    return text + _elsewhere(part, first, enough, load, stacks)


def _elsewhere(part: str, first: Where, enough: float, load: StepTimes, stacks: list[HostStackRow]) -> str:
    """What else the host does for so long at another line (ms per step); empty where that takes less.

    Which of two lines the device works behind may change from one capture to the next.
    """
    exposed = [
        (where.ms, verb_at(name, where, stacks), where.text)
        for name in load.parts
        if name.startswith(HOST_PREFIX) and (where := beside(stacks, name, first)) is not None
    ]
    said = verb_at(part, first, stacks)
    named = {row.source for row in stacks if is_at(row, first)}
    behind = [
        (hidden, verb_at(name, Where(source, call, hidden), stacks), Where(source, call, hidden).text)
        for name in sorted({row.part for row in stacks if row.part.startswith(HOST_PREFIX)})
        for source, call, _, hidden in lines_of(stacks, name)
        if source and source not in named
    ]
    for found, when in ((exposed, ""), (behind, " while the device works")):
        ms, verb, line = max(found, default=(0.0, "", ""))
        if ms >= enough:
            does = "does so" if verb == said else verb
            return f"; it also {does} at {line}, {format_ms(ms)}{when}"
    return ""


def _traced(load: StepTimes, stacks: list[HostStackRow]) -> str:
    """The lines, or the function, that hold most of the tracing that the device waits for; empty where none does."""
    places = _seen_mostly_at(load, stacks, TRACING)
    if not places:
        return ""
    text = _most_is_at(places)
    library = library_at(stacks)
    if library is not None:
        return f"{text} There, most of the forward pass's tracing is at {library.text}."
    forward = forward_at(stacks)
    if forward is None or forward in places:
        return text
    return f"{text} The backward pass traces what the forward pass built: most of that at {forward.text}."


def _seen_mostly_at(load: StepTimes, stacks: list[HostStackRow], part: str) -> list[Where]:
    """The lines, or the function, that hold most of what the device waits for in a part; empty where none does."""
    # Where code keeps Python's lock samples come in that code alone, and what was traced has no line.
    seen = sum(row.exposed_ms_per_step for row in stacks if row.part == part)
    return mostly_at(stacks, part) if seen >= LINE_FROM_SHARE * load.parts.get(part, 0.0) else []


def _most_is_at(places: list[Where]) -> str:
    """Samples are too coarse for a time beside that of the events."""
    return f" Most of it is at {places_text([each.text for each in places])}."


def _made_anew(stacks: list[HostStackRow]) -> str:
    """The line at which torch.compile or JAX makes programs, where it is seen to; empty elsewhere."""
    rows = [row for row in stacks if any(map(makes_program, row.frames))]
    where = where_of(rows, COMPILE)
    jax = any(JAX_COMPILER in frame for row in rows for frame in row.frames)
    who = "The call that compiles is" if jax else "torch.compile traces for it"
    return f" {who} at {where.text}." if where is not None else ""


def _in_annotation(part: str, load: StepTimes, stacks: list[HostStackRow]) -> str:
    """The line at which the host is in an annotation, or collects garbage; empty where samples tell none."""
    where = where_of(stacks, part)
    if where is None:
        return ""
    return f" It is at {where.text}, {format_ms(where.ms)} of {format_ms(load.wall)}."


def _estimate(load: StepTimes, run: Run) -> str:
    """What tracing as many ops as the step's programs have usually takes: evidence for or against tracing."""
    ops = max((host.program_ops or 0 for host in run.hosts), default=0)
    advice = TOO_COARSE if was_sampled(run.info) else TO_SAMPLE
    if not ops:
        return advice
    low, high = (ops * each for each in TRACE_OP_MS)
    spent = load.parts.get(HOST_OTHER, 0.0)
    text = f" Tracing {ops:,.0f} ops, as a step's programs have, usually takes {format_ms(low)} to {format_ms(high)}: "
    if spent > high:
        return f"{text}not all of it is tracing.{advice}"
    return f"{text}tracing alone can explain it.{advice}"
