"""What came out of one program, kept in a file of its own so that a broken-off run goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runner.execute import ROOT, fingerprint
from runner.judge import Answer
from runner.truth import Truth

RESULTS = ROOT / "artifacts" / "zoo"


@dataclass
class Result:
    """What was measured of one program; what its cures save and what tpuprof costs it are in files of their own."""

    name: str
    # Hash of the program that was run: a result of another version of it is not kept.
    program: str = ""
    word: str = ""
    faults: list[str] = field(default_factory=list)
    skipped: str = ""
    answer: Answer | None = None
    own_ms: float | None = None
    # Mean of the captured steps by the program's own clock.
    captured_ms: float | None = None
    # Revision of tpuprof, machine, versions of the libraries.
    revision: str = ""
    machine: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    load: float = 0.0

    def save(self) -> None:
        """Write it to its file."""
        folder = RESULTS / self.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_text(json.dumps(asdict(self), indent=1), "utf-8")


def kept(truth: Truth) -> Result | None:
    """The kept result of a program, if there is one of the program as it is now."""
    path: Path = RESULTS / truth.name / "result.json"
    if not path.is_file():
        return None
    told = json.loads(path.read_text("utf-8"))
    if told.get("program") != fingerprint(truth):
        return None
    answer = told.pop("answer")
    return Result(answer=Answer(**answer) if answer else None, **told)


def keep(truth: Truth, name: str, told: Mapping[str, Any]) -> None:
    """Keep what was measured of a program in a file of that name; `program` in it says which version it is of."""
    place = RESULTS / truth.name / f"{name}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(told), "utf-8")


def told_of(truth: Truth, name: str, version: str = "") -> dict[str, Any] | None:
    """What is kept in that file, if it is of the program as it is now; `version` says more of that than its files."""
    place = RESULTS / truth.name / f"{name}.json"
    if not place.is_file():
        return None
    told: dict[str, Any] = json.loads(place.read_text("utf-8"))
    return told if told["program"] == (version or fingerprint(truth)) else None
