"""What the training process noted of its own steps in the run folder: times, counters, frames of compiles."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tpuprof.json_notes import parse_json, read_text
from tpuprof.model.intervals import union
from tpuprof.records import record
from tpuprof.report.labels import source_of
from tpuprof.run_folder import telemetry_files
from tpuprof.units import NS_PER_MS, NS_PER_S

FALLBACK_PREFIX = "aten::"
# Reading one value back is torch_xla's own way of `.item()`, and counted among its fallbacks.
VALUE_READ = "aten::_local_scalar_dense"
# Compiles of less than this are not kept by JAX's persistent cache, unless the program lowers it (s): the default of
# jax_persistent_cache_min_compile_time_secs.
KEPT_FROM_SECONDS = 1.0
# Counts of the persistent compilation cache: programs found, not found, loaded, and those that could not be loaded.
CACHE_COUNTERS = (
    "PersistentCacheHit",
    "PersistentCacheMiss",
    "PersistentCacheLoad",
    "PersistentCacheDeserializeFailure",
)


@record(frozen=True)
class StepRecord:
    """What the process noted of one step: wall time in ns, counters' increases, and what its compiles took (s).

    `captured` tells whether the profiler recorded it, `frames` which Python frames led to its longest compile.
    `lines` counts its compiles by the innermost frame, `line_seconds` adds up what they took, `short_seconds` what
    those took that JAX's cache would not keep. `metrics` are the samples that torch_xla's metrics gained, of captured
    steps only.
    `fallbacks` are the lines that called ops which ran on the CPU, by op, where the capture looked for them,
    `fallbacks_also` further lines that called them, and `gradients` those of these ops that compute the gradient of
    their line.
    `samples` is how many samples the process trained on, None where the program did not state it. `start_ns` is since
    the epoch, 0 where it was not noted.
    """

    step: int
    wall_ns: int
    captured: bool
    counters: dict[str, int] = field(default_factory=dict)
    compiles: int = 0
    compile_seconds: float = 0.0
    frames: list[str] = field(default_factory=list)
    fallbacks: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    samples: float | None = None
    lines: dict[str, int] = field(default_factory=dict)
    line_seconds: dict[str, float] = field(default_factory=dict)
    short_seconds: float = 0.0
    start_ns: int = 0
    gradients: list[str] = field(default_factory=list)
    fallbacks_also: dict[str, list[str]] = field(default_factory=dict)
    fallbacks_inside: dict[str, str] = field(default_factory=dict)
    # Whether its process noted it after the captured steps: training was not steady, and might be captured again.
    after: bool = False
    # Whether it is of the time between two recordings by the clock, in which the program compiled as it does all along.
    repeats: bool = False

    @property
    def before(self) -> bool:
        """Whether it is of the time before the captured steps; of all, where none was captured."""
        return not self.captured and not self.after and not self.repeats

    @property
    def graphs(self) -> int:
        """Graphs that were handed over in it, compiled again or not."""
        return self.counters.get("CachedCompile", 0) + self.new_graphs

    @property
    def new_graphs(self) -> int:
        """Of these, graphs that were not compiled before; of TorchTPU programs that it asked for."""
        return self.counters.get("UncachedCompile", 0)

    @property
    def is_step(self) -> bool:
        """Whether it is of a step: what came before a capture that follows none has one without a number (-1)."""
        return self.step >= 0

    @property
    def wall_ms(self) -> float:
        """Wall time in ms."""
        return self.wall_ns / NS_PER_MS


def step_records(run_folder: Path | None, host: str, damaged: list[str] | None = None) -> list[StepRecord]:
    """Every step the run folder has notes of, captured or not, in order.

    Lines that are damaged are passed over, and added to `damaged`; the last one is no matter where it has no end, as a
    process that was killed while it wrote leaves one.
    """
    if run_folder is None:
        return []
    found: list[StepRecord] = []
    for path in telemetry_files(run_folder, host):
        try:
            text = read_text(path)
        except OSError as error:
            note_damage(damaged, path, f"it cannot be read ({error.strerror or error})")
            continue
        rows = [_record_of(line) for line in text.splitlines() if line.strip()]
        read = [each for each in rows if each is not None]
        found += _in_time(read)
        cut = rows[-1:] == [None] and not text.endswith("\n")
        if len(read) < len(rows) - cut:
            note_damage(damaged, path, f"{len(rows) - len(read)} of {len(rows)} lines cannot be read")
    return found


def note_damage(damaged: list[str] | None, path: Path, why: str) -> None:
    """Tell who asks which notes of a run are left out: what they would say is missing from the report."""
    if damaged is not None:
        damaged.append(f"{path.parent.name}/{path.name}: {why}, so what stands there is left out")


def _in_time(records: list[StepRecord]) -> list[StepRecord]:
    """One process' records, those behind the last captured one as such."""
    last = max((row for row, each in enumerate(records) if each.captured), default=len(records))
    return [*records[: last + 1], *(replace(each, after=True) for each in records[last + 1 :])]


