"""The verdict: the word and the share that bound the step, and the sentence that says it to people."""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.analysis.sections.host_words import host_sentence, in_words_of
from tpuprof.analysis.sections.steps import host_read_rows
from tpuprof.model.compile.recurrence import Returns
from tpuprof.model.compile_verdict import compile_sentence
from tpuprof.model.host.reads import WAITS_ALONE
from tpuprof.model.host_run import HostRun
from tpuprof.model.in_few_steps import said_of_few
from tpuprof.model.read_graphs import again_by_step
from tpuprof.model.run import Run
from tpuprof.model.step_times import Bound, StepTimes, without_part
from tpuprof.model.steps.few import is_whole_capture
from tpuprof.model.verdict import READS_IN_STEPS_SHARE, bound_of
from tpuprof.model.verdict_sentence import A_READ, A_WAIT, CAPTURE, KEEPS_UP, ONE_STEP, STEP, UNSEEN, sentence
from tpuprof.report.schema import Verdict
from tpuprof.report.sections import CompileHistory, HostStackRow
from tpuprof.units import ps_to_ms


def verdict_section(
    run: Run,
    bound: Bound,
    times: StepTimes,
    hidden: float,
    stacks: list[HostStackRow],
    history: CompileHistory | None = None,
) -> Verdict:
    """The verdict of the mean step. `hidden` is its hidden tracing (ms), `history` says whether compiles return."""
    text = sentence_of(run, bound, times, hidden, stacks)
    if history is not None:
        text += _if_no_compile_returns(bound, times, history, hidden)
    return Verdict(bound.word, round(bound.share, 6), text)


def sentence_of(run: Run, bound: Bound, times: StepTimes, hidden: float, stacks: list[HostStackRow]) -> str:
    """The verdict in words."""
    gpus = next((host.gpus for host in run.hosts if host.gpus and not host.devices), None)
    if gpus is not None and not times.wall:
        return f"Unknown: {gpus.text}."
    if not times.wall:
        return "Unknown: the trace has no steps and no device activity, so there is nothing to explain."
    text = sentence(bound, times, hidden, _over(run), _in_few(run.hosts, bound, times))
    if bound.word == part.COMPILE:
        rows = zip(*_compile_times(run.hosts), strict=True)
        text = compile_sentence([(float(wall), float(lost)) for wall, lost in rows]) or text
        text += "" if times.seen or UNSEEN in text else UNSEEN
    if run.predicted:
        text = text.replace(KEEPS_UP, "; what the host does is not in a prediction")
    if bound.word == "sync":
        # A read that happens once, at the end say, waits longest and is not what every step does.
        often = READS_IN_STEPS_SHARE * sum(len(host.steps) for host in run.hosts)
        read = next((each for each in host_read_rows(run.hosts) if each.occurrences >= often), None)
        if read and read.call in WAITS_ALONE:
            text = text.replace(A_READ, A_WAIT)
        text += f" It is {read.call} at {read.source}." if read and read.source else ""
    if not bound.turns:
        text += host_sentence(bound.word, bound.name, times, stacks, run)
    text = in_words_of(run, text)
    steps = max((host.steps for host in run.hosts), key=len)
    if steps.confidence == "low":
        text += f" Low confidence: {steps.note}."
    return f"Predicted, not measured: {text}" if run.predicted else text


def _compile_times(hosts: list[HostRun]) -> tuple[list[float], list[float]]:
    """Of each step of all hosts: its wall time, and how much of it the device idles for compiles (ms)."""
    wall = [ps_to_ms(ps) for host in hosts for ps in host.steps.wall_ps.tolist()]
    lost = [ps_to_ms(ps) for host in hosts for ps in host.breakdown.parts[part.COMPILE].tolist()]
    return wall, lost


def _in_few(hosts: list[HostRun], bound: Bound, times: StepTimes) -> str:
    """In which few steps nearly all of what the verdict names is; empty where each step has it."""
    if bound.again:
        again = [again_by_step(host.read_graphs, len(host.steps)) for host in hosts]
        return said_of_few([ps_to_ms(ps) for column in again for ps in column.tolist()])
    takes_turns = bound.turns or (bound.word == "sync" and times.reads_share >= READS_IN_STEPS_SHARE)
    if takes_turns or bound.word == "device":
        return ""
    wanted = {part.USER_PREFIX + bound.name} if bound.name else None
    spent = []
    for host in hosts:
        columns = [
            column
            for name, column in host.breakdown.parts.items()
            if (name in wanted if wanted else part.part_of(name).word == bound.word)
        ]
        spent += [ps_to_ms(int(ps)) for ps in sum(columns, 0 * host.steps.wall_ps).tolist()]
    return said_of_few(spent)


def _over(run: Run) -> str:
    """What the verdict's shares are of."""
    if any(is_whole_capture(host.steps) for host in run.hosts):
        return CAPTURE
    return ONE_STEP if all(len(host.steps) <= 1 for host in run.hosts) else STEP


def _if_no_compile_returns(bound: Bound, times: StepTimes, history: CompileHistory, hidden: float) -> str:
    """The verdict without compiles, where they make it and it is unknown whether they come again."""
    if bound.word != "compile" or history.returns != Returns.UNKNOWN.value:
        return ""
    rest = without_part(times, part.COMPILE)
    other = sentence(bound_of(rest), rest, hidden).removesuffix(UNSEEN)
    return f" It is unknown whether compiles come again. If not: {other}"
