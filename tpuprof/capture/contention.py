"""How long this process's threads waited for a CPU that others had: what makes one run of a script unlike the next."""

from __future__ import annotations

from pathlib import Path

from tpuprof.instrument.state import pass_on
from tpuprof.units import NS_PER_S

_TASKS = Path("/proc/self/task")


class Contention:
    """Reads the scheduler's own counts (Linux, `/proc/self/task/*/schedstat`: ns run, ns waited) twice."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, int]] = {}

    def start(self) -> None:
        """Remember where the counts stand."""
        self._before = _counts()

    def waited_share(self) -> float | None:
        """Share of the time its threads could have run in which they waited; None where the system does not say."""
        ran = waited = 0
        for thread, (run_ns, wait_ns) in _counts().items():
            before = self._before.get(thread, (0, 0))
            ran += run_ns - before[0]
            waited += wait_ns - before[1]
        return waited / (ran + waited) if self._before and ran + waited > 0 else None


def waited_seconds() -> float:
    """How long the threads that run now have waited for a CPU since they began, added up (s); 0 where unknown."""
    return sum(waited for _, waited in _counts().values()) / NS_PER_S


def _counts() -> dict[str, tuple[int, int]]:
    found = {}
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            fields = (task / "schedstat").read_text("ascii").split()
            found[task.name] = (int(fields[0]), int(fields[1]))
        except (OSError, ValueError, IndexError) as error:
            pass_on(error)
            continue  # a thread that has just ended
    return found
