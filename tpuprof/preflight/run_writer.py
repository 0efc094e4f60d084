"""Writes a prediction as a run folder, which everything that reads captures reads too."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.json_notes import read_json
from tpuprof.preflight.predicted_trace import predicted_xspace
from tpuprof.preflight.prediction import Prediction, prediction_dict
from tpuprof.preflight.script import Trace
from tpuprof.run_folder import (
    GRAPH_SUFFIX,
    GRAPHS,
    NOTES,
    PLUGINS,
    PROFILES,
    RUN_INFO,
    RUN_SCHEMA,
    profile_name,
)
from tpuprof.units import NS_PER_S

HOST = "predicted"


def write_run(folder: Path, found: Prediction, trace: Trace, command: list[str]) -> Path:
    """Write one prediction with a program into `folder` and return it; an older prediction there is replaced.

    Raises `TpuprofError` (OUTPUT_EXISTS) where the folder holds anything else.
    """
    now = datetime.now(UTC)
    space = predicted_xspace(found, HOST, int(now.timestamp() * NS_PER_S))
    info = json.dumps(run_info(found, trace, command), indent=1)
    _clear(folder)
    (folder / GRAPHS).mkdir(parents=True)
    # First, so that a run cut short here can be replaced by the next.
    (folder / RUN_INFO).write_text(info, "utf-8")
    graph = found.compiled.graph
    (folder / GRAPHS / f"{graph.key}{GRAPH_SUFFIX}").write_bytes(graph.proto)
    session = folder / PROFILES / now.strftime("%Y_%m_%d_%H_%M_%S")
    session.mkdir(parents=True)
    (session / profile_name(HOST)).write_bytes(space)
    return folder


def run_info(found: Prediction, trace: Trace, command: list[str]) -> dict[str, Any]:
    """What run.json says of a predicted run."""
    target = found.compiled.target
    devices = found.compiled.graph.devices(target.devices)
    return {
        "schema": RUN_SCHEMA,
        "predicted": True,
        "note": "Times are a prediction of tpuprof preflight from the TPU compiler's schedule, not a measurement.",
        "versions": {**trace.versions, **found.compiled.versions},
        "device": {
            "type": "TPU",
            "kind": target.chip.device_type,
            "global_count": devices,
            "local_count": devices,
        },
        "topology": target.topology,
        "host": HOST,
        "command": command,
        "model": {"spmd": trace.spmd},
        "graph_count": len(trace.graphs),
        "warnings": [*trace.warnings, *found.warnings, *_partial(found, trace)],
        "preflight": prediction_dict(found),
    }


def _partial(found: Prediction, trace: Trace) -> list[str]:
    others = sum(count for graph, count in trace.iteration if not graph.small) - 1
    if others < 1:
        return []
    number = found.compiled.graph.number
    return [f"one iteration runs {others} more graph(s): the trace holds graph {number} alone"]


def _clear(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise TpuprofError(Code.OUTPUT_EXISTS, f"{folder} is a file.", "Choose another folder with -o.")
    if not any(folder.iterdir()):
        return
    try:
        info = read_json(folder / RUN_INFO)
    except (OSError, ValueError):
        info = {}
    if not (isinstance(info, dict) and info.get("predicted")):
        raise TpuprofError(
            Code.OUTPUT_EXISTS,
            f"{folder} exists and holds no earlier prediction.",
            "Choose another folder with -o.",
        )
    shutil.rmtree(folder / PLUGINS, ignore_errors=True)
    shutil.rmtree(folder / NOTES, ignore_errors=True)
