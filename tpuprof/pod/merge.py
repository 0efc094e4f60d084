"""Summaries of many hosts as one Report. Their order and how they were brought together change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tpuprof.analysis.analyze import with_proofs
from tpuprof.analysis.sections.doubtful_cost import weakened
from tpuprof.analysis.sections.hosts import hosts_section
from tpuprof.analysis.sections.measure_next import measure_next
from tpuprof.analysis.sections.slices import slice_message_rows
from tpuprof.analysis.sections.steps import mean_step, run_summary, step_sections
from tpuprof.analysis.sections.usual_step import usual_step
from tpuprof.analysis.sections.verdict import Rows, verdict_section
from tpuprof.analysis.sections.why import decision_rows
from tpuprof.decode.ranks import machines
from tpuprof.errors import Code, TpuprofError
from tpuprof.model.decisions import Decisions
from tpuprof.model.notes import Notes
from tpuprof.model.proof_notes import Proof
from tpuprof.model.run import Run
from tpuprof.model.run_facts import device_types, frameworks_stated
from tpuprof.model.steps.few import in_the_means
from tpuprof.model.unlike_hosts import unlike_hosts
from tpuprof.model.verdict import bound_of
from tpuprof.pod.digest import Digest, digest_of
from tpuprof.pod.findings import merged_findings, rule_rows
from tpuprof.pod.groups import group_rows, representative
from tpuprof.pod.heat_map import heat_map, skew_ms
from tpuprof.pod.lateness import Late, find_lateness
from tpuprof.pod.reduced import host_run
from tpuprof.pod.summary import HostSummary
from tpuprof.pod.threads import MergedThreads, merged_threads
from tpuprof.pod.work import merged_work
from tpuprof.records import record
from tpuprof.report.load import report_from
from tpuprof.report.pod import Pod, StragglerRow
from tpuprof.report.schema import CompileRow, Report
from tpuprof.report.sections import GraphCutRow
from tpuprof.report.span_note import SpanNote
from tpuprof.units import PS_PER_MS

# Compiles listed of all hosts together, the longest (rows): each has its frames.
COMPILES_LISTED = 1_000
# What a report's environment says of the first host's devices.
_OF_DEVICES = ("megacore", "peak_flops_per_s", "peak_hbm_bytes_per_s")
# Warnings listed (rows); equal ones of several hosts are one row.
WARNINGS_LISTED = 60


@record(frozen=True)
class Asked:
    """What was asked for beside the hosts that were analyzed.

    `hosts` is how many there are, `failed` why some could not be read, `sampled` what a sample may miss. The rest is
    what the run folder says of all hosts together.
    """

    hosts: int
    failed: dict[str, str]
    info: dict[str, Any]
    warnings: list[str]
    sampled: str = ""
    notes: Notes = field(default_factory=Notes)
    proofs: list[Proof] = field(default_factory=list)
    span_notes: list[SpanNote] = field(default_factory=list)


def _none_read(asked: Asked) -> TpuprofError:
    """Why there is no host, with one code: a defect of tpuprof is one here, too."""
    first = next(iter(asked.failed.values()), "no host was found.")
    why, _, code = first.removesuffix("]").rpartition(" [")
    defect = code == Code.INTERNAL.value
    text = f"none of {asked.hosts} hosts could be read: {why if code in set(Code) else first}"
    return TpuprofError(Code.INTERNAL if defect else Code.NO_TRACE, text)


def merge(summaries: Iterable[HostSummary], asked: Asked) -> Report:
    """The Report of all hosts. Raises `TpuprofError` where no host could be read."""
    read = sorted(summaries, key=lambda each: each.name)
    found = _in_the_means(read)
    if not found:
        raise _none_read(asked)
    digests = [digest_of(each) for each in found]
    shown = representative(found, digests)
    base = report_from(found[shown].own_report())
    hosts = [host_run(each) for each in found]
    run = Run({each.name: Path(each.path) for each in found}, hosts, asked.info)
    times, hidden = mean_step(hosts)
    decisions = Decisions()
    bound = bound_of(times, decisions)
    usual = usual_step(hosts, bound, times, decisions)
    compiles = _compiles(digests)
    # Of the host with most steps, as that of all files together.
    longest = digests[max(range(len(found)), key=lambda row: len(found[row].steps))]
    history = longest.history
    work = merged_work(found, [each.allocator for each in digests])
    threads = merged_threads(found, hosts, work.totals, asked.info, asked.notes)
    section = hosts_section(hosts, [each.barriers for each in found], [each.program for each in found])
    section = replace(section, chip_waits=[row for each in digests for row in each.chip_waits])
    loops = next((each.loops for each in digests if each.loops), [])
    rows = Rows(
        threads.sections["host_stacks"],
        work.sections["ops"],
        work.sections["collectives"],
        threads.sections["fallbacks"],
        section,
        loops,
        compiles,
    )
    steps = step_sections(hosts, times, hidden)
    steps["steadiness"] = replace(steps["steadiness"], profiler_ratio=longest.profiler_ratio)
    report = replace(
        base,
        source={"files": [each.path for each in found], "sizes": [each.size for each in found]},
        environment=_environment(base.environment, found, digests, asked),
        verdict=verdict_section(run, usual, hidden, rows, history, decisions),
        why=decision_rows(decisions.made, times.wall),
        warnings=_warnings(digests, asked, unlike_hosts(hosts, {each.name: each.program for each in found})),
        compiles=compiles,
        compile_history=history,
        graph_cuts=_graph_cuts(read, digests, sum(len(each.steps) for each in found)),
        slice_messages=slice_message_rows(hosts),
        phases=[row for each in digests for row in each.phases],
        run_summary=run_summary(hosts, times, compiles),
        hosts=section,
        pod=_pod(found, digests, shown, asked, threads),
        loops=loops,
        span_notes=asked.span_notes,
        **steps,
        **work.sections,
        **threads.sections,
    )
    findings = with_proofs(merged_findings(report, run, digests, shown), asked.proofs)
    report = replace(report, verdict=weakened(report.verdict, findings, usual.times), findings=findings)
    return replace(report, measure_next=measure_next(report, usual.bound, times))


def _pod(
    found: list[HostSummary], digests: list[Digest], shown: int, asked: Asked, threads: MergedThreads
) -> Pod:
    """What only a report of many hosts has; `shown` is the host that stands for the largest group."""
    compared = find_lateness(found)
    return Pod(
        hosts=asked.hosts,
        analyzed=len(found),
        shown=found[shown].name,
        failed=dict(sorted(asked.failed.items())),
        sampled=asked.sampled,
        groups=group_rows(found, digests),
        stragglers=[_straggler(late) for each in compared for late in each.stragglers],
        rules=rule_rows(digests),
        skew_ms=skew_ms(compared),
        not_compared=sorted({name for each in compared for name in each.left_out}),
        heat_map=heat_map(compared),
        notes=[*_notes(found), *threads.left_out],
        lines=threads.lines,
    )


def _in_the_means(found: list[HostSummary]) -> list[HostSummary]:
    """The hosts, those without steps whose steps are none of the run's."""
    return [each if in_the_means(each.steps, each.devices, found) else _empty(each) for each in found]


