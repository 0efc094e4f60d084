"""How long TorchTPU's compile threads have worked: its program cache counts a compile when it is asked for, and later.

The host runs ahead: programs of the first steps are looked up, one after the other, while later steps are called. So
that the counter stands still says nothing while one of them compiles.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tpuprof.instrument.state import pass_on
from tpuprof.units import NS_PER_MS, NS_PER_S

# TorchTPU's own name for them; Linux keeps 15 letters of a name.
NAME = "tf_tt_compile"
# CPU time from which they compiled (ns): waking up takes microseconds, the smallest program of the CPU plugin 30 ms.
WORKED_FROM_NS = NS_PER_MS
# What Linux calls a thread that runs or waits for a CPU.
RUNS = "R"
# Time without work of theirs after which none is under way (s): Linux brings a running thread's CPU time up to date
# every 4 ms, one that waits for a CPU uses none, and between two programs another thread prepares the next.
SETTLED_SECONDS = 0.1
# The same where no program was looked up meanwhile (s): the one before may wait for a CPU, or for Python's lock. On a
# crowded machine a program of NumPy work was taken for steady while 18 programs of its first step were to be compiled.
STALLED_SECONDS = 0.5


class CompileThreads:
    """CPU time of the compile threads of this process."""

    def __init__(
        self, tasks: Path = Path("/proc/self/task"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tasks, self._clock = tasks, clock
        self._is_one: dict[str, bool] = {}
        self._said, self._asked = 0, 0
        # When they worked last. Before the first program is looked up they have had nothing to do yet.
        self._worked = clock()

    def settled(self, rest: float = SETTLED_SECONDS) -> bool:
        """Whether they have compiled nothing for so long (s); asked again and again."""
        self._look()
        return self._clock() - self._worked >= rest

    def idle(self) -> bool:
        """Whether they have compiled nothing since they were looked at last, and none runs or waits for a CPU now."""
        return not self._look()

    def _look(self) -> bool:
        """Whether they worked since this was asked last, or one is about to."""
        cpu = self._cpu_ns()
        works = cpu - self._asked >= WORKED_FROM_NS or self._one_runs()
        if works:
            self._asked, self._worked = cpu, self._clock()
        return works

    def _one_runs(self) -> bool:
        """Whether a thread runs, or could: on a crowded machine it waits for a CPU longer than it works."""
        try:
            states = [
                (self._tasks / name / "stat").read_text().rpartition(")")[2].split()[0]
                for name, is_one in self._is_one.items()
                if is_one
            ]
        except (OSError, IndexError) as error:  # see _cpu_ns
            pass_on(error)
            return False
        return RUNS in states

    def seconds(self) -> float:
        """What they worked since this was asked last (s)."""
        before, self._said = self._said, self._cpu_ns()
        return max(self._said - before, 0) / NS_PER_S

    def _cpu_ns(self) -> int:
        total = 0
        try:
            for task in self._tasks.iterdir():
                if task.name not in self._is_one:
                    self._is_one[task.name] = (task / "comm").read_text().startswith(NAME)
                if self._is_one[task.name]:
                    total += int((task / "schedstat").read_text().split()[0])
        except (OSError, ValueError, IndexError) as error:  # a thread that has just ended, or another system
            pass_on(error)
        return max(total, self._said, self._asked)
