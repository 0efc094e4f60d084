"""Waiting for a CPU, as the scheduler counts it."""

import os
import subprocess
import sys
import time

import pytest

from tpuprof.capture import contention
from tpuprof.capture.contention import Contention

SCRIPT = """
import os, subprocess, sys, time
from tpuprof.capture.contention import Contention
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(int(sys.argv[1]))]
watched = Contention()
watched.start()
end = time.process_time() + 0.3
while time.process_time() < end:
    pass
print(watched.waited_share())
for each in others:
    each.kill()
"""

needs_counts = pytest.mark.skipif(
    not os.path.exists("/proc/self/schedstat"), reason="this system does not count"
)


def waited(others):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(others)], capture_output=True, text=True, check=True, timeout=60
    )
    return float(done.stdout)


@needs_counts
def test_three_rivals_on_one_cpu_take_most_of_it():
    assert waited(3) > 0.5


@needs_counts
def test_a_share_lies_between_none_and_all():
    watched = Contention()
    watched.start()
    # The scheduler brings its counts up to date at its ticks: work for several of them.
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert 0 <= watched.waited_share() < 1


def test_a_system_that_does_not_count_is_unavailable_and_not_zero(monkeypatch, tmp_path):
    monkeypatch.setattr(contention, "_TASKS", tmp_path / "missing")
    watched = Contention()
    watched.start()
    assert watched.waited_share() is None
    assert Contention().waited_share() is None


def test_how_many_cpus_a_process_uses():
    watched = Contention()
    assert watched.cpus_used() is None
    watched.start()
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    time.sleep(0.2)
    assert 0 < watched.cpus_used() < 1


@pytest.mark.parametrize(
    ("quota", "count"), [("max 100000", 4.0), ("150000 100000", 1.5), ("900000 100000", 4.0), ("?", 4.0)]
)
def test_a_container_may_have_less_than_the_machine(quota, count, monkeypatch, tmp_path):
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(contention, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert contention.cpus() == count


@pytest.mark.parametrize(("used", "counted"), [(2.0, 3.0), (1.0, 3.5), (0.0, 4.0), (2.1, 3.0)])
def test_native_threads_wait_for_other_processes_as_far_as_those_had_the_cpus(used, counted, monkeypatch):
    ns = 10**9
    watched = Contention()
    monkeypatch.setattr(contention, "cpus", lambda: 2.0)
    monkeypatch.setattr(contention, "_name", {"7": "python", "8": "pt_autograd_0"}.get)
    monkeypatch.setattr(contention, "_counts", lambda: {"7": (ns, ns), "8": (ns, ns)})
    watched.start()
    monkeypatch.setattr(watched, "cpus_used", lambda: used)
    monkeypatch.setattr(contention, "_counts", lambda: {"7": (4 * ns, 2 * ns), "8": (9 * ns, 9 * ns)})
    assert watched.native_seconds() == pytest.approx(counted)
