"""What stands around the timeline: host, step and zoom controls that work from the keyboard, and other viewers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import html

from tpuprof_dashboard.components.layout import code, link, section

if TYPE_CHECKING:
    from tpuprof_dashboard.pages.page import View

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
            link(name, view.here(host=name, lanes=None), fw=700 if name == host else 400) for name in hosts
        ]
    return dmc.Group(parts, gap="md", mb="xs")


def _run_folder(path: Path) -> Path:
    """The folder that TensorBoard wants: the one above `plugins`."""
    return next((each.parent for each in (path, *path.parents) if each.name == "plugins"), path)


def elsewhere(path: Path) -> Any:
    """How to open the same trace in other viewers."""
    command = f"tpuprof tensorboard {shlex.quote(str(_run_folder(path)))}"
    perfetto = (
        "Perfetto shows every event of this window: download it as Chrome JSON, then choose “Open trace file” in the "
        "Perfetto UI (ui.perfetto.dev, or one you host). This page itself contacts no other site."
    )
    return section(
        "Open elsewhere",
        dmc.Text(perfetto, size="sm", maw=900),
        dmc.Button("Download for Perfetto", id="perfetto", size="compact-sm", variant="default", my="xs"),
        html.Div(id="perfetto-note"),
        dmc.Text("XProf and TensorBoard, where installed, open the run folder:", size="sm", mt="sm"),
        code(command, "tensorboard-command"),
    )
