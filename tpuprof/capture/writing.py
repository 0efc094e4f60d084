"""Writes what one process recorded into the run folder: the profile, its description, telemetry and reports."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from tpuprof.capture import environment, run_folder
from tpuprof.capture.telemetry import Telemetry
from tpuprof.instrument.state import STATE


def write_run(
    run: Path, name: str, profile: Path, telemetry: Telemetry, capture: dict[str, Any], notes: list[str]
) -> str:
    """Write everything of the capture `name`; returns the label that this process's files carry."""
    host = socket.gethostname() or "localhost"
    rank, processes = environment.process_place()
    info = environment.describe(host, rank, processes)
    label = run_folder.host_label(host, rank, processes)
    placed = run_folder.place_profile(run, name, label, profile)
    info["profile"] = str(placed.relative_to(run))
    notes = list(notes)
    info["graphs"] = _graphs(run, placed, telemetry, notes)
    label = placed.name.removesuffix(".xplane.pb")
    run_folder.write_telemetry(run, label, rank, telemetry.records)
    label = f"{label}.{rank}"
    _keep_text(run, label, telemetry, notes)
    info["capture"] = capture
    info["warnings"] = [*notes, *STATE.notes]
    run_folder.write_run_info(run, info)
    return label


def _keep_text(run: Path, label: str, telemetry: Telemetry, notes: list[str]) -> None:
    """Keep torch_xla's metrics report, and what PT_XLA_DEBUG wrote to its file so far."""
    try:
        run_folder.write_text(run, f"metrics.{label}.txt", telemetry.report())
        debug = os.environ.get("PT_XLA_DEBUG_FILE")
        if debug and Path(debug).is_file():
            text = Path(debug).read_text("utf-8", "replace")
            run_folder.write_text(run, f"pt_xla_debug.{label}.txt", text)
    except OSError as error:
        notes.append(f"torch_xla's own reports could not be kept: {error}")


def _graphs(run: Path, profile: Path, telemetry: Telemetry, notes: list[str]) -> dict[str, str]:
    from tpuprof.capture.graphs import hashes_by_step, write_graphs
    from tpuprof.model.run import read_host_run

    try:
        host = read_host_run("", profile)
        telemetry.name_graphs(hashes_by_step(host))
        return write_graphs(run, profile, host.compiles)
    except Exception as error:
        notes.append(f"the compiled graphs could not be kept: {error}")
        return {}
