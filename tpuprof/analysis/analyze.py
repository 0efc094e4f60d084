"""From a path to a Report: find the files, read every host, say what holds the run back."""

# Past 400 lines by the fields of a Report; its sections are in sections/.

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np

from tpuprof import parts as part
from tpuprof.analysis.run_warnings import run_warnings
from tpuprof.analysis.sections.compiles import compile_history, compile_rows
from tpuprof.analysis.sections.compute import (
    compute_section,
    host_devices,
    left_out,
    listed_ops,
    op_group_rows,
)
from tpuprof.analysis.sections.host_stacks import host_stack_rows
from tpuprof.analysis.sections.host_words import host_sentence, in_words_of
from tpuprof.analysis.sections.hosts import hosts_section
from tpuprof.analysis.sections.inconsistent import inconsistencies
from tpuprof.analysis.sections.loops import loop_rows
from tpuprof.analysis.sections.measure_next import measure_next
from tpuprof.analysis.sections.memory import memory_section
from tpuprof.analysis.sections.phases import phase_rows, thread_rows
from tpuprof.analysis.sections.proofs import with_proofs
from tpuprof.analysis.sections.run_summary import goodput_section
from tpuprof.analysis.sections.runtime import cache_section, fallback_rows, graph_cut_rows
from tpuprof.analysis.sections.steadiness import steadiness_section
from tpuprof.analysis.sections.throughput import throughput_section
from tpuprof.analysis.sections.tracing import input_rows, tracing_section
from tpuprof.analysis.sections.transfers import layer_rows, transfer_rows
from tpuprof.analysis.sections.why import decision_rows
from tpuprof.decode.find import find_all
from tpuprof.decode.ranks import machines
from tpuprof.errors import Code, TpuprofError
from tpuprof.model.compile.recurrence import Returns
from tpuprof.model.compile_verdict import compile_sentence
from tpuprof.model.decisions import Decisions
from tpuprof.model.device.cpu import Queue
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_table import (
    AnnotationTotal,
    OpTotal,
    annotation_totals,
    op_totals,
    scope_totals,
    source_totals,
)
from tpuprof.model.host.reads import WAITS_ALONE
from tpuprof.model.in_few_steps import said_of_few
from tpuprof.model.intervals import Int64
from tpuprof.model.median import median, percentile_95
from tpuprof.model.run import HostRun, Run, build_run
from tpuprof.model.step_columns import SLOWEST, listed
from tpuprof.model.step_times import Bound, StepTimes, without_part
from tpuprof.model.steps.few import is_whole_capture
from tpuprof.model.verdict import (
    A_READ,
    A_WAIT,
    CAPTURE,
    KEEPS_UP,
    ONE_STEP,
    READS_IN_STEPS_SHARE,
    STEP,
    UNSEEN,
    bound_of,
    sentence,
)
from tpuprof.parallel import begin
from tpuprof.parts import NAMES
from tpuprof.report.schema import (
    AnnotationRow,
    HostReadRow,
    Part,
    Report,
    SourceRow,
    StepRow,
    StepSummary,
    Verdict,
)
from tpuprof.report.sections import CompileHistory, HostStackRow
from tpuprof.rules.pricing import simulator_of
from tpuprof.rules.registry import all_rules
from tpuprof.rules.runner import run_rules
from tpuprof.rules.what_if import WhatIf, what_if
from tpuprof.signals import Signals
from tpuprof.units import PS_PER_MS, PS_PER_NS, ps_to_ms
from tpuprof.version import VERSION


def analyze_run(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    executor: Executor | None = None,
) -> Report:
    """Analyze a trace file, a run folder or logdir, or one file a host.

    `executor` is any `concurrent.futures.Executor`; each host's file is one task. Raises `TpuprofError`.
    """
    return report_of(build_run(find_all(paths), executor))


