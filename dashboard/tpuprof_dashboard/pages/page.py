"""What a page is, and what it is given to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuprof.units import NS_PER_MS
from tpuprof_dashboard.state import State, names_in, page_search, search_of
from tpuprof_dashboard.timeline_view import around

if TYPE_CHECKING:
    from dash import Dash

    from tpuprof.compare.diff import Comparison
    from tpuprof.report.schema import Finding, Report
    from tpuprof_dashboard.reading import Details
    from tpuprof_dashboard.store import Store

# The parameter that names the rows of a page that are open.
OPEN = "open"


@dataclass(frozen=True)
class View:
    """One run as a page sees it: the URL's state, the run's name and Report, and the store for other runs.

    `details` is None on pages that do not need them. `theme` is `light` or `dark`. `saved` says that
    the run is a saved report, without its trace. `against` is what changed since the base run, None without one.
    """

    state: State
    name: str
    report: Report
    store: Store
    details: Details | None = None
    saved: bool = False
    theme: str = "light"
    against: Comparison | None = None

    @property
    def template(self) -> str:
        """The figure template of the theme."""
        return "mantine_dark" if self.theme == "dark" else "mantine_light"

    def go(self, page: str, **changes: str | None) -> str:
        """The query of another page of this run."""
        return page_search({**self.state, "run": self.name}, page, **changes)

    def here(self, **changes: str | None) -> str:
        """The query of this page with changes."""
        return search_of({**self.state, "run": self.name}, **changes)

    def timeline(self, host: str, start_ns: int, duration_ms: float, *, mark: bool = True) -> str:
        """The query of the timeline around a span, which is marked."""
        start, end = around(start_ns, duration_ms)
        marked = f"{start_ns}-{start_ns + max(round(duration_ms * NS_PER_MS), 1)}" if mark else None
        return self.go("timeline", host=host, start=str(start), end=str(end), mark=marked)

    def opened(self, known: list[str]) -> list[str]:
        """Which of these rows the address names as open."""
        named = names_in(self.state, OPEN)
        return [each for each in known if each in named]

    def finding_in_timeline(self, finding: Finding) -> str | None:
        """The query of the timeline around all spans of a finding on one host, None where it has none."""
        placed = [each for each in finding.evidence if each.start_ns is not None]
        if not placed:
            return None
        host = placed[0].host or next((row.host for row in self.report.steps.per_step), "")
        spans = [(each.start_ns or 0, each.duration_ms or 0.0) for each in placed if each.host in ("", host)]
        first = min(start for start, _ in spans)
        last = max(start + round(ms * NS_PER_MS) for start, ms in spans)
        start, end = around(first, (last - first) / NS_PER_MS)
        return self.go("timeline", host=host, start=str(start), end=str(end), finding=finding.rule)


@dataclass(frozen=True)
class Page:
    """A page: its key in the URL, its title, one line on what it answers, and how it is made.

    `render` makes it of a run, `of_store` of what lies in the open folders, where no run needs to be. `keys` are the
    URL's parameters that change its layout. `register` adds its own callbacks. A page not `in_menu` is reached by
    links. With a base run chosen, a page that `compares` says what changed since it, and ends with the sections that
    `changes` make of the comparison and the figure template. `signals` names what its figures are made from.
    """

    key: str
    title: str
    question: str
    render: Callable[[View], list[Any]] = lambda _view: []
    of_store: Callable[[Store], list[Any]] | None = None
    needs_details: bool = False
    keys: tuple[str, ...] = ()
    register: Callable[[Dash, Store], None] | None = None
    in_menu: bool = True
    compares: bool = True
    changes: tuple[Callable[[Comparison, str], Any], ...] = ()
    signals: tuple[str, ...] = ()
