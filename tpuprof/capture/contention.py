"""How long this process's threads waited for a CPU that others had, and how many CPUs they used."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tpuprof.instrument.state import pass_on
from tpuprof.parallel import cores
from tpuprof.units import NS_PER_S

_TASKS = Path("/proc/self/task")
# How much CPU time a container may have (Linux, cgroup v2): microseconds or "max", per so many microseconds.
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
# Threads of torch's autograd call ops, as the training thread does.
_AUTOGRAD = "pt_autograd"


class Contention:
    """Reads the scheduler's own counts (Linux, `/proc/self/task/*/schedstat`: ns run, ns waited) twice."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, int]] = {}
        self._cpu_ns = self._wall_ns = 0

    def start(self) -> None:
        """Remember where the counts stand."""
        self._before = _counts()
        self._cpu_ns, self._wall_ns = time.process_time_ns(), time.perf_counter_ns()

    def cpus_used(self) -> float | None:
        """How many CPUs the process used in the mean since `start`; None where no time has passed."""
        passed = time.perf_counter_ns() - self._wall_ns
        return (time.process_time_ns() - self._cpu_ns) / passed if self._wall_ns and passed > 0 else None

    def waited_share(self) -> float | None:
        """Share of the time its threads could have run in which they waited; None where the system does not say."""
        ran = waited = 0
        for thread, (run_ns, wait_ns) in _counts().items():
            before = self._before.get(thread, (0, 0))
            ran += run_ns - before[0]
            waited += wait_ns - before[1]
        return waited / (ran + waited) if self._before and ran + waited > 0 else None

    def native_seconds(self) -> float | None:
        """How long threads that run no Python worked, or waited for a CPU that other processes had (s).

        Where the device is this machine's CPU, it works on such threads: it worked for no longer than that. Autograd's
        are left out. Of the waits that part counts which is the share of all CPUs that this process did not use: they
        wait for its own threads otherwise, and not any more where those have less to do. None where the system does
        not say.
        """
        used = self.cpus_used()
        if not self._before or used is None:
            return None
        others = max(1 - used / cpus(), 0.0)
        python = {str(each.native_id) for each in threading.enumerate()}
        worked = 0.0
        for thread, (ran, waited) in _counts().items():
            if thread not in python and not _name(thread).startswith(_AUTOGRAD):
                before = self._before.get(thread, (0, 0))
                worked += ran - before[0] + others * (waited - before[1])
        return worked / NS_PER_S


def cpus() -> float:
    """How many CPUs this process may use at a time."""
    count = float(cores())
    try:
        quota, period = _QUOTA.read_text("ascii").split()
        return min(count, int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError) as error:
        pass_on(error)
        return count  # no container, or one without a limit


def waited_seconds() -> float:
    """How long the threads that run now have waited for a CPU since they began, added up (s); 0 where unknown."""
    return sum(waited for _, waited in _counts().values()) / NS_PER_S


def backward_ran() -> bool:
    """Whether any backward pass ran in this process: autograd makes its threads for the first. True where unknown."""
    if not _TASKS.is_dir():
        return True
    return any(_name(task.name).startswith(_AUTOGRAD) for task in _TASKS.iterdir())


def _name(thread: str) -> str:
    try:
        return (_TASKS / thread / "comm").read_text("utf-8", "replace")
    except OSError as error:
        pass_on(error)
        return ""


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
