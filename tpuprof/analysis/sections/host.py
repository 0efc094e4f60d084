"""What the hosts did: tracing, input, fallbacks, graph cuts, stacks, phases, threads."""

from __future__ import annotations

from typing import Any

from tpuprof.analysis.sections.hosts import hosts_section
from tpuprof.analysis.sections.runtime import cache_section, fallback_rows, fetching_ms, graph_cut_rows
from tpuprof.analysis.sections.slices import slice_message_rows
from tpuprof.analysis.sections.throughput import throughput_section
from tpuprof.analysis.sections.tracing import input_rows, tracing_section
from tpuprof.model.host.threads import TrainingThread
from tpuprof.model.host_run import HostRun
from tpuprof.model.run import Run
from tpuprof.model.telemetry import counted
from tpuprof.report.sections import HostStackRow, PhaseRow, ThreadRow
from tpuprof.units import PS_PER_NS, ps_to_ms


def host_sections(run: Run, stacks: list[HostStackRow]) -> dict[str, Any]:
    """Fields of a Report about hosts, beside their stacks."""
    hosts = run.hosts
    counts = [counted(host.records) for host in hosts]
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


def thread_rows(host: str, threads: list[TrainingThread]) -> list[ThreadRow]:
    """Every thread of a host that handed programs over, the followed one first."""
    return [
        ThreadRow(each.name, host, each.programs, each.share, each.followed, each.why) for each in threads
    ]