def _empty(each: HostSummary) -> HostSummary:
    none = np.empty(0, np.int64)
    steps = replace(each.steps, number=none, start=none, end=none)
    idle = replace(
        each.work,
        steps=0,
        wall_ps=0,
        flops=0,
        # What is unknown stays so.
        sparse_ps=0 if each.work.sparse_ps is not None else None,
        sparse_hidden_ps=0 if each.work.sparse_hidden_ps is not None else None,
    )
    sums = {**each.ops.sums, "step_ps": np.zeros_like(each.ops.sums["step_ps"])}
    return replace(
        each,
        steps=steps,
        parts={},
        columns=dict.fromkeys(each.columns, none),
        again=none,
        work=idle,
        ops=replace(each.ops, sums=sums),
    )


def _straggler(late: Late) -> StragglerRow:
    return StragglerRow(
        host=late.host,
        method=late.method,
        lag_ms_per_step=late.lag_ps / PS_PER_MS,
        share=late.share,
        steps=late.steps,
        part=late.part,
        excess_ms_per_step=late.excess_ps / PS_PER_MS if late.excess_ps is not None else None,
        chip=late.chip,
    )


def _compiles(digests: list[Digest]) -> list[CompileRow]:
    rows = [row for each in digests for row in each.compiles]
    if len(rows) <= COMPILES_LISTED:
        return rows
    kept = sorted(rows, key=lambda row: (-row.duration_ms, row.host, row.start_ns))[:COMPILES_LISTED]
    return sorted(kept, key=lambda row: (row.host, row.start_ns))


def _graph_cuts(read: list[HostSummary], digests: list[Digest], steps: int) -> list[GraphCutRow]:
    totals: dict[tuple[str, str], int] = {}
    for host, digest in zip(read, digests, strict=True):
        for row in digest.graph_cuts:
            key = row.call, row.source
            totals[key] = totals.get(key, 0) + round(row.per_step * len(host.steps))
    rows = [GraphCutRow(*key, count / steps) for key, count in totals.items()]
    return sorted(rows, key=lambda row: -row.per_step)


def _environment(
    base: dict[str, Any], found: list[HostSummary], digests: list[Digest], asked: Asked
) -> dict[str, Any]:
    own = [each.environment for each in digests]
    first = next((each for each in own if each.get("device_count")), own[0])
    stated = {each.framework for each in found}
    return {
        **base,
        **{name: first.get(name) for name in _OF_DEVICES},
        "device_type": device_types(each.get("device_type") for each in own if each.get("device_count"))
        or first.get("device_type"),
        "framework": frameworks_stated(stated, asked.info),
        "device_count": sum(each.get("device_count") or 0 for each in own),
        "devices_in_trace": sum(each.get("devices_in_trace") or 0 for each in own),
        "host_count": len(found),
        "machine_count": machines([each.name for each in found], torch_tpu="torch_tpu" in stated),
        "unread_hosts": dict(sorted(asked.failed.items())),
        "run": asked.info or None,
    }


def _notes(found: list[HostSummary]) -> list[str]:
    thinned = [each for each in found if len(each.barriers) < each.barriers_seen]
    if not thinned:
        return []
    most = max(each.barriers_seen for each in thinned)
    kept = min(len(each.barriers) for each in thinned)
    return [
        f"a host has {most:,} collectives in steps, and {kept:,} of them are compared between hosts, the same on each: "
        "lag is of those"
    ]


def _warnings(digests: list[Digest], asked: Asked, unlike: list[str]) -> list[str]:
    """What is wrong with the run: equal words of several hosts stand once. `unlike` is how the hosts differ."""
    left_out = [f"{name}: this host is left out. {why}" for name, why in sorted(asked.failed.items())]
    seen: dict[str, list[str]] = {}
    for each in digests:
        for text in each.warnings:
            seen.setdefault(text.removeprefix(f"{each.name}: "), []).append(each.name)
    texts = [
        f"{names[0]}: {text}" if len(names) == 1 else f"{len(names)} hosts ({names[0]}, ...): {text}"
        for text, names in sorted(seen.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    found = [*left_out, *asked.warnings, *unlike, *texts]
    rest = len(found) - WARNINGS_LISTED
    return [*found[:WARNINGS_LISTED], *([f"{rest} more warnings are not listed"] if rest > 0 else [])]
