"""What the hosts did: tracing, input, fallbacks, graph cuts, stacks, phases, threads."""

from __future__ import annotations

from typing import Any

from tpuprof.analysis.sections.hosts import hosts_section
from tpuprof.analysis.sections.runtime import cache_section, fallback_rows, graph_cut_rows
from tpuprof.analysis.sections.slices import slice_message_rows
from tpuprof.analysis.sections.throughput import throughput_section
from tpuprof.analysis.sections.tracing import input_rows, tracing_section
from tpuprof.model.host_run import HostRun
from tpuprof.model.run import Run
from tpuprof.report.sections import PhaseRow, ThreadRow
from tpuprof.units import PS_PER_NS, ps_to_ms


def host_sections(run: Run) -> dict[str, Any]:
    """Fields of a Report about hosts, beside their stacks."""
    hosts = run.hosts
    return {
        "tracing": tracing_section(hosts),
        "input": input_rows(hosts),
        "hosts": hosts_section(hosts),
        "fallbacks": fallback_rows(run),
        "graph_cuts": graph_cut_rows(run),
        "compilation_cache": cache_section(run),
        "phases": phase_rows(hosts),
        "threads": thread_rows(hosts),
        "throughput": throughput_section(hosts),
        "slice_messages": slice_message_rows(hosts),
    }


def phase_rows(hosts: list[HostRun]) -> list[PhaseRow]:
    """Every phase of every host, in time order by host."""
    return [
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


def thread_rows(hosts: list[HostRun]) -> list[ThreadRow]:
    """Every thread that handed programs over, by host, the followed one first."""
    return [
        ThreadRow(each.name, host.name, each.programs, each.share, each.followed, each.why)
        for host in hosts
        for each in host.threads
    ]
