"""The verdict: the word and the share that bound the step, and the sentence that says it to people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tpuprof import parts as part
from tpuprof.analysis.sections.compiles_elsewhere import compiles_elsewhere, said_of_looks
from tpuprof.analysis.sections.doubtful_cost import PRICED_BY, perhaps
from tpuprof.analysis.sections.host_behind import said_of_work_behind
from tpuprof.analysis.sections.host_words import host_beside, host_sentence, in_words_of, with_event
from tpuprof.analysis.sections.keeps_up import in_captured_steps
from tpuprof.analysis.sections.main_op import callback_op, main_op
from tpuprof.analysis.sections.shared_cpus import said_of_shared_cpus
from tpuprof.analysis.sections.sparse_words import with_sparse
from tpuprof.analysis.sections.usual_step import UsualStep, spent_of
from tpuprof.analysis.sections.without_compiles import without_compiles
from tpuprof.model import busy_machine, python_tools
from tpuprof.model.busy_machine import DOUBTFUL_FROM_SHARE, cpu_wait
from tpuprof.model.compile.later_part import said_of_later_steps
from tpuprof.model.compile.recurrence import Returns
from tpuprof.model.compile_verdict import compile_sentence, compiles_in
from tpuprof.model.decisions import Decisions
from tpuprof.model.device.activity import are_several
from tpuprof.model.device.recorded_devices import BY_TURNS
from tpuprof.model.host.unended_read import WAIT, unended_read
from tpuprof.model.host_run import HostRun
from tpuprof.model.hosts import BARRIER
from tpuprof.model.in_few_steps import said_of_few, said_of_mean
from tpuprof.model.outside_capture import between_steps, outside_of, said_with_the_verdict, with_between
from tpuprof.model.read_graphs import again_by_step
from tpuprof.model.run import Run
from tpuprof.model.run_ahead import works_on
from tpuprof.model.run_facts import frameworks_stated
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.model.steps.few import is_whole_capture
from tpuprof.model.telemetry import compile_seconds_before
from tpuprof.model.verdict import bound_of, is_device_bound
from tpuprof.model.verdict_sentence import A_WAIT, CAPTURE, KEEPS_UP, MEAN, ONE_STEP, STEP, UNSEEN, sentence
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE
from tpuprof.records import record
from tpuprof.report.labels import fallback_text
from tpuprof.report.late_chip import by_host, last_to_collectives, late_by_turns
from tpuprof.report.late_host import waited_by_turns
from tpuprof.report.schema import CompileRow, LoopRow, OpRow, TransferRow, Verdict
from tpuprof.report.sections import ChipWaitRow, CompileHistory, FallbackRow, Hosts, HostStackRow
from tpuprof.rules.thresholds import SLOW_COMPILE_FROM_SECONDS
from tpuprof.signals.host import off_device_steps, steps_without_a_graph
from tpuprof.signals.transfers import late_share
from tpuprof.units import counted, format_share, listed, ps_to_ms

# Ops that run on the host which a verdict names (ops): a sentence stays one that can be read.
FALLBACKS_NAMED = 2
# The sentence where the steps gave the device nothing to do: a step's time is then no time of training.
NO_GRAPH = (
    "Unknown: no graph ran in {steps}, because nothing cuts the graph. The host only notes what the device is to do, "
    "and the device does none of it, so what a step takes is unknown."
)
# The sentence where the steps used the XLA device for nothing.
OFF_DEVICE = (
    "Unknown: nothing of {steps} is on the XLA device. The program computes on the host, in PyTorch itself, so there "
    "is nothing of the device to explain."
)
# What is said where the trace has no plane of a device, and where it has one that shows no work.
NO_PLANE, NO_WORK = "The trace has no device plane", "The trace shows neither ops nor programs of a device"
# The sentence where a read of a value did not end while the profiler was on.
UNENDED_READ = (
    "Unknown: the training thread waits in {read} for {share} of {over}, and no such read ended while the profiler was "
    "on. XLA may compile the graph that the value needs, or the device computes it: a trace shows neither before it "
    "ends. Mark steps with tpuprof.step: whole steps are then recorded, however long they take."
)
# What is added where programs compiled in the captured steps, maybe soon after them, and then no more.
COMPILES_ENDED = (
    " These are among the first steps of training, and not what the others do: {later}. Capture later steps "
    "(`--warmup`)."
)
# Share of exposed communication from which the verdict says that it is a wait for who comes late: a quarter, as of what
# dispatch is made of.
LATE_FROM_SHARE = 0.25


@record(frozen=True)
class Rows:
    """Rows of the report that a verdict names lines and ops of."""

    host_stacks: list[HostStackRow]
    ops: Sequence[OpRow]
    collectives: list[TransferRow]
    fallbacks: list[FallbackRow]
    hosts: Hosts
    loops: Sequence[LoopRow] = ()
    compiles: Sequence[CompileRow] = ()


def verdict_section(
    run: Run,
    usual: UsualStep,
    hidden: float,
    rows: Rows,
    history: CompileHistory | None,
    decisions: Decisions,
) -> Verdict:
    """The verdict of the usual step. `hidden` is its hidden tracing (ms), `history` says whether compiles return."""
    uncut = steps_without_a_graph(run.hosts)
    if uncut:
        return Verdict("unknown", 1.0, NO_GRAPH.format(steps=counted(uncut, "captured step")))
    unused = off_device_steps(run)
    if unused:
        return Verdict("unknown", 1.0, OFF_DEVICE.format(steps=counted(unused, "captured step")))
    bound, times = usual.bound, usual.times
    elsewhere = compiles_elsewhere(run.hosts, times, decisions)
    if elsewhere is not None:
        return elsewhere
    read = _unended_read(run, bound, times, rows.host_stacks)
    if read is not None:
        call = read.user_call or read.call
        where = f"{call} at {read.source}" if read.source else call
        said = UNENDED_READ.format(read=where, share=format_share(bound.share), over=_over(run))
        return Verdict("unknown", round(bound.share, 6), said)
    text = sentence_of(run, usual, hidden, rows)
    if bound.word == "dispatch":
        from tpuprof.analysis.sections.ops_without_programs import said_of_ops_without_programs

        text += said_of_ops_without_programs(run.hosts)
    text += usual.note
    if usual.others is not None:
        # The note is on the long steps already.
        others = replace(usual.others, note=usual.note)
        text += f" Without compiles: {sentence_of(run, others, hidden, rows)}"
    if history is not None:
        text += _if_no_compile_returns(run.hosts, bound, times, history, hidden)
    text = with_between(
        text,
        [(host.steps, host.activity.samples) for host in run.hosts],
        runs_ahead=all(host.framework == "jax" for host in run.hosts),
        compiles=[host.activity.compiling for host in run.hosts],
    )
    outside = [
        outside_of(host.steps.wall_ps, host.after_steps, between_steps(host.steps)) for host in run.hosts
    ]
    text = in_captured_steps(text, outside)
    text += said_with_the_verdict(
        outside,
        cpus_taken=(cpu_wait(run.info) or 0.0) >= DOUBTFUL_FROM_SHARE,
    )
    text += said_of_looks(run.hosts)
    if any(compile_seconds_before(host.records) >= SLOW_COMPILE_FROM_SECONDS for host in run.hosts):
        from tpuprof.analysis.sections.start_words import said_of_start

        text += said_of_start(run.hosts)
    if any(host.after_steps is None and each.type == "CPU" for host in run.hosts for each in host.devices):
        from tpuprof.model.device.recorded_density import said_of_recording

        text += said_of_recording(run.hosts)
    text += said_of_later_steps(
        [each.later_part for each in run.hosts], [each.long_later for each in run.hosts]
    )
    text += said_of_shared_cpus(run, bound, times, rows.host_stacks)
    text += busy_machine.said_with_the_verdict(run.info, bound.word)
    text += python_tools.said_with_the_verdict(run.info, bound.word)
    return Verdict(bound.word, round(bound.share, 6), text)


def _unended_read(
    run: Run, bound: Bound, times: StepTimes, stacks: list[HostStackRow]
) -> HostStackRow | None:
    """The read that the training thread waits in where that is what holds the run back, of torch_xla."""
    of_host = {name: ms for name, ms in times.parts.items() if name.startswith(part.HOST_PREFIX)}
    largest = max(of_host, key=lambda each: of_host[each], default="")
    if (
        bound.word != "host"
        or largest != WAIT
        or frameworks_stated({host.framework for host in run.hosts}, run.info) != "torch_xla"
    ):
        return None
    return unended_read(stacks)


def sentence_of(run: Run, usual: UsualStep, hidden: float, rows: Rows) -> str:
    """The verdict in words."""
    bound, times = usual.bound, usual.times
    gpus = next((host.gpus for host in run.hosts if host.gpus and not host.devices), None)
    if gpus is not None and not times.wall:
        return f"Unknown: {gpus.text}."
    if not times.wall:
        return "Unknown: the trace has no steps and no device activity, so there is nothing to explain."
    detail = _detail(run, bound, times, rows)
    # The one step that waits for all of it is no step that costs more.
    alone = bound.ahead or bound.is_either or (bound.waits and times.reads_share >= READS_IN_STEPS_SHARE)
    few = _in_few(run.hosts, bound, times) if not alone else ""
    # The note of the usual step is on the long one, and says how seldom it comes.
    uneven = "" if few or usual.note else _uneven(run, bound, times)
    beside = host_beside(times, rows.host_stacks)
    text = sentence(bound, times, hidden, MEAN if uneven else _over(run), few, detail, beside) + uneven
    text += said_of_work_behind(bound, times, rows.host_stacks, sum(len(host.steps) for host in run.hosts))
    text = with_sparse(with_event(text, times, run), times, run)
    if bound.word == part.COMPILE:
        compiles = compile_sentence(
            _compile_times(run.hosts), times.busy, ahead=_runs_ahead(run.hosts, times)
        )
        if compiles:
            text = compiles + ("" if times.seen else UNSEEN) + detail
    if run.predicted:
        text = text.replace(KEEPS_UP, "; what the host does is not in a prediction")
    if bound.word == "sync" or bound.waits:
        from tpuprof.analysis.sections.read_words import waits_alone

        for read, wait in A_WAIT.items() if waits_alone(run, bound) else ():
            text = text.replace(read, wait)
    if any(host.blind for host in run.hosts):
        text = text.replace(NO_PLANE, NO_WORK)
    text = in_words_of(run, text) + (_by_turns(run) if bound.word == "unknown" else "")
    steps = max((host.steps for host in run.hosts), key=len)
    if steps.confidence == "low":
        text += f" Low confidence: {steps.note}."
    return f"Predicted, not measured: {text}" if run.predicted else text


def _by_turns(run: Run) -> str:
    """That devices work by turns, where they do and no cause of their idling is known; else empty."""
    notes = [note for host in run.hosts for note in host.notes if note.startswith(BY_TURNS)]
    return f" {notes[0][0].upper()}{notes[0][1:]}." if notes else ""


def _detail(run: Run, bound: Bound, times: StepTimes, rows: Rows) -> str:
    """What the verdict adds on the cause that it names: its line, its op; empty where nothing is known."""
    if bound.word == "sync" or bound.waits:
        from tpuprof.analysis.sections.read_words import named_read

        return named_read(run, rows.host_stacks, bound)
    if bound.word == "fallback":
        return _fallen_back(rows.fallbacks)
    if bound.turns or bound.ahead or bound.is_either:
        return _most_of_device(run, times, rows) if bound.turns and bound.word == "device" else ""
    if bound.word == "collective":
        late = _late_host(times, rows.hosts) or _late_chip(run, rows.hosts.chip_waits)
        return late + _across_slices(rows.collectives)
    if bound.word in ("callback", "device"):
        return callback_op(rows.ops) if bound.word == "callback" else _most_of_device(run, times, rows)
    said = host_sentence(bound.word, bound.name, times, rows.host_stacks, run)
    if bound.word == part.COMPILE and not said:
        from tpuprof.analysis.sections.compile_words import said_of_compiles

        said = said_of_compiles(rows.compiles)
    return said


def _most_of_device(run: Run, times: StepTimes, rows: Rows) -> str:
    said = ""
    if any(host.unused is not None for host in run.hosts):
        from tpuprof.analysis.sections.unused_words import said_of_unused

        said = said_of_unused(run, rows.ops)
    if not said and any(are_several(host.devices) for host in run.hosts):
        from tpuprof.analysis.sections.repeated_words import said_of_repeated

        said = said_of_repeated(rows.ops)
    if not said and any(host.framework == "jax" and host.notes for host in run.hosts):
        from tpuprof.model.device.computed_twice import said_of_twice

        said = said_of_twice([note for host in run.hosts for note in host.notes])
    return said or main_op(times.busy, rows.ops, rows.loops)


def _fallen_back(fallbacks: list[FallbackRow]) -> str:
    """The ops that run on the host in the usual step, with their lines; empty where none is known."""
    rows = [row for row in fallbacks if (row.per_step or 0.0) >= READS_IN_STEPS_SHARE]
    named = listed([fallback_text(row) for row in rows], FALLBACKS_NAMED)
    return f" {'It is' if len(rows) == 1 else 'They are'} {named}." if rows else ""


def _late_host(times: StepTimes, hosts: Hosts) -> str:
    """How much of communication is a wait for the host that comes last; empty where none stands out, or little is."""
    waits = times.parts.get(part.COLLECTIVE, 0.0) * len(hosts.late_steps)
    if hosts.method != BARRIER or not waits:
        return ""
    if not hosts.straggler:
        return _is_a_wait(min(waited_by_turns(hosts) / waits, 1.0), "hosts that come last by turns")
    late = [row.mean_waited_ms or 0.0 for row in hosts.late_steps if row.host == hosts.straggler]
    share = min(sum(late) / waits, 1.0)
    return _is_a_wait(share, f"{hosts.straggler}, which comes last")


def _late_chip(run: Run, rows: Sequence[ChipWaitRow]) -> str:
    """How much of communication is a wait for the chip that comes last; empty where that is little."""
    last = last_to_collectives(rows)
    of = f" of {last.host}" if last is not None and len(run.hosts) > 1 else ""
    if last is not None:
        other = f"{last.device}{of}, which comes last"
    else:
        turns = any(late_by_turns(group) for group in by_host(rows))
        other = "chips that come last by turns" if turns else "chips that come later"
    return _is_a_wait(late_share(rows, run.hosts), other)


def _is_a_wait(share: float, other: str) -> str:
    if share < LATE_FROM_SHARE:
        return ""
    return f" {format_share(share)} of that is a wait for {other}, and no communication."


def _across_slices(rows: list[TransferRow]) -> str:
    """How much of exposed communication goes to other slices; empty where none does."""
    total = sum(row.exposed_ms_per_step for row in rows)
    across = sum(row.exposed_ms_per_step for row in rows if row.across_slices)
    if not across:
        return ""
    return f" {format_share(across / total)} of that is between slices, through the hosts and the data centre network."


def _compile_times(hosts: list[HostRun]) -> list[tuple[float, float]]:
    """Of each step of all hosts: its wall time, and how much of it the device idles for compiles (ms)."""
    return [
        (ps_to_ms(wall), ps_to_ms(lost))
        for host in hosts
        for wall, lost in zip(
            host.steps.wall_ps.tolist(), host.breakdown.parts[part.COMPILE].tolist(), strict=True
        )
    ]


def _runs_ahead(hosts: list[HostRun], times: StepTimes) -> bool:
    """Whether the device works on as steps without a compile end; reads of results in the steps wait for that work."""
    if times.reads_share >= READS_IN_STEPS_SHARE:
        return False
    without = [[not compiles_in(*spent) for spent in _compile_times([host])] for host in hosts]
    return any(works_on(host.devices, host.steps.end[own]) for host, own in zip(hosts, without, strict=True))


def _in_few(hosts: list[HostRun], bound: Bound, times: StepTimes) -> str:
    """In which few steps nearly all of what the verdict names is; empty where each step has it."""
    if bound.again and not bound.by_turns:
        ops = bound.word == "fallback"
        rows = [host.fallback_graphs if ops else host.read_graphs for host in hosts]
        again = [again_by_step(each, len(host.steps)) for each, host in zip(rows, hosts, strict=True)]
        return said_of_few([ps_to_ms(ps) for column in again for ps in column.tolist()])
    if bound.word == "device" and times.seen and not bound.turns and not is_device_bound(times, Decisions()):
        return said_of_few([ms for host in hosts for ms in _idle_ms(host)])
    if bound.waits and bound.meanwhile == "sync":
        bound = replace(bound, word="sync", waits=0.0)
    return said_of_few(spent_of(hosts, bound, times))


def _idle_ms(host: HostRun) -> list[float]:
    """How long a host's device idles in each step."""
    return [ps_to_ms(ps) for ps in (host.steps.wall_ps - host.breakdown.busy).tolist()]


