"""A rule's page as components: its text's paragraphs, lists, code and references, never as markup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import html

from tpuprof_dashboard.components.layout import code, section

if TYPE_CHECKING:
    from tpuprof.rules.base import Rule

_CODE_INDENT = "    "


def rule_text(rule: Rule, *said: Any) -> list[Any]:
    """The summary, what is said of the run shown, and every section of a rule's page."""
    about = f"Category {rule.category} · {rule.status} · rule {rule.id}"
    head = [dmc.Text(rule.page.summary, fw=600, maw=900), dmc.Text(about, size="sm", c="dimmed", mt=4)]
    return [*head, *said, *(section(title, *_blocks(text)) for title, text in rule.page.sections.items())]


def _blocks(text: str) -> list[Any]:
    parts: list[Any] = []
    for number, (indented, lines) in enumerate(_runs(text)):
        if indented:
            shown = "\n".join(line.removeprefix(_CODE_INDENT) for line in lines).strip("\n")
            parts.append(code(shown, f"rule-code-{number}-{abs(hash(shown))}"))
        elif all(line.startswith(("- ", "  ")) for line in lines):
            parts.append(dmc.List([dmc.ListItem(_linked(item)) for item in _items(lines)], mb="xs"))
        else:
            parts.append(dmc.Text(" ".join(lines), maw=900, mb="xs", className="tpu-wrap"))
    return parts


def _runs(text: str) -> list[tuple[bool, list[str]]]:
    """Blocks between blank lines, each with whether it is code; blank lines inside code belong to it."""
    found: list[tuple[bool, list[str]]] = []
    fresh = True
    for line in text.splitlines():
        if not line.strip():
            fresh = True
            continue
        indented = line.startswith(_CODE_INDENT)
        if found and found[-1][0] and indented:
            found[-1][1].extend(([""] if fresh else []) + [line])
        elif fresh or found[-1][0] != indented:
            found.append((indented, [line]))
        else:
            found[-1][1].append(line)
        fresh = False
    return found


def _items(lines: list[str]) -> list[str]:
    items: list[str] = []
    for line in lines:
        if line.startswith("- "):
            items.append(line[2:])
        else:
            items[-1] += " " + line.strip()
    return items


def _linked(text: str) -> Any:
    """A reference; an address leads there in a tab of its own, and only when it is chosen."""
    if not text.startswith("https://") or " " in text:
        return text
    return html.A(text, href=text, target="_blank", rel="noopener noreferrer")