# Long because it fills one record: each line makes one field from what the lines above it found.
def report_of(run: Run, *, all_ops: bool = False) -> Report:
    """The Report of a run already read, with all ops or those that matter.

    Raises `TpuprofError` (`input-no-activity`) where nothing was recorded.
    """
    if not any(len(host.steps) or host.devices or host.gpus for host in run.hosts):
        files = ", ".join(str(path) for path in run.files.values())
        raise TpuprofError(
            Code.NO_ACTIVITY,
            f"{files}: the profile holds neither training steps nor device activity.",
            "Capture while training steps are running: `tpuprof capture -- python train.py` waits for them.",
        )
    # Fixes are priced by a replay of the steps: what it needs is read beside all else, whether or not one is asked for.
    simulator = begin(lambda: simulator_of(run.hosts))
    ops = op_totals([(host.name, host.devices, host.steps) for host in run.hosts])
    load, hidden = mean_load(run.hosts)
    decisions = Decisions()
    bound = bound_of(load, decisions)
    stacks = host_stack_rows(run.hosts)
    listed = listed_ops(ops, all_ops)
    op_rows, compute = compute_section([host_devices(host) for host in run.hosts], ops, listed)
    breakdown = {name: Part(ms, ms / load.wall) for name, ms in load.parts.items()} if load.wall else {}
    compiles = [row for host in run.hosts for row in compile_rows(host, run.notes)]
    history = compile_history(run.hosts, compiles)
    verdict_text = sentence_of(run, bound, load, hidden, stacks)
    verdict_text += _if_no_compile_returns(bound, load, history, hidden)
    collectives, offload = (transfer_rows(run.hosts, kind) for kind in (OpKind.COLLECTIVE, OpKind.OFFLOAD))
    memory = memory_section(run)
    warnings = [*run_warnings(run), *inconsistencies(compute, op_rows, [*collectives, *offload], memory)]
    report = Report(
        source={
            "files": [str(path) for path in run.files.values()],
            "sizes": [host.size for host in run.hosts],
        },
        generator={"name": "tpuprof", "version": VERSION},
        environment=_environment(run),
        verdict=Verdict(bound.word, round(bound.share, 6), verdict_text),
        steps=step_summary(run.hosts),
        breakdown=breakdown,
        tracing_hidden_ms_per_step=hidden if load.wall else None,
        compiles=compiles,
        ops=op_rows,
        host_reads=host_read_rows(run.hosts),
        collectives=collectives,
        offload=offload,
        annotations=_annotation_rows(run.hosts, ops),
        sources=[SourceRow(source, count, ps_to_ms(ps)) for source, count, ps in source_totals(ops)],
        warnings=warnings,
        scan=loop_rows(run.hosts),
        memory=memory,
        tracing=tracing_section(run.hosts),
        input=input_rows(run.hosts),
        compute=compute,
        collective_layers=layer_rows(collectives, max(len(host.steps) for host in run.hosts)),
        hosts=hosts_section(run.hosts),
        steadiness=steadiness_section(run.hosts),
        fallbacks=fallback_rows(run),
        host_stacks=stacks,
        graph_cuts=graph_cut_rows(run),
        compilation_cache=cache_section(run),
        goodput=goodput_section(run.hosts, load, compiles),
        op_groups=op_group_rows(op_rows),
        predicted=run.predicted,
        phases=phase_rows(run.hosts),
        compile_history=history,
        threads=thread_rows(run.hosts),
        throughput=throughput_section(run.hosts),
        why=decision_rows(decisions.made, load.wall),
    )
    # Rules look at all ops.
    findings = with_proofs(run_rules(Signals(report, run), all_rules(), simulator), run.proofs)
    report = replace(report, findings=findings, ops=op_rows[:listed], ops_left_out=left_out(op_rows, listed))
    return replace(report, measure_next=measure_next(report, bound, load))


def what_if_of(path: str | os.PathLike[str], rules: Sequence[str]) -> WhatIf:
    """The step time of a run with the causes of several rules removed at once. Raises `TpuprofError`."""
    run = build_run(find_all(path))
    return what_if(Signals(report_of(run), run), rules)


