"""Each compile: its cause, the user's frames, and what changed in the graph."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import html

from tpuprof.report.labels import cache_title, places_text
from tpuprof.units import format_ms
from tpuprof_dashboard.components.comparison import changed_times
from tpuprof_dashboard.components.layout import code, empty, facts, link, section
from tpuprof_dashboard.components.tables import GO, table
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.state import integer
from tpuprof_dashboard.words import UNAVAILABLE, capital, reason

if TYPE_CHECKING:
    from tpuprof.model.compile.hlo_difference import Difference
    from tpuprof.report.schema import CompileRow

# Lines of a difference sent to the browser at most.
_MAX_DIFF_LINES = 1_500
_SIGNS = {"added": "+", "removed": "-", "same": " ", "place": "@"}


def _render(view: View) -> list[Any]:
    compiles = view.report.compiles
    if not compiles:
        advice = "That is as it should be in steady training. To see first compiles, capture with --warmup 0."
        return [empty("No compiles", "Nothing was compiled during the capture.", advice), _cache(view)]
    chosen = integer(view.state, "compile")
    chosen = chosen if chosen is not None and 0 <= chosen < len(compiles) else 0
    rows = [{**_row(each), GO: view.here(compile=str(row))} for row, each in enumerate(compiles)]
    total = format_ms(view.report.run_summary.compile_ms)
    note = f"{len(compiles)} compiles, {total} in all" if len(compiles) != 1 else f"One compile, {total}"
    hosts = len({each.host for each in compiles})
    note += f", on {hosts} hosts together." if hosts > 1 else "."
    return [
        section("In this capture", table("compiles", rows, go_title="details"), note=note),
        _one(view, compiles[chosen]),
        _cache(view),
    ]


def _row(each: CompileRow) -> dict[str, Any]:
    cause = each.cause
    return {
        "step": each.step,
        "ms": each.duration_ms,
        "cause": cause.kind,
        "what changed": cause.detail,
        "source": places_text(cause.places),
        "compiled before": "yes" if each.novelty == "again" else "no",
        "graph hash": each.graph_hash,
        "program": each.program,
        "host": each.host,
    }


def _cache(view: View) -> Any:
    found, title = view.report.compilation_cache, "Persistent compilation cache"
    note = "Keeps compiled programs on disk, so that the next start of the same training compiles nothing."
    state = cache_title(found.status)
    if not state:
        why = capital(reason(found.detail) or "the run folder does not tell")
        advice = "`tpuprof capture -- python train.py` counts what it did."
        return section(title, empty("Unavailable", f"{why}.", advice), note=note)
    counts = [
        (name, UNAVAILABLE if count is None else f"{count:,}")
        for name, count in (("hits", found.hits), ("misses", found.misses), ("programs loaded", found.loads))
    ]
    rows = [("state", state), *counts]
    rows += [("folder", found.path)] if found.path else []
    rows += [("counted", found.detail)] if found.detail else []
    return section(title, facts("compilation-cache", rows), note=note)


def _one(view: View, each: CompileRow) -> Any:
    where = f"in step {each.step}" if each.step is not None else "outside any step"
    source = f" ({places_text(each.cause.places)})" if each.cause.places else ""
    parts = [
        dmc.Text(
            [
                dmc.Text("Cause: ", fw=600, span=True),
                f"{each.cause.kind}: {each.cause.detail}{source}" if each.cause.detail else each.cause.kind,
            ],
            className="tpu-wrap",
        ),
        link("show in timeline", view.timeline(each.host, each.start_ns, each.duration_ms)),
        dmc.Title("Python frames", order=3, size="h5", mt="md", mb=4),
        code("\n".join(each.frames), "frames") if each.frames else _no_frames(),
        dmc.Title("What changed in the graph", order=3, size="h5", mt="md", mb=4),
        _change(view, each),
    ]
    return section(f"The compile {where}: {format_ms(each.duration_ms)}", *parts)


def _no_frames() -> Any:
    return empty(
        "No frames",
        "The run folder does not say which line cut this graph.",
        "`tpuprof capture` records it.",
    )


def _change(view: View, each: CompileRow) -> Any:
    found = _difference(view, each)
    if isinstance(found, str):
        return empty("Graphs not compared", capital(reason(found)))
    if not found.lines:
        return empty("No difference", "The two graphs have the same lines, numbers of names aside.")
    # One component per block of lines of one kind, not per line: Dash's time grows with the square of their number.
    blocks = [
        html.Div("\n".join(f"{_SIGNS[kind]} {line.text}" for line in block), className=kind)
        for kind, block in groupby(found.lines[:_MAX_DIFF_LINES], key=attrgetter("kind"))
    ]
    text = f"Against the nearest earlier graph, optimized: {found.added:,} lines added, {found.removed:,} removed"
    if found.cut or len(found.lines) > _MAX_DIFF_LINES:
        text += "; only the beginning is shown"
    diff = html.Div(
        blocks, className="tpu-diff", tabIndex=0, role="region", **{"aria-label": "Difference of the graphs"}
    )
    return html.Div([dmc.Text(f"{text}.", size="sm", c="dimmed"), dmc.Paper(diff, withBorder=True, mt=4)])


def _difference(view: View, each: CompileRow) -> Difference | str:
    """The difference to the nearest earlier graph, or why there is none."""
    from tpuprof.model.compile.hlo_metadata import hlo_protos
    from tpuprof.model.compile.program_change import program_change

    if view.saved:
        return "only the trace holds the graphs, and this is a saved report: open the run itself to compare them."
    host = view.details.hosts.get(each.host) if view.details else None
    if host is None or host.host is None or host.run is None:
        return "unavailable: this host's trace could not be read."
    protos = dict(hlo_protos(host.host.trace))
    return program_change(each.program, each.start_ns, host.run.compiles, host.run.devices, protos)


PAGE = Page(
    "compiles",
    "Compiles",
    "What was compiled, why, and what changed.",
    _render,
    needs_details=True,
    keys=("compile",),
    changes=(changed_times,),
    signals=(
        "step_compiles",
        "compile_share",
        "startup_compiles",
        "startup_compile_seconds",
        "after_capture",
        "graphs_per_step",
        "compilation_cache",
    ),
)
