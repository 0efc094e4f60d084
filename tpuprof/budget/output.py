"""What a check of a budget prints: rows for people, JUnit XML for CI servers, annotations for GitHub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from tpuprof.budget.check import Level, Result, Status
from tpuprof.shown_text import printable

if TYPE_CHECKING:
    from rich.console import Console

# Single values shown of one assertion (values).
VALUES_SHOWN = 10


def render(results: list[Result], console: Console) -> None:
    """Print one block an assertion: id, assertion, expected, found, all values; broken ones first."""
    from rich.text import Text

    for result in sorted(results, key=_weight):
        console.print(Text(printable(_head(result)), style=_style(result)))
        if result.status is Status.PASSED:
            continue
        console.print(Text(printable(f"    expected: {result.expected}")))
        console.print(Text(printable(f"       found: {result.found}")))
        if result.values:
            console.print(Text(printable(f"  all values: {_values(result)}")))
        if result.advice:
            console.print(Text(printable(f"              {result.advice}")))
        if result.place:
            console.print(Text(printable(f"          at: {result.place}")))
    console.print(summary(results))


def summary(results: list[Result]) -> str:
    """Counts in one line."""
    failed = sum(1 for each in results if each.fails)
    warned = sum(1 for each in results if each.status is not Status.PASSED and not each.fails)
    passed = len(results) - failed - warned
    return f"{failed} failed, {warned} warned, {passed} passed"


def junit(results: list[Result], source: str) -> str:
    """JUnit XML with one test case an assertion. It knows no warnings: those pass, and say so in their output."""
    failures = sum(1 for each in results if each.fails)
    root = ElementTree.Element("testsuites", tests=str(len(results)), failures=str(failures))
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name="tpuprof check",
        tests=str(len(results)),
        failures=str(failures),
        errors="0",
        skipped="0",
    )
    for result in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_xml(f"tpuprof.{source}"), name=_xml(_name(result)), time="0"
        )
        if result.fails:
            failure = ElementTree.SubElement(
                case, "failure", type=result.status.value, message=_xml(_message(result))
            )
            failure.text = _xml("\n".join(_lines(result)))
        elif result.status is not Status.PASSED:
            ElementTree.SubElement(case, "system-out").text = _xml("warning: " + "\n".join(_lines(result)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def github_annotations(results: list[Result], budget: Path, root: Path) -> list[str]:
    """A workflow command an assertion that does not hold, at the source line that caused it, else at the budget."""
    lines = []
    for result in results:
        if result.status is Status.PASSED:
            continue
        command = "error" if result.assertion.level is Level.ERROR else "warning"
        properties = _place(result, budget, root)
        properties.append(f"title={_property(f'tpuprof: {_name(result)}')}")
        lines.append(f"::{command} {','.join(properties)}::{_data(_message(result))}")
    return lines


def _place(result: Result, budget: Path, root: Path) -> list[str]:
    """Where GitHub shows an annotation: at the line that caused it, else at the budget, else at the run of CI alone."""
    if found := _within(result.place, root):
        return [f"file={_property(found[0])}", f"line={found[1]}"]
    file = _relative(budget, root)
    return [f"file={_property(file)}"] if file else []


def _weight(result: Result) -> int:
    return 0 if result.fails else 1 if result.status is not Status.PASSED else 2


def _style(result: Result) -> str:
    return ("bold red", "yellow", "green")[_weight(result)]


def _head(result: Result) -> str:
    word = ("FAIL", "WARN", "ok")[_weight(result)]
    if result.status is Status.PASSED:
        return f"{word:4}  {_name(result)}: {result.found}, expected {result.expected}"
    return f"{word:4}  {_name(result)}"


def _name(result: Result) -> str:
    return f"{result.assertion.id} {result.assertion.kind}"


def _message(result: Result) -> str:
    parts = [f"expected {result.expected}, found {result.found}"]
    if result.advice:
        parts.append(result.advice)
    return ". ".join(parts)


def _lines(result: Result) -> list[str]:
    lines = [f"expected: {result.expected}", f"found: {result.found}"]
    if result.values:
        lines.append(f"all values: {_values(result)}")
    return [
        *lines,
        *([result.advice] if result.advice else []),
        *([f"at {result.place}"] if result.place else []),
    ]


def _values(result: Result) -> str:
    shown = ", ".join(result.values[:VALUES_SHOWN])
    more = len(result.values) - VALUES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _within(place: str, root: Path) -> tuple[str, int] | None:
    """(path relative to the checkout, line) of a place inside it; GitHub shows no other files."""
    file, _, line = place.rpartition(":")
    if not file or not line.isdigit():
        return None
    path = Path(file)
    try:
        relative = path.resolve().relative_to(root.resolve()) if path.is_absolute() else path
    except ValueError:
        return None
    return (relative.as_posix(), int(line)) if (root / relative).is_file() else None


def _relative(path: Path, root: Path) -> str:
    """The path inside the checkout; empty for a budget elsewhere, as a profile is, of which GitHub shows no file."""
    if not path.is_file() or not path.resolve().is_relative_to(root.resolve()):
        return ""
    return path.resolve().relative_to(root.resolve()).as_posix()


def _xml(text: str) -> str:
    """XML 1.0 holds no control characters, escaped or not."""
    return "".join(
        char if char in "\n\t" or (char >= " " and char not in "\ufffe\uffff") else "\ufffd" for char in text
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
