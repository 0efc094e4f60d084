"""Counts steps and compiles after the capture until the program ends: whether a compile comes again.

It reads two of torch_xla's counters at graph cuts and keeps the Python frames of those that compiled, by line,
in bounded memory. What it knows goes to the run folder from time to time and at the end, so that a kill loses little.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tpuprof.capture.long_steps import LongSteps, LongStepWatch
from tpuprof.instrument.stack_frames import user_frames
from tpuprof.instrument.state import compile_ns
from tpuprof.run_folder import CLASSES_PER_DOUBLING
from tpuprof.units import NS_PER_S, US_PER_S

# Lines that compiled, kept with their frames (lines), and steps kept of each (steps).
MAX_LINES = 256
MAX_STEPS = 32
# Stretches of steps between two compiles, kept with their time (stretches): a program that changes the size of its
# images does so a few times, and one that compiles more often shows in its lines.
MAX_STAGES = 16
# Time between two writes (seconds): a write takes a fraction of a millisecond.
WRITE_EVERY_SECONDS = 30.0
# Steps between two looks at whether a write is due (steps).
_LOOK_EVERY = 16
UNKNOWN_LINE = "unknown"


@dataclass
class CompilingLine:
    """Compiles of one line: steps in which it compiled (`cuts`), graphs, seconds of those cuts, and the first steps.

    An evaluation may compile at a hundred cuts of one step: whether that comes again is a matter of steps.
    """

    cuts: int = 0
    graphs: int = 0
    seconds: float = 0.0
    frames: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)


@dataclass
class Stage:
    """Steps in a row that compile nothing: the number of the first, how many they are, and their time (s)."""

    first: int
    steps: int = 0
    seconds: float = 0.0


@dataclass
class After:
    """What happened in `wall_seconds` after the captured steps, of which steps took `steps_seconds`.

    The rest came after the last step: a last evaluation, say. `ended` tells that the program came to its end. `lengths`
    is how many steps are of each class of lengths (`run_folder.CLASSES_PER_DOUBLING`). `stages` are the stretches
    between steps that compile, the first ones where there are many. `long` is of steps far longer than their like.
    """

    steps: int = 0
    compiling_steps: int = 0
    graphs: int = 0
    seconds: float = 0.0
    wall_seconds: float = 0.0
    steps_seconds: float = 0.0
    ended: bool = False
    lines: dict[str, CompilingLine] = field(default_factory=dict)
    lengths: dict[int, int] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=lambda: [Stage(0)])
    long: LongSteps = field(default_factory=LongSteps)


class Aftermath:
    """Fed with graph cuts and step boundaries of the training thread; `write` gets what there is to keep."""

    def __init__(self, extension: Any, write: Callable[[dict[str, Any]], object]) -> None:
        self.found = After()
        self._extension = extension
        # Bound once: the training thread asks it at each graph cut.
        self._value = extension._xla_counter_value
        self._drain_compiles = getattr(extension, "drain_compiles", None)
        self._write = write
        self._process = os.getpid()
        self._compiles = 0
        # What was noted so far, as in a recording by the clock, did not come after it.
        self._drain()
        self._compiles = self._made()
        self._compile_ns = compile_ns(extension)
        self._asked = False
        self._opened = self._written = time.monotonic()
        self._last_compiling = -1
        # The last step that compiled for a line.
        self._last_of: dict[str, int] = {}
        # What was counted as the last step ended, if something has compiled since.
        self._at_end: dict[str, Any] | None = None
        # Whether the program marks steps, so that one is under way as it ends.
        self.marked = True
        # When the last step ended of those that are counted elsewhere meanwhile, if any (`time.monotonic`, s).
        self.counting: Callable[[], float] = lambda: 0.0
        self.long = LongStepWatch(self.found.long, lambda: max(self._last_end, self.counting()))

    def before_cut(self) -> None:
        """A graph cut begins, or a step ends; what compiled since the last cut did so elsewhere: at a read, say."""
        compiles = self._made()
        if compiles != self._compiles:
            self._add(compiles - self._compiles, self._spent_since(), [])
            self._compiles = compiles

    def cut_ended(self, seconds: float) -> int:
        """A graph cut ended that took `seconds`. Returns how many graphs were handed over since the process began.

        Where nobody looked as it began, a compile was in it if it took as long.
        """
        # The step that ends here need not ask again.
        self._asked = True
        compiles = int(self._value("UncachedCompile") or 0)
        if compiles != self._compiles:
            spent = self._spent_since()
            inside = spent <= seconds
            self._add(
                compiles - self._compiles, seconds if inside else spent, user_frames() if inside else []
            )
            self._compiles = compiles
        return compiles + int(self._value("CachedCompile") or 0)

    def steps_since_compile(self) -> float:
        """Steps that ended since one compiled; infinite where none did."""
        return self.found.steps - self._last_compiling if self._last_compiling >= 0 else math.inf

    @property
    def _last_end(self) -> float:
        """When the last step that was counted ended (`time.monotonic`, s)."""
        return self._opened + self.found.steps_seconds

    def step_ended(self) -> None:
        """One training step ended."""
        self.look()
        self.count_step(time.monotonic())

    def look(self) -> None:
        """Ask what compiled, unless the graph cut that ends the step did."""
        if self._drain_compiles is not None:
            self._take()
        if not self._asked:
            self.before_cut()
        self._asked = False

    def count_step(self, now: float) -> None:
        """A step ended at this time of `time.monotonic` (s), and nothing else is asked."""
        number, began = self.found.steps, self._last_end
        compiled = self._last_compiling == number
        self.found.steps += 1
        self.close_step()
        took, self.found.steps_seconds = now - began, now - self._opened
        self.long.step_ended(number, began, now, compiled=compiled)
        length = round(CLASSES_PER_DOUBLING * math.log2(max(US_PER_S * took, 1.0)))
        self.found.lengths[length] = self.found.lengths.get(length, 0) + 1
        self._add_to_stage(took, compiled=compiled)
        if self.found.steps % _LOOK_EVERY == 0:
            self.long.know(self.found.lengths)
            if now - self._written >= WRITE_EVERY_SECONDS:
                self.write()

    def close_step(self) -> None:
        """What compiled so far belongs to a step, and not to what comes behind the last one."""
        self._at_end = None

    def _add_to_stage(self, took: float, *, compiled: bool) -> None:
        """The last step took so long (s). One that compiled is of no stage, and begins one."""
        stages, ended = self.found.stages, self.found.steps
        if compiled:
            if len(stages) < MAX_STAGES:
                stages.append(Stage(ended))
            return
        stage = stages[-1]
        if len(stages) == MAX_STAGES and stage.first + stage.steps < ended - 1:
            return
        stage.steps += 1
        stage.seconds += took

    def _take(self) -> None:
        for graphs, seconds, frames in self._drain():
            self._add(graphs, seconds, frames)

    def _drain(self) -> list[tuple[int, float, list[str]]]:
        """Compiles that a framework without graph cuts noted itself."""
        drain = self._drain_compiles
        found: list[tuple[int, float, list[str]]] = drain() if drain is not None else []
        self._compiles += sum(graphs for graphs, _, _ in found)
        return found

    def _made(self) -> int:
        return int(self._value("UncachedCompile") or 0)

    def _spent_since(self) -> float:
        """Time that torch_xla has compiled for since this was asked last (s)."""
        before, self._compile_ns = self._compile_ns, compile_ns(self._extension)
        return (self._compile_ns - before) / NS_PER_S

    def close(self) -> None:
        """Write for the last time."""
        self.long.stop()
        self.long.settle()
        self._take()
        self.before_cut()
        if self._at_end is not None and self.marked:
            # The step that was under way as the program ended compiled: it is one, too.
            self.found.steps += 1
        elif self._at_end is not None:
            # What compiled behind the last step, a last evaluation, say, is no step of training.
            vars(self.found).update(self._at_end)
        self.found.ended = True
        self.write()

    def write(self) -> None:
        """Hand over what is known so far; a forked process has nothing to say."""
        self._written = time.monotonic()
        self.found.wall_seconds = self._written - self._opened
        if os.getpid() == self._process:
            self._write(asdict(self.found))

    def _add(self, graphs: int, seconds: float, frames: list[str]) -> None:
        found = self.found
        if self._at_end is None:
            lines = {line: replace(each, steps=[*each.steps]) for line, each in found.lines.items()}
            of_all = {key: getattr(found, key) for key in ("compiling_steps", "graphs", "seconds")}
            self._at_end = {**of_all, "lines": lines}
        found.graphs += graphs
        found.seconds += seconds
        if found.steps != self._last_compiling:
            self._last_compiling = found.steps
            found.compiling_steps += 1
        name = frames[0] if frames else UNKNOWN_LINE
        if name not in found.lines and len(found.lines) >= MAX_LINES:
            name = UNKNOWN_LINE
        line = found.lines.setdefault(name, CompilingLine(frames=frames))
        line.graphs += graphs
        line.seconds += seconds
        if self._last_of.get(name) == found.steps:
            return
        self._last_of[name] = found.steps
        line.cuts += 1
        if len(line.steps) < MAX_STEPS:
            line.steps.append(found.steps)
