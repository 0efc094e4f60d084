"""Loops of the programs: time of each iteration, forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof_dashboard.components.layout import chart, empty, section
from tpuprof_dashboard.components.tables import GO, table
from tpuprof_dashboard.figures.iterations import iterations
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.state import integer

if TYPE_CHECKING:
    from tpuprof.report.schema import LoopRow


def _render(view: View) -> list[Any]:
    loops = view.report.loops
    if not loops:
        reason = "No program of this run loops on the device, and no block of ops repeats."
        if view.report.tracing.scan_retraces_per_step is not None:
            reason += " The host does trace a scan: XLA removes a loop of one iteration."
        advice = "torch_xla's scan_layers turns a stack of layers into one loop, which is traced once."
        return [empty("No loops", reason, advice)]
    chosen = integer(view.state, "loop")
    chosen = chosen if chosen is not None and 0 <= chosen < len(loops) else 0
    rows = [{**_row(each), GO: view.here(loop=str(number))} for number, each in enumerate(loops)]
    return [section("Loops", table("loops", rows, go_title="iterations")), _one(view, chosen)]


def _row(each: LoopRow) -> dict[str, Any]:
    return {
        "loop": each.name,
        "kind": each.kind,
        "direction": each.direction,
        "trip count": each.trip_count,
        "ms per step": each.total_ms_per_step,
        "times": each.occurrences,
        "stand out": ", ".join(map(str, each.outliers)),
        "detail": each.detail,
        "source": each.source,
        "program": each.program,
    }


def _one(view: View, chosen: int) -> Any:
    loop = view.report.loops[chosen]
    title = f"Iterations of {loop.name}"
    if not loop.iteration_ms:
        reason = "unavailable: the trace does not tell this loop's iterations apart."
        return section(title, empty("Iterations unavailable", loop.detail or reason))
    figure = iterations(loop.iteration_ms, loop.outliers, view.template)
    rows = [
        {"iteration": number, "ms": ms, "stands out": "yes" if number in loop.outliers else ""}
        for number, ms in enumerate(loop.iteration_ms)
    ]
    label = "Time of each iteration; the table below has it"
    return section(title, chart(figure, "iterations", label), table("iterations", rows), note=loop.detail)


PAGE = Page(
    "scan",
    "Scan",
    "What each iteration of a loop takes on the device.",
    _render,
    keys=("loop",),
    signals=(
        "loops",
        "unrolled",
        "scan_retraces",
    ),
)
