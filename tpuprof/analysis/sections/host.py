"""What the hosts did: tracing, input, fallbacks, graph cuts, stacks, phases, threads."""

from __future__ import annotations

from collections.abc import Sequence
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
from tpuprof.model.steps.phase import ONE_OFF_COMPILE
from tpuprof.model.telemetry import StepRecord, counted
from tpuprof.report.between import compiles_in
from tpuprof.report.host_lines import LINE_FROM_SHARE
from tpuprof.report.labels import longest_line
from tpuprof.report.schema import CompileRow
from tpuprof.report.sections import HostStackRow, PhaseRow, ThreadRow
from tpuprof.units import PS_PER_NS, ps_to_ms


def host_sections(run: Run, stacks: list[HostStackRow], compiles: Sequence[CompileRow]) -> dict[str, Any]:
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
        "phases": phase_rows(hosts, compiles),
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


def phase_rows(hosts: list[HostRun], compiles: Sequence[CompileRow]) -> list[PhaseRow]:
    """Every phase of every host, in time order by host; `compiles` tell where steps that are left out compiled."""
    rows = [
        PhaseRow(
            name=each.name,
            host=host.name,
            start_ns=each.start // PS_PER_NS,
            duration_ms=ps_to_ms(each.end - each.start),
            cuts=each.cuts,
            evidence=each.evidence,
            step=each.step,
            inside=each.inside,
        )
        for host in hosts
        for each in host.steps.phases
    ]
    return [replace(row, evidence=row.evidence + _compiled_at(row, compiles)) for row in rows]


def _compiled_at(phase: PhaseRow, compiles: Sequence[CompileRow]) -> str:
    """The line that compiled most of a step that is left out for its compiles, as of an evaluation; empty elsewhere."""
    if phase.name != ONE_OFF_COMPILE:
        return ""
    most, share = longest_line(compiles_in(compiles, [phase]))
    return f"; most of the compiling is at {most}" if most and share >= LINE_FROM_SHARE else ""


def thread_rows(host: str, threads: list[TrainingThread]) -> list[ThreadRow]:
    """Every thread of a host that handed programs over, the followed one first."""
    return [
        ThreadRow(each.name, host, each.programs, each.share, each.followed, each.why) for each in threads
    ]
