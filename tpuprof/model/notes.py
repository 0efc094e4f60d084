"""Text that torch_xla left beside a profile: PT_XLA_DEBUG output and metrics reports in the run folder."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Any

from tpuprof.decode.debug_text import DebugCompile, parse_debug_text
from tpuprof.decode.metrics_report import parse_metrics_report
from tpuprof.records import record
from tpuprof.run_folder import NOTES

# Longer text is read to this point: a log of days would cost more than it tells (bytes).
MAX_TEXT = 64 << 20
_DEBUG = "Compilation Analysis:"
_METRICS = ("Metric: ", "Counter: ")


@record(frozen=True)
class LibraryCall:
    """A function of a library (lines `first` to `last` of `file`) that one line of the program's alone calls."""

    file: str
    first: int
    last: int
    source: str


@record
class Notes:
    """What such files say, all of them together.

    `compiles` by graph hash, `not_lowered` ops that ran on the CPU, `counters` as the metrics reports have them.
    `library_calls` are from run.json.
    """

    compiles: dict[str, DebugCompile] = field(default_factory=dict)
    not_lowered: list[str] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    library_calls: list[LibraryCall] = field(default_factory=list)

    def caller_of(self, place: str) -> str:
        """The program's line that calls the innermost function that a line (`file:line`) is of; empty if unknown."""
        file, _, line = place.rpartition(":")
        at = int(line) if line.isdigit() else 0
        found = [each for each in self.library_calls if each.file == file and each.first <= at <= each.last]
        return min(found, key=lambda each: each.last - each.first).source if found else ""


def read_notes(run_folder: Path | None, info: dict[str, Any] | None = None) -> Notes:
    """Read every `.txt` and `.log` of the run folder and of its tpuprof/ folder that holds such text, and run.json."""
    notes = Notes(library_calls=_library_calls(info or {}))
    if run_folder is None:
        return notes
    for folder in (run_folder, run_folder / NOTES):
        for path in sorted([*folder.glob("*.txt"), *folder.glob("*.log")]):
            if path.is_file():
                with path.open("r", encoding="utf-8", errors="replace") as file:
                    _add(notes, file.read(MAX_TEXT))
    return notes


def _library_calls(info: dict[str, Any]) -> list[LibraryCall]:
    rows = [each for each in info.get("library_calls") or [] if isinstance(each, dict)]
    wanted = {"file": str, "first": int, "last": int, "source": str}
    return [
        LibraryCall(**{name: each[name] for name in wanted})
        for each in rows
        if all(isinstance(each.get(name), kind) for name, kind in wanted.items())
    ]


def _add(notes: Notes, text: str) -> None:
    if _DEBUG in text or "pt-xla-profiler" in text:
        told = parse_debug_text(text)
        notes.compiles.update({each.graph_hash: each for each in told.compiles if each.graph_hash})
        notes.not_lowered += [op for op in told.not_lowered if op not in notes.not_lowered]
    if any(mark in text for mark in _METRICS):
        for name, value in parse_metrics_report(text).counters.items():
            notes.counters[name] = notes.counters.get(name, 0) + value
