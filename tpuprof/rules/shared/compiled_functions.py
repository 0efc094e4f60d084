"""What findings say of the functions that torch.compile made."""

from __future__ import annotations

from tpuprof.model.host.eager_dispatch import EagerDispatch
from tpuprof.report.schema import Evidence
from tpuprof.signals.telemetry import GraphBreak


def functions_called(found: EagerDispatch) -> Evidence:
    """How many of them a step calls: a whole number, as windows that hold a part of a step only call none."""
    least, most = found.regions_called
    fewest = f", {least} in some steps" if least < most else ""
    calls = most or round(found.compiled_regions or 0.0)
    return Evidence(f"different functions of torch.compile called{fewest}", calls, "per step that calls any")


def breaks_of(found: EagerDispatch, noted: list[GraphBreak]) -> float:
    """Graph breaks of a step: functions called inside of another, or again in a pass where dynamo noted a break.

    Dynamo leaves a function that breaks inside of a loop to Python, and compiles what the loop calls.
    """
    return found.graph_breaks or (found.repeats if noted else 0.0)
