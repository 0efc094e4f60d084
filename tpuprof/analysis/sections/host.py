"""What the hosts did: tracing, input, fallbacks, graph cuts, stacks, phases, threads."""

from __future__ import annotations

from typing import Any

from tpuprof.analysis.sections.hosts import hosts_section
from tpuprof.analysis.sections.phases import phase_rows, thread_rows
from tpuprof.analysis.sections.runtime import cache_section, fallback_rows, graph_cut_rows
from tpuprof.analysis.sections.throughput import throughput_section
from tpuprof.analysis.sections.tracing import input_rows, tracing_section
from tpuprof.model.run import Run


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
    }
