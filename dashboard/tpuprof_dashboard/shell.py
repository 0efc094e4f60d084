"""What surrounds every page: header, menu, and what stands there while a run is read."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from tpuprof_dashboard.components.asking import asking
from tpuprof_dashboard.components.layout import predicted_note
from tpuprof_dashboard.pages.page import Page
from tpuprof_dashboard.routes import ALIVE, UPLOAD
from tpuprof_dashboard.state import State, page_search, search_of
from tpuprof_dashboard.uploads import MAX_UPLOAD_BYTES
from tpuprof_dashboard.words import short

# How often a page asks whether its run has been read, and how often folders are looked at again (ms).
POLL_MS = 500
WATCH_MS = 4_000


def shell(labels: dict[str, str], *, watching: bool) -> Any:
    """The frame of all pages."""
    return dmc.MantineProvider(
        [
            html.A("Skip to the page", href="#page", className="tpu-skip"),
            dcc.Location(id="url", refresh=False),
            *(dcc.Store(id=each) for each in ("shown", "title", "goto", "os-dark", "uploaded", "announced")),
            dcc.Download(id="download"),
            *asking("poll", POLL_MS, disabled=True),
            *asking("watch", WATCH_MS, disabled=not watching),
            html.Div(_frame(labels), id="themed", **{"data-ag-theme-mode": "light", "data-alive": ALIVE}),
        ],
        id="theme",
        defaultColorScheme="auto",
    )


def _frame(labels: dict[str, str]) -> Any:
    menu_bar = dmc.AppShellNavbar(html.Nav(id="menu", **{"aria-label": "Pages"}), p="xs")
    return dmc.AppShell(
        [_header(labels), menu_bar, _main()],
        id="frame",
        header={"height": 64},
        navbar={"width": 210, "breakpoint": "sm", "collapsed": {"mobile": True}},
        padding="md",
    )


def _header(labels: dict[str, str]) -> Any:
    shared = {
        "data": choices(labels),
        "searchable": True,
        "size": "sm",
        "nothingFoundMessage": "no such run",
    }
    run = dmc.Select(
        id="run",
        allowDeselect=False,
        w={"base": 200, "sm": 300, "lg": 360},
        placeholder="no run yet",
        **{"aria-label": "Run"},
        **shared,
    )
    base = dmc.Select(
        id="base",
        clearable=True,
        w={"md": 220, "lg": 300},
        placeholder="compare with a base run",
        visibleFrom="md",
        **{"aria-label": "Base"},
        **shared,
    )
    menu = dmc.Burger(id="burger", hiddenFrom="sm", opened=False, size="sm", **{"aria-label": "Menu"})
    name = dmc.Text("tpuprof", fw=700, size="lg", visibleFrom="sm")
    left = dmc.Group([menu, name, run, base], wrap="nowrap", style={"minWidth": 0})
    dark = dmc.Switch(id="dark", label="Dark", size="sm")
    right = dmc.Group([_upload(), dark], wrap="nowrap", visibleFrom="xs")
    return dmc.AppShellHeader(
        dmc.Group([left, right], h="100%", px="md", justify="space-between", wrap="nowrap")
    )


def _upload() -> Any:
    button = dmc.Button(
        "Open a trace",
        id="upload",
        variant="default",
        size="sm",
        **{"data-most": str(MAX_UPLOAD_BYTES), "data-to": UPLOAD},
    )
    return dmc.Tooltip(
        button,
        withinPortal=False,
        label="Choose a trace, a saved report or a ticket bundle, or drop one on the page; "
        f"up to {MAX_UPLOAD_BYTES // 2**20} MiB",
    )


def choices(labels: dict[str, str]) -> list[dict[str, str]]:
    """The runs to choose from."""
    return [{"value": name, "label": label} for name, label in labels.items()]


def _main() -> Any:
    inside = [html.Div(id="notice", role="status"), html.Div(id="page", tabIndex=-1)]
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
    head = [dmc.Title(page.title, order=1, size="h2"), dmc.Text(page.question, c="dimmed", mb="sm")]
    return [*head, predicted_note()] if predicted else head


def loading(name: str, done: float, doing: str, seconds: int) -> list[Any]:
    """What stands there while a run is read: how far it is (share), what is being done, and for how long."""
    lines = [dmc.Skeleton(height=height, mt="md", radius="sm") for height in (34, 90, 260, 120)]
    title = dmc.Title(f"Reading {short(name)}", order=1, size="h3", className="tpu-wrap")
    text = f"{doing or 'waiting for others'} … {seconds} s"
    bar = dmc.Progress(
        value=round(100 * done), striped=True, animated=True, mt="xs", **{"aria-label": "Read"}
    )
    return [title, html.Div([html.Div(text, className="tpu-wrap"), bar], id="loading", role="status"), *lines]


def failed(name: str, message: str) -> list[Any]:
    """Why a run cannot be shown, in place of its page."""
    title = dmc.Title("This run cannot be shown", order=1, size="h3")
    return [
        title,
        dmc.Alert(message, title=short(name), color="red", id="failure", className="tpu-wrap", mt="md"),
    ]


def nothing_yet() -> list[Any]:
    """What stands there while no run is in the watched folder."""
    text = (
        "No run is in the folder yet. Capture one into it, and it appears here: "
        "tpuprof capture -o FOLDER/NAME -- python train.py"
    )
    title = dmc.Title("Waiting for a run", order=1, size="h3")
    return [title, dmc.Alert(text, color="blue", id="waiting", mt="md")]


def uploaded_note() -> Any:
    """Of an upload: how long it is kept, and a button that removes it."""
    remove = dmc.Button("Remove this upload", id="remove-upload", variant="default", size="compact-sm")
    text = dmc.Text("Uploaded. It is kept until you remove it or the dashboard ends.", size="sm")
    return dmc.Group([text, remove], gap="sm", my="xs")


def new_runs(labels: dict[str, str], state: State) -> Any:
    """Says that runs have appeared, with links that open them."""
    kept = {key: value for key, value in state.items() if key in ("page", "theme")}
    links = [
        dmc.Anchor(short(label), href=search_of(kept, run=name), refresh=False, size="sm")
        for name, label in labels.items()
    ]
    title = "A new run has appeared" if len(links) == 1 else f"{len(links)} new runs have appeared"
    return dmc.Alert(dmc.Group(links, gap="md"), title=title, color="blue", mb="md", id="new-runs")
