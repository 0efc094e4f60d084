"""From a path to a Report: find the files, read every host, say what holds the run back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tpuprof.analysis.run_warnings import run_warnings
from tpuprof.analysis.sections.compiles import compile_history, compile_rows, steps_until_quiet
from tpuprof.analysis.sections.compute import left_out, listed_ops
from tpuprof.analysis.sections.device import device_sections
from tpuprof.analysis.sections.doubtful_cost import said_beside, surer_bound, weakened
from tpuprof.analysis.sections.host import host_sections
from tpuprof.analysis.sections.host_stacks import host_stack_rows
from tpuprof.analysis.sections.measure_next import measure_next
from tpuprof.analysis.sections.steps import mean_step, run_summary, step_sections
from tpuprof.analysis.sections.usual_step import usual_step
from tpuprof.analysis.sections.verdict import Rows, verdict_section
from tpuprof.analysis.sections.why import decision_rows
from tpuprof.decode.find import find_all
from tpuprof.decode.ranks import machines
from tpuprof.errors import Code, TpuprofError
from tpuprof.model.cpu_plugin import native_seconds
from tpuprof.model.decisions import Decisions
from tpuprof.model.device.op_table import OpTotals, op_totals
from tpuprof.model.proof_notes import Proof
from tpuprof.model.run import Run, build_run
from tpuprof.model.run_facts import device_types, frameworks_stated
from tpuprof.model.verdict import bound_of
from tpuprof.parallel import begin
from tpuprof.report.schema import Finding, ProofRow, Report
from tpuprof.rules.pricing import simulator_of
from tpuprof.rules.registry import all_rules
from tpuprof.rules.runner import run_rules
from tpuprof.rules.what_if import WhatIf, what_if
from tpuprof.signals import Signals
from tpuprof.version import VERSION

if TYPE_CHECKING:
    from concurrent.futures import Executor


def analyze_run(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    executor: Executor | None = None,
) -> Report:
    """Analyze a trace file, a run folder or logdir, or one file a host.

    `executor` is any `concurrent.futures.Executor`; each host's file is one task. Raises `TpuprofError`.
    """
    return report_of(build_run(find_all(paths), executor))


def report_of(run: Run, *, all_ops: bool = False) -> Report:
    """The Report of a run already read, with all ops or those that matter.

    Raises `TpuprofError` (`input-no-activity`) where nothing was recorded.
    """
    return with_rows(report_in_columns(run, all_ops=all_ops))


def with_rows(report: Report) -> Report:
    """The same Report with ops as the list of rows that it says it has."""
    return replace(report, ops=list(report.ops))


def report_in_columns(run: Run, *, all_ops: bool = False) -> Report:
    """As `report_of`, for those who write it as JSON alone: its ops are `OpRows`. Raises `TpuprofError`."""
    _refuse_empty(run)
    # Fixes are priced by a replay of the steps: what it needs is read beside all else, whether or not one is asked for.
    simulator = begin(lambda: simulator_of(run.hosts))
    ops = _ops_of(run)
    times, hidden = mean_step(run.hosts, native_seconds(run.info), run.info if len(run.hosts) == 1 else None)
    decisions = Decisions()
    bound = bound_of(times, decisions)
    usual = usual_step(run.hosts, bound, times, decisions)
    stacks = host_stack_rows(run.hosts)
    listed = listed_ops(ops, all_ops)
    device, doubts = device_sections(run, ops, listed)
    compiles = [row for host in run.hosts for row in compile_rows(host, run.notes)]
    history = compile_history(run.hosts, compiles)
    threads = host_sections(run, stacks, compiles)
    rows = Rows(
        stacks,
        device["ops"],
        device["collectives"],
        threads["fallbacks"],
        threads["hosts"],
        device["loops"],
        compiles,
    )
    report = Report(
        **_about(run),
        verdict=verdict_section(run, usual, hidden, rows, history, decisions),
        span_notes=run.span_notes,
        warnings=[*run_warnings(run, compiles), *doubts],
        compiles=compiles,
        compile_history=history,
        run_summary=run_summary(run.hosts, times, compiles),
        host_stacks=stacks,
        **step_sections(run.hosts, times, hidden),
        **threads,
        **device,
    )
    # Rules look at all ops.
    findings = with_proofs(run_rules(Signals(report, run), all_rules(), simulator), run.proofs)
    rest = left_out(device["ops"], listed)
    surer = surer_bound(report.verdict, findings, usual.times, decisions)
    if surer is None:
        verdict = weakened(report.verdict, findings, usual.times)
    else:
        other = verdict_section(run, replace(usual, bound=surer), hidden, rows, history, decisions)
        verdict = replace(other, sentence=other.sentence + said_beside(report.verdict, findings))
    report = replace(
        report,
        verdict=verdict,
        why=decision_rows(decisions.made, times.wall),
        findings=findings,
        ops=device["ops"][:listed],
        ops_left_out=rest,
    )
    quiet = steps_until_quiet(run.hosts)
    held_by = max((host.long_later.held_by for host in run.hosts if host.long_later is not None), default=0)
    return replace(report, measure_next=measure_next(report, usual.bound, times, quiet, held_by))


def _ops_of(run: Run) -> OpTotals:
    ops = op_totals([(host.name, host.devices, host.steps) for host in run.hosts])
    if not all(host.framework == "jax" for host in run.hosts):
        return ops
    from tpuprof.model.device.first_callers import without_first_callers

    return without_first_callers(ops, [host.activity.samples for host in run.hosts])


def _refuse_empty(run: Run) -> None:
    if not any(len(host.steps) or host.devices or host.gpus for host in run.hosts):
        files = ", ".join(str(path) for path in run.files.values())
        raise TpuprofError(
            Code.NO_ACTIVITY,
            f"{files}: the profile holds neither training steps nor device activity.",
            "Capture while training steps are running: `tpuprof capture -- python train.py` waits for them.",
        )


def what_if_of(path: str | os.PathLike[str], rules: Sequence[str]) -> WhatIf:
    """The step time of a run with the causes of several rules removed at once. Raises `TpuprofError`."""
    run = build_run(find_all(path))
    return what_if(Signals(report_of(run), run), rules)


def _about(run: Run) -> dict[str, Any]:
    """Fields of a Report about its files, tpuprof, and the machines."""
    return {
        "source": {
            "files": [str(path) for path in run.files.values()],
            "sizes": [host.size for host in run.hosts],
        },
        "generator": {"name": "tpuprof", "version": VERSION},
        "environment": _environment(run),
        "predicted": run.predicted,
    }


def _environment(run: Run) -> dict[str, Any]:
    """What is known of versions, devices and flags; tpuprof's run.json first, else what the trace states."""
    devices = [device for host in run.hosts for device in host.devices]
    gpus = [host.gpus for host in run.hosts if host.gpus is not None]
    frameworks = {host.framework for host in run.hosts}
    stated = {
        "framework": frameworks_stated(frameworks, run.info),
        "device_type": device_types([host.devices[0].type for host in run.hosts if host.devices])
        or (gpus[0].type if gpus else None),
        "device_count": sum(device.count for device in devices)
        + sum(each.devices_left_out for each in run.hosts)
        or sum(each.count for each in gpus),
        "devices_in_trace": sum(host.device_planes for host in run.hosts),
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


def with_proofs(findings: list[Finding], proofs: list[Proof]) -> list[Finding]:
    """The findings, each with the proofs of its rule."""
    if not proofs:
        return findings
    rows: dict[str, list[ProofRow]] = {}
    for each in proofs:
        facts = {name: value for name, value in vars(each).items() if name != "rule"}
        rows.setdefault(each.rule, []).append(ProofRow(**facts))
    return [replace(each, proofs=rows[each.rule]) if each.rule in rows else each for each in findings]