def compile_frames(records: list[StepRecord], numbers: Sequence[int] = ()) -> dict[int, list[str]]:
    """Python frames that led to a compile, by step number.

    `numbers` are the steps of the analysis, where several noted steps make one: each gets what is up to the next.
    """
    ordered = sorted(numbers)
    found: dict[int, list[str]] = {}
    for each in records:
        if each.frames:
            at = bisect_right(ordered, each.step) - 1
            found.setdefault(ordered[at] if at >= 0 and each.captured else each.step, each.frames)
    return found


def compile_lines_before(records: Sequence[StepRecord]) -> dict[str, float]:
    """Time of compiles before the captured steps by line (s)."""
    lines: dict[str, float] = {}
    for each in records:
        for line, seconds in (each.line_seconds if each.before else {}).items():
            lines[line] = lines.get(line, 0.0) + seconds
    return lines


def longest_compile_before(records: Sequence[StepRecord]) -> str:
    """Line of the program (`file:line`) that compiled longest before the captured steps; empty where unknown."""
    lines = {line: seconds for line, seconds in compile_lines_before(records).items() if source_of(line)}
    if lines:
        return source_of(max(lines, key=lambda line: lines[line]))
    before = [each for each in records if each.before and each.frames]
    longest = max(before, key=lambda each: each.compile_seconds, default=None)
    return source_of(longest.frames[0]) if longest is not None else ""


def no_line_compiled_longest(records: Sequence[StepRecord]) -> bool:
    """Whether lines that nobody noted, as those of reads, compiled for longer before the captured steps than any."""
    lines = compile_lines_before(records)
    return lines.get("", 0.0) > max((lines[line] for line in lines if line), default=0.0)


def compile_seconds_before(records: Sequence[StepRecord]) -> float:
    """How long one host's compiles took before its captured steps (s): no longer than the steps that compiled lasted.

    Compiles on several threads, or in several processes, run side by side, and their times are added up. Notes of one
    start may begin together, so their spans are joined.
    """
    compiled = [each for each in records if each.compiles and each.before]
    total = sum(each.compile_seconds for each in compiled)
    start = np.array([each.start_ns for each in compiled], np.int64)
    spans = union(start, start + np.array([each.wall_ns for each in compiled], np.int64))
    lasted = float((spans.end - spans.start).sum()) / NS_PER_S
    return min(total, lasted) if lasted else total


def compiles_before(records: Sequence[StepRecord], line: str) -> int:
    """How often a line (its innermost frame) compiled before the captured steps."""
    return sum(each.lines.get(line, 0) for each in records if each.before or each.repeats) if line else 0


def fallback_counts(records: list[StepRecord]) -> dict[str, int]:
    """How often each op ran on the CPU in captured steps; value reads are counted elsewhere."""
    totals: dict[str, int] = {}
    for each in records:
        for name, count in each.counters.items():
            if each.captured and name.startswith(FALLBACK_PREFIX) and name != VALUE_READ:
                totals[name] = totals.get(name, 0) + count
    return totals


