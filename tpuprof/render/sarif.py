"""Findings by source line as SARIF 2.1.0, which GitHub code scanning and editors show beside the code."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from tpuprof.render.savings import saved_amount
from tpuprof.report.schema import Finding, Report

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_PAGES = "https://github.com/tpuprof/tpuprof/blob/main/docs/rules"
# From this share of a step on a finding is a warning, below it a note (share). `any` of the profile for pull requests
# fails from the same share.
WARNING_FROM = 0.10
# Places of one finding that are listed (places): code scanning shows ten.
MOST_PLACES = 10


def render_sarif(report: Report, root: Path | None = None) -> str:
    """Failed findings, one result each at the lines of its evidence; paths below `root` are relative to it.

    Findings without a line cannot be shown in code: `properties.without_line` of the run lists them.
    """
    base = (root or Path.cwd()).resolve()
    failed = [each for each in report.findings if each.status == "failed"]
    placed = [(each, places) for each in failed if (places := _places(each, base))]
    shown = {each.rule for each, _ in placed}
    driver = {
        "name": "tpuprof",
        "version": report.generator.get("version", ""),
        "informationUri": "https://github.com/tpuprof/tpuprof",
        "rules": [_rule(each) for each, _ in placed],
    }
    run = {
        "tool": {"driver": driver},
        "results": [_result(each, places, at, base) for at, (each, places) in enumerate(placed)],
        "properties": {
            "verdict": _relative(report.verdict.sentence, base),
            "without_line": [each.rule for each in failed if each.rule not in shown],
        },
    }
    return (
        json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, allow_nan=False) + "\n"
    )


def _rule(finding: Finding) -> dict[str, Any]:
    text = finding.fix.text if finding.fix else finding.why
    return {
        "id": finding.rule,
        "shortDescription": {"text": finding.rule.replace("-", " ")},
        "fullDescription": {"text": finding.why},
        "help": {"text": text},
        "helpUri": f"{_PAGES}/{finding.rule}.md",
        "properties": {"tags": ["performance", finding.category]},
    }


def _result(finding: Finding, places: list[tuple[str, int]], index: int, base: Path) -> dict[str, Any]:
    saving = f" A fix saves {saved_amount(finding.savings)}." if finding.savings else ""
    mark = f"{finding.rule}\0{places[0][0]}"
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": "warning" if finding.severity >= WARNING_FROM else "note",
        "message": {"text": _relative(f"{finding.title}.{saving}", base)},
        "locations": [_location(*place) for place in places[:1]],
        "relatedLocations": [{"id": at, **_location(*place)} for at, place in enumerate(places[1:], 1)],
        # The same finding of the same file stays the same alert when lines move.
        "partialFingerprints": {"tpuprof/v1": hashlib.sha256(mark.encode()).hexdigest()[:32]},
    }


def _places(finding: Finding, base: Path) -> list[tuple[str, int]]:
    """Distinct places of the evidence, those of the project itself first."""
    found = dict.fromkeys(
        place
        for each in finding.evidence
        for line in each.places
        if (place := _place(line, base)) is not None
    )
    return sorted(found, key=lambda place: place[0].startswith("file:"))[:MOST_PLACES]


def _place(source: str, base: Path) -> tuple[str, int] | None:
    file, _, line = source.rpartition(":")
    if not file or not line.isdigit() or int(line) < 1:
        return None
    path = Path(file)
    try:
        own = PurePosixPath(path.resolve().relative_to(base)) if path.is_absolute() else PurePosixPath(path)
    except (ValueError, OSError):
        return "file://" + quote(file), int(line)
    return quote(str(own)), int(line)


def _relative(text: str, base: Path) -> str:
    """A sentence with its paths below `base` relative to it, as the locations are."""
    if base == Path(base.anchor):
        return text
    # At the beginning of a path: `/tmp/` stands within `/var/tmp/` as well.
    return re.sub(rf"(?<![\w.~/-]){re.escape(str(base))}/", "", text)


def _location(uri: str, line: int) -> dict[str, Any]:
    place: dict[str, Any] = {"uri": uri}
    if not uri.startswith("file:"):
        place["uriBaseId"] = "%SRCROOT%"
    return {"physicalLocation": {"artifactLocation": place, "region": {"startLine": line}}}
