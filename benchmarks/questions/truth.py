"""Exact answers, computed from the files alone: from the protobuf and the telemetry, with none of tpuprof's reading.

All times are integers of picoseconds. Ranks are nearest-rank: the p99 of n values is the one at rank ceil(0.99 n).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuprof.decode import xplane_pb2  # the generated message classes, and nothing else of tpuprof

_PS_PER_NS = 1_000
# Calls that an answer names at most.
_CALLS_TOLD = 3


@dataclass(frozen=True)
class Event:
    """One event as the file has it; `start` counts from the earliest line of the file."""

    line: str
    line_id: int
    name: str
    hlo: str
    start: int
    duration: int
    stats: dict[str, int]


class Capture:
    """One profile file, with the telemetry beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = next(iter(sorted(folder.rglob("*.xplane.pb"))))
        self._space = xplane_pb2.XSpace.FromString(path.read_bytes())
        lines = [line for plane in self._space.planes for line in plane.lines if line.events]
        self._origin = min(line.timestamp_ns for line in lines)

    def events(self, plane_name: str, line_name: str = "") -> list[Event]:
        """Events of a plane, of all its lines or of those of one name, in the file's order."""
        found = []
        for plane in self._space.planes:
            if plane.name.decode() != plane_name:
                continue
            stats = {key: each.name.decode() for key, each in plane.stat_metadata.items()}
            for line in plane.lines:
                if not line_name or line.name.decode() == line_name:
                    found += [self._event(plane, line, event, stats) for event in line.events]
        return found

    def host(self) -> list[Event]:
        """Events of the host's threads."""
        return self.events("/host:CPU")

    def core(self) -> list[Event]:
        """Ops on the first TensorCore."""
        return self.events("/device:TPU:0", "XLA Ops")

    def telemetry(self) -> list[dict[str, Any]]:
        """What the process noted of each step."""
        path = next(iter(sorted(self.folder.rglob("telemetry.*.jsonl"))))
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    def _event(self, plane: Any, line: Any, event: Any, stats: dict[int, str]) -> Event:
        metadata = plane.event_metadata[event.metadata_id]
        full = metadata.name.decode("utf-8", "replace")
        return Event(
            line.name.decode(),
            line.id,
            metadata.display_name.decode("utf-8", "replace") or full,
            full,
            (line.timestamp_ns - self._origin) * _PS_PER_NS + event.offset_ps,
            event.duration_ps,
            {stats[each.metadata_id]: each.int64_value for each in event.stats},
        )


def most_frequent(capture: Capture) -> list[Any]:
    """The host event that occurs most often, and how often; of several the first by name."""
    counts = Counter(event.hlo for event in capture.host())
    name = min(counts, key=lambda each: (-counts[each], each))
    return [name, counts[name]]


def longest_step(capture: Capture) -> list[int]:
    """Number and wall time of the longest step: from one marker to the next, the last to its own end."""
    marks = sorted((e for e in capture.host() if "step_num" in e.stats), key=lambda e: e.start)
    ends = [each.start for each in marks[1:]] + [marks[-1].start + marks[-1].duration]
    walls = [(end - mark.start, mark.stats["step_num"]) for mark, end in zip(marks, ends, strict=True)]
    wall, number = max(walls)
    return [number, wall]


def p99_of_most_frequent(capture: Capture) -> int:
    """The p99 of the durations of the host event that occurs most often."""
    name = most_frequent(capture)[0]
    return ranked([event.duration for event in capture.host() if event.hlo == name], 0.99)


def busiest_thread(capture: Capture) -> list[int]:
    """Id of the thread with most events, and how many."""
    counts = Counter(event.line_id for event in capture.host())
    line = min(counts, key=lambda each: (-counts[each], each))
    return [line, counts[line]]


def compiles_noted(capture: Capture) -> list[int]:
    """Graphs that the process compiled in all steps it noted, and the last step in which it did."""
    rows = [row for row in capture.telemetry() if row["counters"].get("UncachedCompile")]
    return [sum(row["counters"]["UncachedCompile"] for row in rows), max(row["step"] for row in rows)]


def calls_that_compile(capture: Capture) -> list[list[Any]]:
    """Of each captured step that compiled: its number, and the calls in the program that led there, outermost first."""
    return [
        [row["step"], *compiled["frames"][:_CALLS_TOLD]]
        for row in capture.telemetry()
        for compiled in row["compiles"]
        if row["captured"]
    ]


def captured_compiles(capture: Capture) -> list[int]:
    """Graphs that the process compiled in the captured steps, and how many those are."""
    rows = [row for row in capture.telemetry() if row["captured"]]
    return [sum(row["counters"].get("UncachedCompile", 0) for row in rows), len(rows)]


def costliest_op(capture: Capture) -> list[Any]:
    """The op with the most time over all its executions on the first core, and that time."""
    totals: Counter[str] = Counter()
    for event in capture.core():
        totals[event.name] += event.duration
    name = min(totals, key=lambda each: (-totals[each], each))
    return [name, totals[name]]


def before_the_largest_gap(capture: Capture) -> list[Any]:
    """The length of the first core's largest gap between ops, and the op that ends where it begins."""
    best, op = -1, ""
    latest, latest_op = -1, ""
    for event in sorted(capture.core(), key=lambda each: (each.start, each.duration)):
        if latest >= 0 and event.start - latest > best:
            best, op = event.start - latest, latest_op
        if event.start + event.duration >= latest:
            latest, latest_op = event.start + event.duration, event.name
    return [op, best]


def p99_by_shape(capture: Capture) -> list[Any]:
    """Of the shape whose ops have the largest p99 of durations on the first core: shape and p99; the first by name."""
    durations: dict[str, list[int]] = {}
    for event in capture.core():
        shape = event.hlo.partition(" = ")[2].partition("{")[0] if " = " in event.hlo else ""
        if shape:
            durations.setdefault(shape, []).append(event.duration)
    found = {shape: ranked(each, 0.99) for shape, each in durations.items()}
    shape = min(found, key=lambda each: (-found[each], each))
    return [shape, found[shape]]


def runs_of_programs(capture: Capture) -> list[int]:
    """How often programs ran on the first core, and for how long in all."""
    events = capture.events("/device:TPU:0", "XLA Modules")
    return [len(events), sum(event.duration for event in events)]


def ranked(values: list[int], share: float) -> int:
    """The value at a nearest rank."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]
