"""What the threads of all hosts did: the sections of the report that are made from it, as of all files together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tpuprof.analysis.sections.device import annotation_rows
from tpuprof.analysis.sections.host import thread_rows
from tpuprof.analysis.sections.host_stacks import StackSums, merged_stack_rows
from tpuprof.analysis.sections.runtime import cache_section, fallback_rows, fetching_ms
from tpuprof.analysis.sections.throughput import throughput_section
from tpuprof.analysis.sections.tracing import input_rows, tracing_section
from tpuprof.model.device.op_table import AnnotationTotal, OpTotals
from tpuprof.model.host_run import HostRun
from tpuprof.model.notes import Notes
from tpuprof.pod.host_work import HostWork, unpacked
from tpuprof.pod.lines import Lines
from tpuprof.pod.summary import HostSummary
from tpuprof.records import record
from tpuprof.report.pod import LinePartRow


@record(frozen=True)
class MergedThreads:
    """The sections of a Report, by name; lines by host; and what summaries left out."""

    sections: dict[str, Any]
    lines: list[LinePartRow]
    left_out: list[str]


def merged_threads(
    found: list[HostSummary], hosts: list[HostRun], ops: OpTotals, info: dict[str, Any], notes: Notes
) -> MergedThreads:
    """What the threads did; `hosts`, those of `found`, get their tracing and input. `ops` are those of all devices."""
    works: list[HostWork] = []
    lines = Lines()
    rows = merged_stack_rows(_stacks(found, works, lines))
    for host, work in zip(hosts, works, strict=True):
        host.tracing, host.input = work.tracing, work.input
    steps = [len(each.steps) for each in found]
    lanes = sum(count * max(len(each.devices), 1) for each, count in zip(found, steps, strict=True))
    counts = [each.counted for each in works]
    times = [_in_steps(work.annotations, bool(count)) for work, count in zip(works, steps, strict=True)]
    fetching = fetching_ms(
        [(each.unexplained_reads_ps, count) for each, count in zip(works, steps, strict=True)]
    )
    sections = {
        "host_stacks": rows,
        "tracing": tracing_section(hosts),
        "input": input_rows(hosts, rows),
        "annotations": annotation_rows(times, ops, sum(steps), lanes),
        "threads": [
            row
            for host, each in zip(found, works, strict=True)
            for row in thread_rows(host.name, each.threads)
        ],
        "fallbacks": fallback_rows(counts, notes, fetching),
        "compilation_cache": cache_section(counts, info, {each.framework for each in found}),
        "throughput": throughput_section(counts),
    }
    return MergedThreads(sections, lines.rows(), _left_out(works))


def _stacks(found: list[HostSummary], works: list[HostWork], lines: Lines) -> Iterator[StackSums | None]:
    """The stacks of each host; the rest of its work goes to `works`, so that one host's stacks are held at a time."""
    for host in found:
        work = unpacked(host.threads)
        works.append(replace(work, stacks=None))
        stacks = work.stacks
        if stacks is not None and not len(host.steps):
            # A host whose only window is its whole capture has no steps beside others that have.
            stacks = StackSums(0, 0, [], stacks.holder)
        if stacks is not None:
            lines.add(host.name, stacks)
        yield stacks


def _in_steps(annotations: list[AnnotationTotal], has_steps: bool) -> list[AnnotationTotal]:
    return annotations if has_steps else [replace(each, host_step_ps=0) for each in annotations]


def _left_out(works: list[HostWork]) -> list[str]:
    """What summaries did not keep, one sentence a table."""
    found = []
    for name in sorted({name for each in works for name in each.left_out}):
        counts = [each.left_out[name] for each in works if name in each.left_out]
        found.append(
            f"{len(counts):,} hosts have more {name} than a summary keeps; the shortest ones are left out, "
            f"{max(counts):,} of a host at most"
        )
    return found
