"""Collectives, host offload and device-to-host reads: exposed against hidden, and how fast the link went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tpuprof.report.labels import host_count, reads_title, transfers_title
from tpuprof_dashboard.components.comparison import changed_parts
from tpuprof_dashboard.components.layout import chart, empty, section
from tpuprof_dashboard.components.rows import rows_of
from tpuprof_dashboard.components.tables import table
from tpuprof_dashboard.figures.bars import MAX_ROWS, stacked_bars
from tpuprof_dashboard.pages.page import Page, View

if TYPE_CHECKING:
    from tpuprof.report.schema import TransferRow
    from tpuprof.report.sections import LayerRow

_EXPOSED, _WAITING, _HIDDEN = ("#D55E00", "/"), ("#F0E442", "."), ("#7FCDB5", "")
_NO_LAYER = "(layer unknown)"
_NAMES = {"gb_per_s_alone": "GB/s alone", "occurrences": "times"}
_NOTE = (
    "Exposed: the device waits for it. Hidden: the device computes meanwhile. Waiting: the device waits for another "
    "transfer meanwhile. Times are per step and device; “alone” is the rate while nothing else had the link."
)


def _render(view: View) -> list[Any]:
    report = view.report
    offload_advice = "Host offload shows as copies to memory space S(5); only TPU captures have them."
    return [
        _transfers(
            view, "Collectives", "collectives", report.collectives, "No op of this run communicates.", ""
        ),
        _layers(view),
        _transfers(
            view,
            "Host offload",
            "offload",
            report.offload,
            "No op copies to or from host memory.",
            offload_advice,
        ),
        _reads(view),
    ]


def _transfers(view: View, title: str, key: str, rows: list[TransferRow], reason: str, advice: str) -> Any:
    if not rows:
        return section(title, empty(f"No {title.lower()}", reason, advice))
    ordered = sorted(rows, key=lambda row: -(row.exposed_ms_per_step + (row.hidden_ms_per_step or 0.0)))
    names = [" · ".join(filter(None, [row.name, row.tensor or row.annotation])) for row in ordered]
    figure = stacked_bars(names, _bars(ordered), "ms per step", view.template)
    note = _NOTE if len(rows) <= MAX_ROWS else f"{_NOTE} The {MAX_ROWS} longest of {len(rows)} are drawn."
    if any(row.hidden_ms_per_step is None for row in rows):
        note += " Hidden and waiting time are unavailable where the capture has no Async XLA Ops line."
    label = f"Exposed and hidden time of {title.lower()}; the table below has it"
    shown = table(key, rows_of(ordered, names=_NAMES))
    return section(transfers_title(title, ordered), chart(figure, f"{key}-bars", label), shown, note=note)


def _layers(view: View) -> Any:
    rows = view.report.collective_layers
    if not rows:
        return None
    names = [" · ".join(filter(None, [row.layer or _NO_LAYER, row.direction, row.kind])) for row in rows]
    figure = stacked_bars(names, _bars(rows), "ms per step", view.template)
    shown = [{**row, "layer": each.layer or _NO_LAYER} for each, row in zip(rows, rows_of(rows), strict=True)]
    label = "Exposed and hidden time of collectives by layer; the table below has it"
    return section(
        "Collectives by layer", chart(figure, "layer-bars", label), table("collective-layers", shown)
    )


def _bars(rows: Sequence[TransferRow | LayerRow]) -> list[tuple[str, list[float], str, str]]:
    """Exposed and, where any is known, hidden time."""
    parts = [("exposed", [row.exposed_ms_per_step for row in rows], *_EXPOSED)]
    if any(row.hidden_ms_per_step is not None for row in rows):
        parts.append(("behind other transfers", [row.waiting_ms_per_step or 0.0 for row in rows], *_WAITING))
        parts.append(("behind compute", [row.hidden_ms_per_step or 0.0 for row in rows], *_HIDDEN))
    return parts


def _reads(view: View) -> Any:
    rows = view.report.host_reads
    title = reads_title(rows)
    if not rows:
        return section(
            title, empty("No reads", "No step reads a value back from the device (.item(), .cpu(), print).")
        )
    note = "What the training thread spent in these calls, waiting for the device included, per step."
    if view.report.environment["host_count"] > 1:
        note += f" Times are of all {host_count(view.report)} together, the time per step is their mean."
    return section(title, table("host-reads", rows_of(rows, names=_NAMES)), note=note)


PAGE = Page(
    "transfers",
    "Collectives & offload",
    "What moves between devices and hosts, and what the device waits for.",
    _render,
    changes=(changed_parts,),
    signals=(
        "collectives",
        "collective_share",
        "parameter_gathers",
        "offload",
        "offload_share",
        "host_reads",
        "reads_in_steps_share",
    ),
)
