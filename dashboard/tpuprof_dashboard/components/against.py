"""What a page shows of the changes since the base run: one sentence at its top, its own part of them at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc

from tpuprof.compare.decision import Outcome
from tpuprof.compare.diff import Comparison
from tpuprof_dashboard.components.comparison import COLOURS
from tpuprof_dashboard.components.layout import link
from tpuprof_dashboard.state import names_text
from tpuprof_dashboard.store import Failure

if TYPE_CHECKING:
    from tpuprof_dashboard.pages.page import Page, View
    from tpuprof_dashboard.store import Loading

# The parameter that names the base run.
BASE = "base"


def wanted_base(state: dict[str, str], page: Page) -> str:
    """The base run that a page compares its run with; empty where there is none, or the run is the base itself."""
    base = state.get(BASE, "")
    return base if page.compares and base != state.get("run") else ""


def base_note(found: Comparison | Failure | Loading, label: str, view: View) -> Any:
    """What changed since the base, in a sentence, with a link to all of it."""
    title = f"Against the base, {label}"
    if isinstance(found, Failure):
        return dmc.Alert(found.message, title=title, color="red", id="against", className="tpu-wrap", my="xs")
    if not isinstance(found, Comparison):
        return dmc.Alert(
            "Both runs are read and compared …", title=title, color="gray", id="against", my="xs"
        )
    # On the page of comparisons the run that is chosen is the base.
    whole = view.go("compare", run=view.state.get(BASE), **{BASE: None, "with": names_text([view.name])})
    inside = [dmc.Text(found.sentence, size="sm", className="tpu-wrap"), link("All that changed", whole)]
    return dmc.Alert(inside, title=title, color=COLOURS[found.outcome], id="against", my="xs", py="xs")


def changes_shown(found: Comparison | Failure | Loading | None, page: Page, template: str) -> list[Any]:
    """The page's own part of what changed; nothing where the runs do not compare."""
    if not isinstance(found, Comparison) or found.outcome is Outcome.UNFAIR or not page.changes:
        return []
    title = dmc.Title("What changed since the base", order=2, size="h3", mt="xl", id="changes")
    return [title, *(make(found, template) for make in page.changes)]
