"""What the hosts did: tracing, input, fallbacks, graph cuts, stacks, phases, threads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from tpuprof.analysis.sections.hosts import hosts_section
from tpuprof.analysis.sections.runtime import cache_section, fallback_rows, fetching_ms, graph_cut_rows
from tpuprof.analysis.sections.slices import slice_message_rows
from tpuprof.analysis.sections.throughput import throughput_section
from tpuprof.analysis.sections.tracing import input_rows, tracing_section
from tpuprof.model.host.threads import TrainingThread
from tpuprof.model.host_run import HostRun
from tpuprof.model.run import Run
from tpuprof.model.steps.phase import ONE_OFF_COMPILE, Phase
from tpuprof.model.telemetry import StepRecord, counted
from tpuprof.report.host_lines import LINE_FROM_SHARE
from tpuprof.report.labels import source_of
from tpuprof.report.sections import HostStackRow, PhaseRow, ThreadRow
from tpuprof.units import PS_PER_NS, ps_to_ms


def host_sections(run: Run, stacks: list[HostStackRow]) -> dict[str, Any]:
    """Fields of a Report about hosts, beside their stacks."""
    hosts = run.hosts
    counts = [counted(_of_steps(host)) for host in hosts]
    fetching = fetching_ms([(host.unexplained_reads_ps, len(host.steps)) for host in hosts])
    return {
        "tracing": tracing_section(hosts),
        "input": input_rows(hosts, stacks),
        "hosts": hosts_section(hosts),
        "fallbacks": fallback_rows(counts, run.notes, fetching),
        "graph_cuts": graph_cut_rows(hosts, counts),
        "compilation_cache": cache_section(counts, run.info, {host.framework for host in hosts}),
        "phases": phase_rows(hosts),
        "threads": [row for host in hosts for row in thread_rows(host.name, host.threads)],
        "throughput": throughput_section(counts),
        "slice_messages": slice_message_rows(hosts),
    }


def _of_steps(host: HostRun) -> list[StepRecord]:
    """What the process noted, with captured steps that are left out for their compiles as steps beside the capture.

    An evaluation that compiled in one of them may call ops that no training step calls.
    """
    left = {each.step for each in host.steps.phases if each.name == ONE_OFF_COMPILE}
    return [replace(each, captured=False) if each.step in left else each for each in host.records]


def phase_rows(hosts: list[HostRun]) -> list[PhaseRow]:
    """Every phase of every host, in time order by host."""
    return [
        PhaseRow(
            name=each.name,
            host=host.name,
            start_ns=each.start // PS_PER_NS,
            duration_ms=ps_to_ms(each.end - each.start),
            cuts=each.cuts,
            evidence=each.evidence + _compiled_at(each, host),
            step=each.step,
            inside=each.inside,
        )
        for host in hosts
        for each in host.steps.phases
    ]


def _compiled_at(phase: Phase, host: HostRun) -> str:
    """The line that compiled most of a step that is left out for its compiles, as of an evaluation; empty elsewhere."""
    if phase.name != ONE_OFF_COMPILE:
        return ""
    seconds: Counter[str] = Counter()
    for each in host.compiles:
        if phase.start <= each.start_ps < phase.end:
            frames = each.frames or host.compile_frames.get(phase.step, [])
            seconds[source_of(frames[0]) if frames else ""] += each.duration_ps
    line, most = next(iter(seconds.most_common(1)), ("", 0))
    return (
        f"; most of the compiling is at {line}" if line and most >= LINE_FROM_SHARE * seconds.total() else ""
    )


def thread_rows(host: str, threads: list[TrainingThread]) -> list[ThreadRow]:
    """Every thread of a host that handed programs over, the followed one first."""
    return [
        ThreadRow(each.name, host, each.programs, each.share, each.followed, each.why) for each in threads
    ]
