"""The host's side of a step: what tracing is made of, how batches arrive, which ops fall back to the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc

from tpuprof.render.flame import icicle
from tpuprof.report.labels import diagnosis_title, phase_title
from tpuprof.units import format_ms
from tpuprof_dashboard.components.comparison import changed_parts
from tpuprof_dashboard.components.layout import chart, empty, section, tile, tiles
from tpuprof_dashboard.components.rows import rows_of
from tpuprof_dashboard.components.tables import table
from tpuprof_dashboard.figures.bars import MAX_ROWS, stacked_bars
from tpuprof_dashboard.figures.flame import flame
from tpuprof_dashboard.figures.part_style import style_of
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.words import UNAVAILABLE, capital, part_title

if TYPE_CHECKING:
    from tpuprof.report.sections import TracingRow

_HIDDEN = ("#7FCDB5", "")
_NOTE = (
    "Exposed: the device idles meanwhile, so it costs step time. Hidden: it runs while the device works, and costs "
    "nothing."
)


def _render(view: View) -> list[Any]:
    return [
        _whose(view),
        _head(view),
        _lines(view),
        _stacks(view),
        _phases(view),
        _annotations(view),
        _input(view),
        _fallbacks(view),
    ]


def _whose(view: View) -> Any:
    """Whose times these are where a run has several hosts."""
    hosts, pod = len(view.report.hosts.hosts), view.report.pod
    if pod is not None:
        text = (
            f"Times are means over the steps of all {pod.analyzed:,} hosts. The table of lines by host says which "
            "hosts a line is on, and what it takes there."
        )
    elif hosts > 1:
        text = f"Times are means over the steps of all {hosts} hosts."
    else:
        return None
    return dmc.Text(text, size="sm", c="dimmed", className="tpu-wrap")


def _lines(view: View) -> Any:
    """Of a pod, on which hosts a sampled line is."""
    pod = view.report.pod
    if pod is None or not pod.lines:
        return None
    note = "Times are those of the host that the line costs most. Hosts where it takes next to nothing are not counted."
    return section("Lines by host", table("lines-by-host", rows_of(pod.lines)), note=note)


def _head(view: View) -> Any:
    report, told = view.report, view.report.tracing
    if report.predicted:
        return None
    exposed = report.breakdown.get("tracing")
    hidden, free = report.tracing_hidden_ms_per_step, told.step_ms_if_free
    retraces = told.scan_retraces_per_step
    return tiles(
        tile("Exposed tracing", format_ms(exposed.ms_per_step) if exposed else UNAVAILABLE, "a mean step"),
        tile("Hidden tracing", format_ms(hidden) if hidden is not None else UNAVAILABLE, "a mean step"),
        tile(
            "Step if tracing were free",
            format_ms(free) if free is not None else UNAVAILABLE,
            "the most that tracing less can give",
        ),
        tile(
            "Scan bodies traced",
            f"{retraces:,.3g} per step" if retraces is not None else UNAVAILABLE,
            "0 with the scan's cache on" if retraces is not None else "the trace tells of no scan",
        ),
    )


def _stacks(view: View) -> Any:
    title, rows = "What the host does", view.report.host_stacks
    if not rows:
        reason = "This capture has no samples of the training thread's stack."
        advice = "`tpuprof capture -- python train.py` samples it, and so does a program with `tpuprof.start_server`."
        return section(title, empty("No stacks", reason, advice))
    figure = flame(icicle(rows), view.template)
    label = "Time of the training thread by Python stack, outermost frame on top; the table below has it"
    listed = [
        {
            "part": part_title(each.part),
            "exposed ms per step": each.exposed_ms_per_step,
            "hidden ms per step": each.hidden_ms_per_step,
            "line": each.source or (each.frames[-1] if each.frames else ""),
            "calls": each.user_call or each.call,
            "samples": each.samples,
        }
        for each in rows
    ]
    note = f"Outermost frame on top; widths are time per step, faint where it is hidden. {_NOTE}"
    return section(title, chart(figure, "host-stacks", label), table("host-stacks", listed), note=note)


def _phases(view: View) -> Any:
    phases = view.report.tracing.phases
    title = "What tracing is made of"
    if not phases:
        return section(title, empty("No tracing", _untold(view)))
    rows = [
        {**row, "name": capital(phase_title(each.name))}
        for each, row in zip(phases, _rows(phases), strict=True)
    ]
    figure = _bars([capital(phase_title(each.name)) for each in phases], phases, view.template)
    label = "Exposed and hidden time of each phase of tracing; the table below has it"
    return section(title, chart(figure, "tracing-phases", label), table("tracing-phases", rows), note=_NOTE)


def _untold(view: View) -> str:
    if view.report.predicted:
        return "A predicted run holds device times only; the host's are not simulated."
    return "No host thread of this trace builds graphs inside steps."


def _annotations(view: View) -> Any:
    rows, title = view.report.tracing.annotations, "Under which annotation"
    if not rows:
        reason = "No tracing is inside an annotation."
        advice = (
            "`tpuprof.annotate_modules(model)` names each module; `with tpuprof.annotate(name):` any block."
        )
        return section(title, empty("No annotations", reason, advice))
    ordered = sorted(rows, key=lambda each: -each.exposed_ms_per_step)
    names = [f"{each.name} (backward)" if each.kind == "module_backward" else each.name for each in ordered]
    note = "Annotations nest, so their times do not add up."
    if len(rows) > MAX_ROWS:
        note += f" The {MAX_ROWS} longest of {len(rows)} are drawn."
    label = "Exposed and hidden tracing under each annotation; the table below has it"
    figure = _bars(names, ordered, view.template)
    return section(
        title,
        chart(figure, "tracing-annotations", label),
        table("tracing-annotations", _rows(ordered)),
        note=note,
    )


def _rows(items: list[TracingRow]) -> list[dict[str, Any]]:
    return rows_of(items, () if any(each.kind for each in items) else ("kind",))


def _bars(names: list[str], rows: list[TracingRow], template: str) -> Any:
    parts = [
        ("exposed", [each.exposed_ms_per_step for each in rows], *style_of("tracing")),
        ("hidden", [each.hidden_ms_per_step for each in rows], *_HIDDEN),
    ]
    return stacked_bars(names, parts, "ms per step", template)


def _input(view: View) -> Any:
    title = "How batches arrive"
    if not view.report.input:
        reason = "No host event of this trace makes, waits for or copies a batch."
        advice = "Annotate the loader: `with tpuprof.annotate('next batch'):`, or iterate a torch DataLoader."
        return section(title, empty("No input pipeline seen", reason, advice))
    rows = [
        {"host": each.host, "diagnosis": diagnosis_title(each.diagnosis), **row}
        for each, row in zip(view.report.input, rows_of(view.report.input, ("diagnosis",)), strict=True)
    ]
    note = "Batch ms: the median time to make one. Exposed: the device idles meanwhile."
    return section(title, table("input", rows), note=note)


def _fallbacks(view: View) -> Any:
    title = "Ops that run on the CPU instead"
    if not view.report.fallbacks:
        return section(title, empty("None seen", "No op of this run is recorded as falling back to the CPU."))
    rows = rows_of(view.report.fallbacks, names={"per_step": "times per step", "also": "further sources"})
    note = (
        "torch_xla has no lowering for these, so the graph is cut and the tensor copied to the host and back."
    )
    return section(title, table("fallbacks", rows), note=note)


PAGE = Page(
    "tracing",
    "Tracing & input",
    "What the host does while the device waits.",
    _render,
    changes=(changed_parts,),
    signals=(
        "tracing",
        "typical_tracing_ms",
        "tracing_hidden_ms",
        "host_stacks",
        "sampled_host_ms",
        "event_ms",
        "input_pipelines",
        "fallbacks",
    ),
)