def mean_load(hosts: list[HostRun]) -> tuple[StepTimes, float]:
    """The mean step of all hosts, and the tracing hidden in it (ms)."""
    count = sum(len(host.steps) for host in hosts)
    if not count:
        return StepTimes(0.0, {}, 0.0, 0.0, 0.0), 0.0

    def mean(columns: Iterable[Int64]) -> float:
        return sum(int(column.sum()) for column in columns) / count / PS_PER_MS

    names = list(dict.fromkeys([*NAMES, *(name for host in hosts for name in host.breakdown.parts)]))
    parts = {
        name: mean(h.breakdown.parts[name] for h in hosts if name in h.breakdown.parts) for name in names
    }
    reads = [read for host in hosts for read in host.host_reads]
    behind = [host.queue for host in hosts if host.queue.grows]
    load = StepTimes(
        wall=mean(host.steps.wall_ps for host in hosts),
        parts=parts,
        busy=mean(host.breakdown.busy for host in hosts),
        host_work=mean(host.breakdown.host_work for host in hosts),
        reads_share=sum(int((host.breakdown.host_reads > 0).sum()) for host in hosts) / count,
        waited=mean(host.breakdown.waited for host in hosts),
        seen=any(host.devices for host in hosts),
        behind=Queue(sum(each.handed_over for each in behind), sum(each.ran for each in behind))
        if behind
        else None,
        blocked=sum(each.blocked_ps for each in reads) / count / PS_PER_MS if reads else None,
    )
    return load, mean(host.breakdown.tracing_hidden for host in hosts)


def sentence_of(run: Run, bound: Any, load: StepTimes, hidden: float, stacks: list[HostStackRow]) -> str:
    """The verdict in words."""
    gpus = next((host.gpus for host in run.hosts if host.gpus and not host.devices), None)
    if gpus is not None and not load.wall:
        return f"Unknown: {gpus.text}."
    if not load.wall:
        return "Unknown: the trace has no steps and no device activity, so there is nothing to explain."
    text = sentence(bound, load, hidden, _over(run), _in_few(run.hosts, bound, load))
    if bound.word == part.COMPILE:
        rows = zip(*_compile_times(run.hosts), strict=True)
        text = compile_sentence([(float(wall), float(lost)) for wall, lost in rows]) or text
        text += "" if load.seen or UNSEEN in text else UNSEEN
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
        text += host_sentence(bound.word, bound.name, load, stacks, run)
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


def _in_few(hosts: list[HostRun], bound: Bound, load: StepTimes) -> str:
    """In which few steps nearly all of what the verdict names is; empty where each step has it."""
    takes_turns = bound.turns or (bound.word == "sync" and load.reads_share >= READS_IN_STEPS_SHARE)
    if takes_turns or bound.word == "device":
        return ""
    wanted = {part.USER_PREFIX + bound.name} if bound.name else None
    times = []
    for host in hosts:
        columns = [
            column
            for name, column in host.breakdown.parts.items()
            if (name in wanted if wanted else part.part_of(name).word == bound.word)
        ]
        times += [ps_to_ms(int(ps)) for ps in sum(columns, 0 * host.steps.wall_ps).tolist()]
    return said_of_few(times)


def _over(run: Run) -> str:
    """What the verdict's shares are of."""
    if any(is_whole_capture(host.steps) for host in run.hosts):
        return CAPTURE
    return ONE_STEP if all(len(host.steps) <= 1 for host in run.hosts) else STEP


def _if_no_compile_returns(bound: Bound, load: StepTimes, history: CompileHistory, hidden: float) -> str:
    """The verdict without compiles, where they make it and it is unknown whether they come again."""
    if bound.word != "compile" or history.returns != Returns.UNKNOWN.value:
        return ""
    rest = without_part(load, part.COMPILE)
    other = sentence(bound_of(rest), rest, hidden).removesuffix(UNSEEN)
    return f" It is unknown whether compiles come again. If not: {other}"


def step_summary(hosts: list[HostRun]) -> StepSummary:
    """The steps of all hosts: how many, how long, and the rows that are listed."""
    first = max(hosts, key=lambda host: len(host.steps))
    walls = np.concatenate([host.steps.wall_ps for host in hosts]) / PS_PER_MS
    rows = [row for host in hosts for row in _step_rows(host, listed(len(host.steps), len(hosts)))]
    missing = len(walls) - len(rows)
    whole = is_whole_capture(first.steps)
    told = len(walls) > 0 and not whole
    return StepSummary(
        count=0 if whole else len(first.steps),
        method=first.steps.method,
        confidence=first.steps.confidence,
        median_ms=median(walls) if told else None,
        p95_ms=percentile_95(walls) if told else None,
        note=first.steps.note,
        per_step=rows,
        whole_capture=whole,
        left_out=missing,
        slowest=_slowest(hosts) if missing else [],
    )


