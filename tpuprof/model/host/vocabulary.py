"""What a host event's name says the host was doing, read from the TOML files in `tpuprof/vocabulary`.

Names are data because frameworks change them: a new framework is a new file there, no code.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import field
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tpuprof.model.intervals import Int64
from tpuprof.records import record

# The phase of tracing that is a graph cut.
GRAPH_WALK = "ir_walk_and_hash"
# PyTorch on GPUs, as its vocabulary and reports call it.
PYTORCH = "pytorch"
TORCH_XLA = "torch_xla"
TORCH_TPU = "torch_tpu"
# Names whose meaning is remembered (names): a trace has a few thousand, one that numbers its events has millions.
NAMES_KEPT = 100_000


class Activity(IntEnum):
    """What the host does during an event. UNKNOWN events take the activity of the event around them."""

    UNKNOWN = -1
    TRACING = 0
    COMPILE = 1
    INPUT_WAIT = 2
    HOST_TO_DEVICE = 3
    DEVICE_TO_HOST_SYNC = 4
    DISPATCH = 5
    DEVICE_WAIT = 6
    CHECKPOINT = 7
    GC = 8
    USER = 9
    HOST_OTHER = 10
    HOST_NAMED = 11


@record(frozen=True)
class NameSet:
    """Names and prefixes to match an event name against."""

    exact: frozenset[str]
    prefixes: tuple[str, ...]
    # (prefix, suffix) of patterns with the star inside: `$array.py:* __float__`.
    around: tuple[tuple[str, str], ...] = ()
    # Texts of patterns with a star on each side: `*::*`.
    inside: tuple[str, ...] = ()

    @staticmethod
    def of(patterns: Iterable[str]) -> NameSet:
        """Build from patterns; a `*` stands for any text: once in a pattern, or once on each side of it."""
        patterns = list(patterns)
        inside = [p for p in patterns if len(p) > 2 and p.startswith("*") and p.endswith("*")]
        patterns = [p for p in patterns if p not in inside]
        return NameSet(
            frozenset(p for p in patterns if "*" not in p),
            tuple(p[:-1] for p in patterns if p.endswith("*")),
            tuple((head, tail) for head, _, tail in (p.partition("*") for p in patterns) if tail),
            tuple(p[1:-1] for p in inside),
        )

    def matches(self, name: str) -> bool:
        """Whether a name is in the set."""
        found = name in self.exact or name.startswith(self.prefixes)
        # Profiles hold ten thousands of names, and some eighty sets are asked for: most have no such patterns.
        return found or (bool(self.around or self.inside) and self._around(name))

    def _around(self, name: str) -> bool:
        return any(name.startswith(head) and name.endswith(tail) for head, tail in self.around) or any(
            text in name for text in self.inside
        )

    def rows(self, names: Sequence[str]) -> Int64:
        """Indices of the names that match."""
        return np.array([i for i, name in enumerate(names) if self.matches(name)], np.int64)


_NONE = NameSet.of(())


@record(frozen=True)
class Vocabulary:
    """The host events of one framework. `residual` is the activity of unexplained training-thread time.

    `named_events` are events that rules ask for by what they mean, whatever activity they belong to. `building` is what
    the host does while it calls ops: lazy tensors trace them, eager ones dispatch them (`eager`). Whatever is in an
    event of `covers` counts as that event. `roles` name threads by what they do.
    """

    framework: str
    detect: NameSet
    driver: NameSet
    step_boundary: NameSet
    graph_cut: NameSet
    residual: Activity
    activities: tuple[tuple[Activity, NameSet], ...]
    compile_events: tuple[str, ...]
    compile_hash_stat: str
    # Events in traces that also have one of each compile: such an event shows that nothing was compiled unseen.
    beside_compiles: NameSet = field(default_factory=lambda: NameSet.of(()))
    tracing_phases: tuple[tuple[str, NameSet], ...] = ()
    scan_ran: NameSet = field(default_factory=lambda: NameSet.of(()))
    scan_looked_up: NameSet = field(default_factory=lambda: NameSet.of(()))
    handed_over: NameSet = field(default_factory=lambda: NameSet.of(()))
    named_events: tuple[tuple[str, NameSet], ...] = ()
    building: Activity = Activity.TRACING
    eager: bool = False
    calls: NameSet = field(default_factory=lambda: NameSet.of(()))
    driver_ops: NameSet = field(default_factory=lambda: NameSet.of(()))
    covers: NameSet = field(default_factory=lambda: NameSet.of(()))
    roles: tuple[tuple[str, NameSet], ...] = ()
    # Names of which one must be there, too.
    beside: NameSet | None = None
    # The format of traces that only this framework's profiler writes, empty where there is none.
    profiler: str = ""
    # Whether its profiler's tracer of Python functions leaves events, and of these the framework's own files, and those
    # of which the name does not tell whether they are the framework's or the user's.
    python_calls: bool = False
    own_files: NameSet = field(default_factory=lambda: NameSet.of(()))
    unclear_files: NameSet = field(default_factory=lambda: NameSet.of(()))
    # Whether a program on the device may call Python functions on the host.
    host_callbacks: bool = True
    # Batches that are taken from a queue: a thread of the host has made them, or a worker process.
    from_threads: NameSet = field(default_factory=lambda: NameSet.of(()))
    from_processes: NameSet = field(default_factory=lambda: NameSet.of(()))
    _exact: dict[str, Activity] = field(repr=False, default_factory=dict)
    # What names were found to stand for: the threads of a host share their names, and hosts do.
    _found: dict[str, Activity] = field(repr=False, compare=False, default_factory=dict)

    def named(self, event: str) -> NameSet:
        """The names of an event of `named_events`; none where the framework has no such event."""
        return next((names for key, names in self.named_events if key == event), _NONE)

    def activity(self, name: str) -> Activity:
        """What an event of that name stands for; UNKNOWN where the vocabulary does not list it."""
        found = self._exact.get(name)
        found = self._found.get(name) if found is None else found
        if found is not None:
            return found
        found = next((each for each, names in self.activities if names.matches(name)), Activity.UNKNOWN)
        if len(self._found) < NAMES_KEPT:
            self._found[name] = found
        return found

    def cuts(self, name: str) -> bool:
        """Whether an event is part of a graph cut: the walk over the graph, its hash, its hand-over."""
        return any(phase == GRAPH_WALK and names.matches(name) for phase, names in self.tracing_phases)

    def codes(self, names: Sequence[str]) -> Int64:
        """`Activity` of each name, as int64."""
        return np.array([self.activity(name) for name in names], np.int64)


NONE = Vocabulary(
    framework="unknown",
    detect=NameSet.of(()),
    driver=NameSet.of(()),
    step_boundary=NameSet.of(()),
    graph_cut=NameSet.of(()),
    residual=Activity.UNKNOWN,
    activities=(),
    compile_events=(),
    compile_hash_stat="",
)


@cache
def vocabularies() -> tuple[Vocabulary, ...]:
    """Every vocabulary that ships with tpuprof, in the order in which a trace is tried against them.

    A file is one where it names the place in that order (`tried`).
    """
    tables = [tomllib.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.toml"))]
    known = sorted((each for each in tables if "tried" in each), key=lambda each: each["tried"])
    return tuple(_load(each) for each in known)


def detect(names: Sequence[str], profiler: str = "") -> Vocabulary:
    """The vocabulary whose telltale names the host plane holds, else one that knows nothing.

    TorchTPU and PyTorch/XLA run on the runtime JAX uses, so JAX is tried last. PyTorch on GPUs differs from TorchTPU by
    the launches of its kernels; a trace that has nothing else goes by the `profiler` that wrote it.
    """
    for vocabulary in vocabularies():
        if len(vocabulary.detect.rows(names)) and (
            not vocabulary.beside or len(vocabulary.beside.rows(names))
        ):
            return vocabulary
    return next((each for each in vocabularies() if profiler and each.profiler == profiler), NONE)


FOLDER = Path(__file__).resolve().parents[2] / "vocabulary"


def _load(table: dict[str, Any]) -> Vocabulary:
    activities = tuple((Activity[key.upper()], NameSet.of(names)) for key, names in table["activity"].items())
    return Vocabulary(
        framework=table["framework"],
        detect=NameSet.of(table["detect"]),
        driver=NameSet.of(table["driver"]),
        step_boundary=NameSet.of(table["step_boundary"]),
        graph_cut=NameSet.of(table["graph_cut"]),
        residual=Activity[table["residual"].upper()],
        activities=activities,
        compile_events=tuple(table["compile"]["events"]),
        compile_hash_stat=table["compile"]["hash_stat"],
        beside_compiles=NameSet.of(table["compile"].get("beside", ())),
        tracing_phases=tuple(
            (name, NameSet.of(names)) for name, names in table.get("tracing_phases", {}).items()
        ),
        handed_over=NameSet.of(table.get("handed_over", ())),
        scan_ran=NameSet.of(table.get("scan", {}).get("ran", ())),
        scan_looked_up=NameSet.of(table.get("scan", {}).get("looked_up", ())),
        named_events=tuple((key, NameSet.of(names)) for key, names in table.get("named_events", {}).items()),
        building=Activity[table.get("building", "tracing").upper()],
        eager=bool(table.get("eager", False)),
        calls=NameSet.of(table.get("calls", ())),
        driver_ops=NameSet.of(table.get("driver_ops", ())),
        covers=NameSet.of(table.get("covers", ())),
        roles=tuple((key, NameSet.of(names)) for key, names in table.get("roles", {}).items()),
        beside=NameSet.of(table["with"]) if "with" in table else None,
        profiler=table.get("profiler", ""),
        python_calls=bool(table.get("python_calls", False)),
        own_files=NameSet.of(table.get("own_files", ())),
        unclear_files=NameSet.of(table.get("unclear_files", ())),
        host_callbacks=bool(table.get("host_callbacks", True)),
        from_threads=NameSet.of(table.get("input", {}).get("from_threads", ())),
        from_processes=NameSet.of(table.get("input", {}).get("from_processes", ())),
        _exact={name: activity for activity, names in activities for name in names.exact},
    )