def _uneven(run: Run, bound: Bound, times: StepTimes) -> str:
    """That few steps are far longer than the others, for idle time; empty where they are not, or compiles tell it."""
    if bound.word == part.COMPILE or not times.seen or _over(run) != STEP:
        return ""
    wall = [ps_to_ms(ps) for host in run.hosts for ps in host.steps.wall_ps.tolist()]
    return said_of_mean(wall, [ms for host in run.hosts for ms in _idle_ms(host)])


def _over(run: Run) -> str:
    """What the verdict's shares are of."""
    if any(is_whole_capture(host.steps) for host in run.hosts):
        return CAPTURE
    return ONE_STEP if all(len(host.steps) <= 1 for host in run.hosts) else STEP


def _if_no_compile_returns(
    hosts: list[HostRun], bound: Bound, times: StepTimes, history: CompileHistory, hidden: float
) -> str:
    """The verdict without compiles, where they make it and it is unknown whether they come again.

    Where they ended soon after the capture: that its steps are the first ones of training.
    """
    if bound.word != "compile":
        return ""
    if history.returns == Returns.NEVER.value and history.steps_after:
        steps, compiling = counted(history.steps_after, "step"), history.compiling_after
        none, some = f"none of {steps} after them compiled", f"of {steps} after them {compiling} compiled"
        return COMPILES_ENDED.format(later=f"{some}, and then none" if compiling else none)
    if history.returns != Returns.UNKNOWN.value:
        return ""
    unknown = " It is unknown whether compiles come again"
    # Too few to tell, as where each twentieth step compiles, and yet what the run did.
    none_after = bool(history.steps_after) and not history.compiling_after
    unknown += (
        f": none of {counted(history.steps_after or 0, 'step')} after these did." if none_after else "."
    )
    if any(is_whole_capture(host.steps) for host in hosts):
        return unknown  # what is left of a capture without steps is no step
    rest = without_compiles(hosts, times)
    other = sentence(bound_of(rest), rest, hidden).removesuffix(UNSEEN)
    # What turns cost is what may be saved at most: here no price says whether it is.
    return f"{unknown} If not: {perhaps(other) if bound_of(rest).word in PRICED_BY else other}"