@record(frozen=True)
class Counted:
    """What the telemetry of one host's processes adds up to, over `records` steps of which `captured` were captured.

    `fallbacks` and `samples` are of captured steps: how often each op ran on the CPU, and how many samples the
    `stated` ones that state them trained on. Captured steps took `wall_ns`; `processes` noted each of them. `lines` has
    the line that calls each op which fell back, `lines_also` further ones, `inside` lines of libraries in which they
    do, `gradients` the ops that compute the gradient of their line, `cache` the counts of the persistent compilation
    cache.
    """

    records: int = 0
    captured: int = 0
    fallbacks: dict[str, int] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    cache: dict[str, int] = field(default_factory=dict)
    stated: int = 0
    samples: float = 0.0
    wall_ns: int = 0
    processes: int = 0
    gradients: list[str] = field(default_factory=list)
    lines_also: dict[str, list[str]] = field(default_factory=dict)
    inside: dict[str, str] = field(default_factory=dict)


def counted(records: list[StepRecord]) -> Counted:
    """The sums of one host's telemetry."""
    captured = [each for each in records if each.captured]
    lines: dict[str, str] = {}
    also: dict[str, list[str]] = {}
    for each in records:
        lines.update(each.fallbacks)
        also.update({op: each.fallbacks_also.get(op, []) for op in each.fallbacks})
    return Counted(
        records=len(records),
        captured=len(captured),
        fallbacks=fallback_counts(records),
        lines=lines,
        cache={name: sum(each.counters.get(name, 0) for each in records) for name in CACHE_COUNTERS},
        stated=sum(each.samples is not None for each in captured),
        samples=sum(each.samples or 0.0 for each in captured),
        wall_ns=sum(each.wall_ns for each in captured),
        # Each process notes a step once.
        processes=max(Counter(each.step for each in captured).values(), default=0),
        gradients=sorted({op for each in records for op in each.gradients}),
        lines_also={op: lines for op, lines in also.items() if lines},
        inside={op: place for each in records for op, place in each.fallbacks_inside.items()},
    )


def none_fell_back(records: list[StepRecord]) -> bool:
    """Whether counters of the captured steps show that no op ran on the CPU; no where there are no counters."""
    return any(each.captured and each.counters for each in records) and not fallback_counts(records)


def _record_of(line: str) -> StepRecord | None:
    try:
        row: dict[str, Any] = parse_json(line)
        compiles = row["compiles"]
        return StepRecord(
            step=int(row["step"]),
            wall_ns=int(row.get("wall_ns", 0)),
            captured=bool(row.get("captured")),
            counters={str(name): int(value) for name, value in row.get("counters", {}).items()},
            compiles=sum(int(each.get("graphs", 1)) for each in compiles),
            compile_seconds=sum(map(_seconds, compiles)),
            frames=_longest_frames(compiles),
            fallbacks={str(op): str(source) for op, source in row.get("fallbacks", {}).items()},
            metrics={str(name): int(each[0]) for name, each in row.get("metrics", {}).items()},
            samples=_samples(row.get("samples")),
            lines=dict(Counter(str(each["frames"][0]) for each in compiles if each["frames"])),
            line_seconds=_by_line(compiles),
            short_seconds=sum(took for took in map(_seconds, compiles) if took < KEPT_FROM_SECONDS),
            start_ns=int(row.get("start_ns", 0)),
            gradients=[str(op) for op in row.get("gradients", [])],
            fallbacks_also={
                str(op): [*map(str, lines)] for op, lines in row.get("fallbacks_also", {}).items()
            },
            fallbacks_inside={str(op): str(place) for op, place in row.get("fallbacks_inside", {}).items()},
            repeats=bool(row.get("repeats")),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def _longest_frames(compiles: list[dict[str, Any]]) -> list[str]:
    """The frames of the longest compile that has some: those of a read have none."""
    framed = [each for each in compiles if each["frames"]]
    return [str(frame) for frame in max(framed, key=_seconds)["frames"]] if framed else []


def _by_line(compiles: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds of the compiles by their innermost frame, those without a frame under no name."""
    found: dict[str, float] = {}
    for each in compiles:
        line = str(each["frames"][0]) if each["frames"] else ""
        found[line] = found.get(line, 0.0) + _seconds(each)
    return found


def _seconds(compiled: dict[str, Any]) -> float:
    return float(compiled.get("seconds", 0.0))


def _samples(stated: Any) -> float | None:
    """A number of samples that can be one: positive and finite."""
    number = float(stated) if stated is not None else 0.0
    return number if math.isfinite(number) and number > 0 else None
