"""All pages, in the order of the menu."""

from __future__ import annotations

from tpuprof_dashboard.pages import compiles, findings, ops, overview, timeline
from tpuprof_dashboard.pages.page import Page

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    findings.PAGE,
    timeline.PAGE,
    compiles.PAGE,
    ops.PAGE,
)
BY_KEY = {page.key: page for page in PAGES}
