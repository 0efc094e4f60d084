"""What surrounds every page: header, menu, and what stands there while a run is read."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from tpuprof_dashboard.components.layout import predicted_note
from tpuprof_dashboard.pages.page import Page
from tpuprof_dashboard.security import MAX_UPLOAD_BYTES
from tpuprof_dashboard.state import State, page_search
from tpuprof_dashboard.words import run_labels

# How often a page asks whether its run has been read, and how often folders are looked at again (ms).
POLL_MS = 500
WATCH_MS = 4_000


def shell(names: list[str], *, watching: bool) -> Any:
    """The frame of all pages."""
    return dmc.MantineProvider(
        [
            html.A("Skip to the page", href="#page", className="tpu-skip"),
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="shown"),
            dcc.Download(id="download"),
            dcc.Interval(id="poll", interval=POLL_MS, disabled=True),
            dcc.Interval(id="watch", interval=WATCH_MS, disabled=not watching),
            html.Div(_frame(names), id="themed", **{"data-ag-theme-mode": "light"}),
        ],
        id="theme",
        forceColorScheme="light",
    )


def _frame(names: list[str]) -> Any:
    menu_bar = dmc.AppShellNavbar(html.Nav(id="menu", **{"aria-label": "Pages"}), p="xs")
    return dmc.AppShell(
        [_header(names), menu_bar, _main()],
        id="frame",
        header={"height": 64},
        navbar={"width": 210, "breakpoint": "sm", "collapsed": {"mobile": True}},
        padding="md",
    )


def _header(names: list[str]) -> Any:
    left = dmc.Group(
        [
            dmc.Burger(id="burger", hiddenFrom="sm", opened=False, size="sm", **{"aria-label": "Menu"}),
            dmc.Text("tpuprof", fw=700, size="lg", visibleFrom="sm"),
            dmc.Select(
                id="run",
                data=choices(names),
                allowDeselect=False,
                w=360,
                searchable=True,
                size="sm",
                placeholder="no run yet",
                **{"aria-label": "Run"},
                nothingFoundMessage="no such run",
            ),
        ],
        wrap="nowrap",
        style={"minWidth": 0},
    )
    upload = dcc.Upload(
        dmc.Tooltip(
            dmc.Button("Open a trace", variant="default", size="sm"),
            label=f"Choose a trace file, or drop one on the page; up to {MAX_UPLOAD_BYTES // 2**20} MiB",
        ),
        id="upload",
        max_size=MAX_UPLOAD_BYTES,
        multiple=False,
    )
    dark = dmc.Switch(id="dark", label="Dark", size="sm")
    right = dmc.Group([upload, dark], wrap="nowrap", visibleFrom="xs")
    return dmc.AppShellHeader(
        dmc.Group([left, right], h="100%", px="md", justify="space-between", wrap="nowrap")
    )


def choices(names: list[str]) -> list[dict[str, str]]:
    """The runs to choose from, by what tells them apart."""
    return [{"value": name, "label": label} for name, label in run_labels(names).items()]


def _main() -> Any:
    inside = [html.Div(id="notice", role="status"), html.Main(id="page", tabIndex=-1)]
    return dmc.AppShellMain(dmc.Container(inside, size="xl", px=0))


def menu(pages: tuple[Page, ...], state: State, counts: dict[str, int]) -> list[Any]:
    """Links to all pages; `counts` stand beside a page's title."""
    current = state.get("page", "overview")
    return [
        dmc.NavLink(
            label=page.title,
            href=page_search(state, page.key),
            refresh=False,
            active=page.key == current,
            rightSection=dmc.Badge(str(counts[page.key]), size="sm", variant="light", circle=True)
            if counts.get(page.key)
            else None,
            **({"aria-current": "page"} if page.key == current else {}),
        )
        for page in pages
        if page.in_menu
    ]


def page_head(page: Page, *, predicted: bool) -> list[Any]:
    """A page's title and what it answers; of a predicted run, that it is one."""
    head = [dmc.Title(page.title, order=2), dmc.Text(page.question, c="dimmed", mb="sm")]
    return [*head, predicted_note()] if predicted else head


def loading(name: str, done: float, doing: str, seconds: int) -> list[Any]:
    """What stands there while a run is read: how far it is (share), what is being done, and for how long."""
    lines = [dmc.Skeleton(height=height, mt="md", radius="sm") for height in (34, 90, 260, 120)]
    text = f"Reading {name}: {doing or 'waiting for others'} … {seconds} s"
    bar = dmc.Progress(
        value=round(100 * done), striped=True, animated=True, mt="xs", **{"aria-label": "Read"}
    )
    return [html.Div([html.Div(text, className="tpu-wrap"), bar], id="loading", role="status"), *lines]


def failed(name: str, message: str) -> list[Any]:
    """Why a run cannot be shown, in place of its page."""
    return [
        dmc.Alert(
            message, title=f"{name} cannot be shown", color="red", id="failure", className="tpu-wrap", mt="md"
        )
    ]


def nothing_yet() -> list[Any]:
    """What stands there while no run is in the watched folder."""
    text = (
        "No run is in the folder yet. Capture one into it, and it appears here: "
        "tpuprof capture -o FOLDER/NAME -- python train.py"
    )
    return [dmc.Alert(text, title="Waiting for a run", color="blue", id="waiting", mt="md")]
