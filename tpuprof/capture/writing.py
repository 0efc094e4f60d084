"""Writes what one process recorded into the run folder: the profile, its description, telemetry and reports."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tpuprof.capture import dynamo, environment, run_writer
from tpuprof.capture.contention import cpus
from tpuprof.capture.controller import Controller
from tpuprof.capture.ir_debug import IrDebug
from tpuprof.capture.recordings import Recorded
from tpuprof.capture.telemetry import Telemetry
from tpuprof.instrument.state import STATE, pass_on
from tpuprof.parallel import on_this_thread
from tpuprof.run_folder import PROFILE_SUFFIX, debug_name, metrics_name
from tpuprof.units import NS_PER_S


def capture_facts(
    name: str,
    controller: Controller,
    kept: Recorded | None,
    *,
    backend: str,
    ir_debug: IrDebug | None,
    source_lines: bool,
    overhead_ns: dict[str, int],
    launched: Sequence[str] = (),
    later_looks: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """How the capture was made, for run.json. `launched` is the command behind `tpuprof capture --`, if any.

    `later_looks` is where the training thread was after a recording by the clock, if that was looked at.
    """
    return {
        "name": name,
        "warmup": controller.plan.warmup,
        # A recording by the clock has no steps of its own: the trace is asked for them.
        "steps_wanted": None if controller.by_clock else controller.plan.steps,
        "steps_captured": None if controller.by_clock else controller.captured,
        "steps_before": kept.recording.after if kept else controller.seen,
        "steady": not controller.reason,
        "backend": backend,
        "hlo_debug": ir_debug is not None,
        "cpu_wait_share": kept.cpu_wait if kept else None,
        "native_seconds": kept.native_seconds if kept else None,
        "cpus_used": kept.cpus_used if kept else None,
        "cpus": cpus(),
        "python_tools": kept.python_tools if kept else None,
        "host_samples": kept.sampling if kept else {},
        "unused_gradients": kept.gradients if kept else {},
        "source_lines": source_lines,
        "ir_debug_by_user": ir_debug.was_on if ir_debug else None,
        "ir_debug_off_in_steps": ir_debug.off_in if ir_debug else [],
        "overhead_seconds": {phase: ns / NS_PER_S for phase, ns in overhead_ns.items()},
        "launched": list(launched),
        "later_looks": later_looks or {},
    }


def write_run(
    run: Path,
    name: str,
    profile: Path,
    telemetry: Telemetry,
    capture: dict[str, Any],
    notes: list[str],
    library_calls: list[dict[str, Any]],
    listed_as: str = "",
) -> str:
    """Write everything of the capture `name`; returns the label that this process's files carry.

    `listed_as` is the host's name in the list of a pod's hosts, empty where there is none.
    """
    info, placed, rank = placed_in(run, name, profile, capture, listed_as)
    notes = list(notes)
    info["graphs"] = _graphs(run, placed, telemetry, notes)
    label = placed.name.removesuffix(PROFILE_SUFFIX)
    run_writer.write_telemetry(run, label, rank, telemetry.records)
    label = f"{label}.{rank}"
    _keep_text(run, label, telemetry, notes)
    if library_calls:
        info["library_calls"] = library_calls
    run_writer.write_run_info(run, with_warnings(info, notes))
    return label


def placed_in(
    run: Path, name: str, profile: Path, capture: dict[str, Any], listed_as: str
) -> tuple[dict[str, Any], Path, int]:
    """Move a profile into the run folder; the process's description, where the profile is now, and the rank."""
    host = socket.gethostname() or "localhost"
    rank, processes = environment.process_place()
    info = environment.describe(host, rank, processes)
    label = run_writer.host_label(host, rank, processes)
    placed = run_writer.place_profile(run, name, label, profile, listed_as)
    if listed_as:
        info["listed_as"] = listed_as
    return {**info, "profile": str(placed.relative_to(run)), "capture": capture}, placed, rank


def with_warnings(info: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """The description with what dynamo noted, and all that the reader should know."""
    noted = dynamo.notes()
    return {**info, "dynamo": noted, "warnings": [*notes, *dynamo.warnings(noted), *STATE.notes]}


def _keep_text(run: Path, label: str, telemetry: Telemetry, notes: list[str]) -> None:
    """Keep torch_xla's metrics report, and what PT_XLA_DEBUG wrote to its file so far."""
    try:
        run_writer.write_text(run, metrics_name(label), telemetry.report())
        debug = os.environ.get("PT_XLA_DEBUG_FILE")
        if debug and Path(debug).is_file():
            text = Path(debug).read_text("utf-8", "replace")
            run_writer.write_text(run, debug_name(label), text)
    except OSError as error:
        pass_on(error)
        notes.append(f"torch_xla's own reports could not be kept: {error}")


def _graphs(run: Path, profile: Path, telemetry: Telemetry, notes: list[str]) -> dict[str, str]:
    from tpuprof.capture.graphs import hashes_by_step, write_graphs
    from tpuprof.model.host_run import read_host_run

    try:
        with on_this_thread():
            host = read_host_run("", profile)
        telemetry.name_graphs(hashes_by_step(host))
        return write_graphs(run, profile, host.compiles)
    except Exception as error:
        pass_on(error)
        notes.append(f"the compiled graphs could not be kept: {error}")
        return {}