def _slowest(hosts: list[HostRun]) -> list[StepRow]:
    """The slowest steps of all hosts, the slowest first."""
    rows = [
        row
        for host in hosts
        for row in _step_rows(host, np.argsort(-host.steps.wall_ps, kind="stable")[:SLOWEST])
    ]
    return sorted(rows, key=lambda row: -row.wall_ms)[:SLOWEST]


def _step_rows(host: HostRun, chosen: Int64) -> list[StepRow]:
    """Rows of those steps."""
    steps, split = host.steps, host.breakdown
    wall, start = steps.wall_ps[chosen].tolist(), (steps.start[chosen] // PS_PER_NS).tolist()
    parts = {name: column[chosen].tolist() for name, column in split.parts.items() if column.any()}
    rows = []
    for row, at in enumerate(chosen.tolist()):
        breakdown = {name: ps_to_ms(column[row]) for name, column in parts.items() if column[row]}
        load = StepTimes(
            wall=ps_to_ms(wall[row]),
            parts=breakdown,
            busy=ps_to_ms(int(split.busy[at])),
            host_work=ps_to_ms(int(split.host_work[at])),
            reads_share=1.0 if split.host_reads[at] else 0.0,
            waited=ps_to_ms(int(split.waited[at])),
            seen=bool(host.devices),
            behind=host.queue if host.queue.grows else None,
        )
        rows.append(
            StepRow(
                index=int(steps.number[at]),
                host=host.name,
                start_ns=start[row],
                wall_ms=load.wall,
                breakdown_ms=breakdown,
                tracing_hidden_ms=ps_to_ms(int(split.tracing_hidden[at])),
                bound=bound_of(load).word,
            )
        )
    return rows


def host_read_rows(hosts: list[HostRun]) -> list[HostReadRow]:
    """Reads in steps of all hosts by call and source line, what blocked longest first."""
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    steps = sum(len(host.steps) for host in hosts)
    for each in (read for host in hosts for read in host.host_reads):
        count, blocked = totals.get((each.call, each.source), (0, 0))
        totals[each.call, each.source] = (count + each.occurrences, blocked + each.blocked_ps)
    rows = [HostReadRow(*key, count, ps_to_ms(blocked) / steps) for key, (count, blocked) in totals.items()]
    return sorted(rows, key=lambda row: -row.blocked_ms_per_step)


def _annotation_rows(hosts: list[HostRun], ops: list[OpTotal]) -> list[AnnotationRow]:
    lanes = sum(len(host.steps) * max(len(host.devices), 1) for host in hosts)
    scopes = scope_totals(ops)
    return [
        _annotation_row(each, len(host.steps), lanes)
        for host in hosts
        for each in annotation_totals(host.activity.annotations, scopes, host.steps)
    ]


def _annotation_row(each: AnnotationTotal, steps: int, lanes: int) -> AnnotationRow:
    in_steps = each.device_step_ps
    return AnnotationRow(
        each.name,
        each.kind,
        each.occurrences,
        ps_to_ms(each.host_ps),
        ps_to_ms(each.device_ps) if each.device_ps is not None else None,
        host_ms_per_step=ps_to_ms(each.host_step_ps) / steps if steps else None,
        device_ms_per_step=ps_to_ms(in_steps) / lanes if in_steps is not None and lanes else None,
    )


def _environment(run: Run) -> dict[str, Any]:
    """What is known of versions, devices and flags; tpuprof's run.json first, else what the trace states."""
    devices = [device for host in run.hosts for device in host.devices]
    gpus = [host.gpus for host in run.hosts if host.gpus is not None]
    frameworks = {host.framework for host in run.hosts}
    stated = {
        "framework": ", ".join(sorted(frameworks)),
        "device_type": devices[0].type if devices else gpus[0].type if gpus else None,
        "device_count": sum(device.count for device in devices) or sum(each.count for each in gpus),
        "megacore": devices[0].megacore if devices else None,
        "host_count": len(run.hosts),
        "machine_count": machines([each.name for each in run.hosts], torch_tpu="torch_tpu" in frameworks),
        "unread_hosts": run.unread_hosts,
        "peak_flops_per_s": devices[0].peak_flops_per_s if devices else None,
        "peak_hbm_bytes_per_s": devices[0].peak_hbm_bytes_per_s if devices else None,
    }
    return {
        "torch_xla": None,
        "libtpu": None,
        **(run.info.get("versions") or {}),
        **stated,
        "run": run.info or None,
    }
