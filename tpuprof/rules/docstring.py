"""Reads a rule's page: its docstring's summary and fixed headings, with the programs that its advice is.

The same text is shown in the docs, on the command line, in the dashboard and in the JSON.
"""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tpuprof.model.host.vocabulary import PYTORCH
from tpuprof.records import record
from tpuprof.rules.programs import FRAMEWORKS, JAX, TORCH_TPU, TORCH_XLA, Advice, advice_of, how_checked

HEADINGS = (
    "What it detects",
    "Why it costs time",
    "Evidence",
    "How to fix",
    "How the fix was checked",
    "Limits and false positives",
    "References",
)
# The heading of each framework's advice. A rule without one has no advice for that framework.
FIXES = {
    TORCH_XLA: "How to fix",
    TORCH_TPU: "How to fix in TorchTPU",
    JAX: "How to fix in JAX",
    PYTORCH: "How to fix in PyTorch on GPUs",
}
CHECKED = "How the fix was checked"
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


# How a paragraph of advice, or of why a fault costs time, begins that is for one cause alone: `[gil] Move …`.
_CASE = re.compile(r"\[([a-z]+)\] ")
_CASES = re.compile(rf"^{_CASE.pattern}", re.MULTILINE)


@record(frozen=True)
class Remedy:
    """What to do in one framework: prose, and the lines of two programs that show it (may be empty).

    `paragraphs` has the prose in parts, each with the case that it is for, empty where it is for all.
    """

    text: str
    before: str = ""
    after: str = ""
    paragraphs: tuple[tuple[str, str], ...] = ()

    def text_for(self, cases: frozenset[str]) -> str:
        """The prose for a run that has these cases."""
        return " ".join(text for case, text in self.paragraphs if not case or case in cases) or self.text


class _Parts(NamedTuple):
    summary: str
    sections: dict[str, str]
    remedies: dict[str, Remedy]
    text: str


class Page:
    """A rule's text, from its docstring and from the programs in its folder; both are read when they are asked for.

    An analysis asks most rules for nothing but why their fault costs time.
    """

    def __init__(self, docstring: str, rule_id: str = "", folder: Path | None = None) -> None:
        self._docstring, self._rule_id, self._folder = docstring, rule_id, folder

    @cached_property
    def advice(self) -> dict[str, Advice]:
        """Its programs, by framework."""
        return advice_of(self._folder) if self._folder is not None else {}

    @cached_property
    def _parts(self) -> _Parts:
        return _read(self._docstring, self._rule_id, self.advice)

    @property
    def summary(self) -> str:
        """What stands above all headings."""
        return self._parts.summary

    @property
    def sections(self) -> dict[str, str]:
        """The text under each heading; headings that are missing stay missing, for tests to find."""
        return self._parts.sections

    @property
    def remedies(self) -> dict[str, Remedy]:
        """What to do, by framework."""
        return self._parts.remedies

    @property
    def text(self) -> str:
        """All of it."""
        return self._parts.text

    def why(self, cases: frozenset[str] = frozenset()) -> str:
        """Why the fault costs time in a run that has these cases, as one paragraph.

        A paragraph for one of them stands alone: it says what the others say of a run without it.
        """
        _, _, body = self._docstring.partition("## Why it costs time\n")
        found = _paragraphs(body.partition("\n## ")[0])
        own = [text for case, text in found if case in cases]
        return " ".join(own or [text for case, text in found if not case])

    @property
    def fix(self) -> str:
        """What to do in PyTorch/XLA, or in the one framework that has the fault."""
        return self._first.text

    @property
    def before(self) -> str:
        """The fault in PyTorch/XLA, or in the one framework that has it."""
        return self._first.before

    @property
    def after(self) -> str:
        """The same program without the fault."""
        return self._first.after

    @property
    def _first(self) -> Remedy:
        return self.remedies.get(TORCH_XLA) or next(iter(self.remedies.values()), self.remedy(TORCH_XLA))

    def remedy(self, framework: str) -> Remedy:
        """What to do in the framework of a run; where none is known, or two are, what to do in PyTorch/XLA."""
        known = [name for name in FRAMEWORKS if name in framework.split(", ")]
        name = known[0] if known else TORCH_XLA if framework in ("unknown", "") else framework
        title = FRAMEWORKS[name][0] if name in FRAMEWORKS else "PyTorch on GPUs" if name == PYTORCH else name
        return self.remedies.get(name) or Remedy(f"There is no advice for {title} yet.")


def _read(docstring: str, rule_id: str, programs: dict[str, Advice]) -> _Parts:
    text = inspect.cleandoc(docstring)
    summary, *rest = _HEADING.split(text)
    written = {heading: body.strip("\n") for heading, body in zip(rest[::2], rest[1::2], strict=True)}
    sections, remedies = {}, {}
    for heading, body in written.items():
        sections[heading] = _CASES.sub("", body)
        framework = next((name for name, each in FIXES.items() if each == heading), None)
        if framework:
            remedy = _remedy(body, programs.get(framework))
            remedies[framework] = remedy
            sections[heading] = _with_code(body, remedy)
        if heading == "Limits and false positives":
            # Moved below: what was checked stands before what the rule cannot know.
            limits = sections.pop(heading)
            sections[CHECKED] = "\n\n".join(how_checked(rule_id, each) for each in programs.values())
            sections[heading] = limits
    body = "".join(f"\n\n## {heading}\n\n{section}" for heading, section in sections.items())
    return _Parts(summary.strip(), sections, remedies, f"{summary.strip()}{body}")


def _remedy(body: str, advice: Advice | None) -> Remedy:
    found = _paragraphs(body)
    text = " ".join(each for _, each in found)
    before, after = (advice.before.shown, advice.after.shown) if advice else ("", "")
    return Remedy(text, before, after, tuple(found))


def _paragraphs(body: str) -> list[tuple[str, str]]:
    return [_paragraph(" ".join(each.split())) for each in body.split("\n\n")]


def _paragraph(text: str) -> tuple[str, str]:
    """The case that a paragraph begins with, empty where it is for all, and the rest: `x[mask] = v` is code."""
    case = _CASE.match(text)
    return (case.group(1), text[case.end() :]) if case else ("", text)


def _with_code(body: str, remedy: Remedy) -> str:
    blocks = [
        f"\n\n{label}:\n\n" + "\n".join(f"    {line}".rstrip() for line in code.splitlines())
        for label, code in (("Before", remedy.before), ("After", remedy.after))
        if code
    ]
    return _CASES.sub("", body) + "".join(blocks)
