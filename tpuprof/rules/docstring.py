"""Reads a rule's docstring: a summary and fixed headings, the same text for docs, command line and JSON."""

from __future__ import annotations

import inspect
import re

from tpuprof.records import dataclass

HEADINGS = (
    "What it detects",
    "Why it costs time",
    "Evidence",
    "How to fix",
    "Limits and false positives",
    "References",
)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_CODE = re.compile(r"^(Before|After):\n\n((?:(?:    .*)?\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A rule's text. `sections` is by heading; `fix`, `before` and `after` are the parts of how to fix it."""

    summary: str
    sections: dict[str, str]
    fix: str
    before: str
    after: str
    text: str

    @property
    def why(self) -> str:
        """Why the fault costs time, as one paragraph."""
        return " ".join(self.sections.get("Why it costs time", "").split())


def read_page(docstring: str) -> Page:
    """The page in a docstring; headings that are missing stay missing, for the registry's tests to find."""
    text = inspect.cleandoc(docstring)
    summary, *rest = _HEADING.split(text)
    sections = {heading: body.strip("\n") for heading, body in zip(rest[::2], rest[1::2], strict=True)}
    how = sections.get("How to fix", "") + "\n"
    code = {label: inspect.cleandoc("\n" + block) for label, block in _CODE.findall(how)}
    fix = " ".join(_CODE.sub("", how).split())
    return Page(summary.strip(), sections, fix, code.get("Before", ""), code.get("After", ""), text)
