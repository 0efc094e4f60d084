"""Analyzes the capture of an anomaly in a process of its own, and writes the verdict beside it.

python -m tpuprof.watch.analysis FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tpuprof.json_notes import read_json
from tpuprof.run_folder import REPORT, VERDICT


def write_verdict(where: Path, facts: dict[str, Any]) -> None:
    """Add facts to the verdict in a capture's folder. Raises `OSError`."""
    found = read_verdict(where) | facts
    scratch = where / f"{VERDICT}.tmp"
    scratch.write_text(json.dumps(found, indent=1), "utf-8")
    scratch.replace(where / VERDICT)


def read_verdict(where: Path) -> dict[str, Any]:
    """The verdict in a capture's folder, empty where there is none."""
    try:
        found = read_json(where / VERDICT)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def main(folder: str) -> None:
    """Analyze what was captured; what cannot be analyzed says why."""
    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.errors import TpuprofError
    from tpuprof.report.as_json import to_json

    where = Path(folder)
    try:
        report = analyze_run(where)
    except TpuprofError as error:
        write_verdict(where, {"capture": None, "why_no_capture": str(error)})
        return
    (where / REPORT).write_text(to_json(report), "utf-8")
    failed = [each for each in report.findings if each.status == "failed"]
    findings = [{"rule": each.rule, "title": each.title} for each in failed[:3]]
    write_verdict(where, {"capture": report.verdict.sentence, "findings": findings})


if __name__ == "__main__":
    main(sys.argv[1])
