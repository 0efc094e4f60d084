"""What stands around the timeline: host, step and zoom controls that work from the keyboard, and other viewers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import dcc, html

from tpuprof.render.content import failed_findings
from tpuprof_dashboard.components.layout import code, current, empty, link, section
from tpuprof_dashboard.viewers import logdir_of, missing_viewer

if TYPE_CHECKING:
    from tpuprof_dashboard.pages.page import View
    from tpuprof_dashboard.reading import HostDetails

MOVES = (("in", "Zoom in"), ("out", "Zoom out"), ("left", "Earlier"), ("right", "Later"), ("all", "All"))


def controls(view: View, hosts: list[str], host: str) -> Any:
    """Buttons that move the window, the choice of a step, and of a host where there are several."""
    buttons = [
        dmc.Button(title, id=f"move-{key}", size="compact-sm", variant="default") for key, title in MOVES
    ]
    steps = [each for each in view.report.steps.per_step if each.host == host]
    parts: list[Any] = [dmc.Group(buttons, gap=4)]
    if steps:
        data = [{"value": str(row), "label": f"step {each.index}"} for row, each in enumerate(steps)]
        parts.append(
            dmc.Select(
                id="go-step",
                data=data,
                placeholder="Go to a step",
                searchable=True,
                size="xs",
                w=160,
                limit=200,
            )
        )
    if len(hosts) > 1:
        parts += [
            link(
                name,
                view.here(host=name, lanes=None, finding=None),
                fw=700 if name == host else 400,
                **current(name == host),
            )
            for name in hosts
        ]
    return dmc.Group(parts, gap="md", mb="xs")


def finding_chips(view: View) -> Any:
    """The findings that can be seen in the run: choosing one marks all its spans and zooms to them."""
    shown = [(each, view.finding_in_timeline(each)) for each in failed_findings(view.report)]
    links = [
        link(
            each.title,
            where,
            fw=700 if view.state.get("finding") == each.rule else 400,
            className="tpu-chip",
            **current(view.state.get("finding") == each.rule),
        )
        for each, where in shown
        if where is not None
    ]
    if not links:
        return None
    title = dmc.Text("Findings seen here", size="sm", c="dimmed")
    return html.Nav(dmc.Group([title, *links], gap="xs", mb="xs"), **{"aria-label": "Findings"})


def lane_choice(host: HostDetails, shown: list[str]) -> Any:
    """The lanes of a host to choose from; `shown` are the keys of those drawn."""
    data = [{"value": each.key, "label": f"{each.title} ({each.events:,})"} for each in host.lanes]
    return dmc.MultiSelect(
        id="lanes",
        data=data,
        value=shown,
        label="Lanes",
        searchable=True,
        clearable=True,
        maxDropdownHeight=320,
        limit=200,
        description="Threads and device queues to draw; none chosen draws the usual ones.",
    )


def saved_note() -> Any:
    """What a report without its trace can draw."""
    return empty(
        "What a saved report can draw",
        "Steps, what bound each, compiles, and where findings are seen. Host threads, device queues, annotations and "
        "every single event are in the trace alone: open the run itself to see them.",
    )


def elsewhere(path: Path, *, may_start: bool) -> Any:
    """How to open the same trace in other viewers. `may_start` says that whoever asks sits at this machine."""
    note = (
        "Perfetto shows every event of this window. “Open in Perfetto” opens ui.perfetto.dev in a tab of its own and "
        "hands it the events there, in the browser: they are not uploaded. Offline, download them for a Perfetto of "
        "your own. Nothing else on these pages leads to another site."
    )
    buttons = [
        dmc.Button("Open in Perfetto", id="perfetto-open", size="compact-sm", variant="default"),
        dmc.Button("Download for Perfetto", id="perfetto", size="compact-sm", variant="default"),
    ]
    return section(
        "Open elsewhere",
        dmc.Text(note, size="sm", maw=900),
        dmc.Group(buttons, gap="xs", my="xs"),
        html.Div(id="perfetto-note", role="status"),
        dcc.Store(id="perfetto-wanted"),
        dcc.Store(id="perfetto-data"),
        dcc.Download(id="perfetto-download"),
        *_tensorboard(path, may_start=may_start),
    )


def _tensorboard(path: Path, *, may_start: bool) -> list[Any]:
    folder, missing = logdir_of(path), missing_viewer()
    if folder is None:
        return [dmc.Text("XProf reads run folders; this trace is in none.", size="sm", mt="sm")]
    # The button is always there, so that its callback finds it.
    button = dmc.Button(
        "Open in XProf (TensorBoard)",
        id="tensorboard",
        size="compact-sm",
        variant="default",
        my="xs",
        disabled=bool(missing) or not may_start,
    )
    if missing:
        text = f"XProf in TensorBoard is {missing}. Where it is, this opens the run:"
    elif not may_start:
        text = "XProf in TensorBoard is started by whoever sits at the dashboard's machine:"
    else:
        text = "Or, with tpuprof's verdict and step times beside the profile:"
    command = f"tpuprof tensorboard {shlex.quote(str(folder))}"
    return [
        button,
        html.Div(id="tensorboard-note", role="status"),
        dmc.Text(text, size="sm"),
        code(command, "tensorboard-command"),
    ]
