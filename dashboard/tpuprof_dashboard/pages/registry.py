"""All pages, in the order of the menu."""

from __future__ import annotations

from tpuprof_dashboard.pages import (
    compare,
    compiles,
    findings,
    goodput,
    hosts,
    job,
    memory,
    ops,
    overview,
    rule,
    scan,
    steps,
    timeline,
    tracing,
    transfers,
)
from tpuprof_dashboard.pages.page import Page

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    findings.PAGE,
    timeline.PAGE,
    steps.PAGE,
    tracing.PAGE,
    compiles.PAGE,
    ops.PAGE,
    transfers.PAGE,
    memory.PAGE,
    scan.PAGE,
    hosts.PAGE,
    job.PAGE,
    goodput.PAGE,
    compare.PAGE,
    rule.PAGE,
)
BY_KEY = {page.key: page for page in PAGES}
