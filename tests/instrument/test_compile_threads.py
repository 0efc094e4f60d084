"""TorchTPU's compile threads by their CPU time, as Linux shows it."""

import pytest

from tpuprof.instrument.frameworks.compile_threads import (
    NAME,
    SETTLED_SECONDS,
    STALLED_SECONDS,
    WORKED_FROM_NS,
    CompileThreads,
)
from tpuprof.instrument.frameworks.torch_tpu import TorchTpu


class Tasks:
    """Threads of a process: a folder each, with name and CPU time (ns)."""

    def __init__(self, folder):
        self.folder, self.now = folder, 0.0
        self.threads = CompileThreads(folder, lambda: self.now)

    def ran(self, number, name, cpu_ns, state="S"):
        task = self.folder / str(number)
        task.mkdir(exist_ok=True)
        (task / "stat").write_text(f"{number} ({name} (x)) {state} 1 2 3\n")
        (task / "comm").write_text(f"{name}\n")
        (task / "schedstat").write_text(f"{cpu_ns} 5 7\n")


@pytest.fixture
def tasks(tmp_path):
    return Tasks(tmp_path)


@pytest.mark.parametrize(
    ("name", "worked_ns", "after", "settled"),
    [
        (NAME, WORKED_FROM_NS, 0.0, False),
        (NAME, WORKED_FROM_NS, SETTLED_SECONDS - 0.01, False),
        (NAME, WORKED_FROM_NS, SETTLED_SECONDS, True),
        (NAME, WORKED_FROM_NS - 1, 0.0, True),
        ("python", 1000 * WORKED_FROM_NS, 0.0, True),
    ],
)
def test_compiles_are_over_when_their_threads_have_rested(tasks, name, worked_ns, after, settled):
    tasks.ran(1, NAME, 0)
    tasks.now += SETTLED_SECONDS
    assert tasks.threads.settled()
    tasks.ran(2, name, worked_ns)
    tasks.threads.settled()
    tasks.now += after
    assert tasks.threads.settled() is settled


def test_their_seconds_add_up(tasks):
    tasks.ran(1, NAME, 2_000_000_000)
    tasks.ran(2, NAME, 500_000_000)
    tasks.ran(3, "python", 9_000_000_000)
    assert tasks.threads.seconds() == pytest.approx(2.5)
    tasks.ran(1, NAME, 2_100_000_000)
    assert tasks.threads.seconds() == pytest.approx(0.1)


@pytest.mark.parametrize("text", ["", "many 2 3"])
def test_what_cannot_be_read_counts_nothing(tasks, text):
    tasks.ran(1, NAME, 0)
    (tasks.folder / "1" / "schedstat").write_text(text)
    tasks.now += SETTLED_SECONDS
    assert tasks.threads.seconds() == 0 and tasks.threads.settled()


def test_compiles_of_torch_tpu_have_seconds(tasks, monkeypatch):
    framework = TorchTpu()
    framework._threads = tasks.threads
    tasks.ran(1, NAME, 3_000_000_000)
    misses = 4
    monkeypatch.setattr(TorchTpu, "compiles", lambda _: misses)
    assert framework.drain_compiles() == [(4, pytest.approx(3.0), [])]
    tasks.ran(1, NAME, 4_000_000_000)
    assert framework.drain_compiles() == []
    misses = 5
    assert framework.drain_compiles() == [(1, pytest.approx(1.0), [])]


@pytest.mark.parametrize(("looked_up", "missed", "settled"), [(20, 0, True), (20, 1, False), (0, 0, False)])
def test_a_step_whose_programs_were_all_found_compiles_nothing(
    tasks, monkeypatch, looked_up, missed, settled
):
    """A loop that reads a value in each step does not run ahead: its own lookups tell, though programs just compiled."""
    framework = TorchTpu()
    framework._threads = tasks.threads
    counts = {"lookups": 100, "compiles": 30}
    for name in ("lookups", "compiles"):
        monkeypatch.setattr(TorchTpu, name, lambda _, name=name: counts[name])
    tasks.ran(1, NAME, 3_000_000_000)
    assert not framework.settled()
    counts.update(lookups=100 + looked_up, compiles=30 + missed)
    assert framework.settled() is settled
    tasks.now += STALLED_SECONDS
    assert framework.settled()


def test_threads_that_have_had_nothing_to_do_yet_have_not_rested(tasks, monkeypatch):
    """The host calls the first steps before the first program is looked up: no thread has compiled anything yet."""
    framework = TorchTpu()
    framework._threads = tasks.threads
    for name in ("lookups", "compiles"):
        monkeypatch.setattr(TorchTpu, name, lambda _: 0)
    assert not framework.settled()
    tasks.now += STALLED_SECONDS
    assert framework.settled()


@pytest.mark.parametrize(
    ("looked_up", "rest", "settled"),
    [
        (0, SETTLED_SECONDS, False),
        (0, STALLED_SECONDS - 0.01, False),
        (0, STALLED_SECONDS, True),
        (3, SETTLED_SECONDS - 0.01, False),
        (3, SETTLED_SECONDS, True),
    ],
)
def test_threads_rest_longer_where_no_program_is_looked_up(tasks, monkeypatch, looked_up, rest, settled):
    """A thread that waits for a CPU works no more than one that has nothing to do; then nothing is looked up either."""
    framework = TorchTpu()
    framework._threads = tasks.threads
    counts = {"lookups": 100, "compiles": 30}
    for name in ("lookups", "compiles"):
        monkeypatch.setattr(TorchTpu, name, lambda _, name=name: counts[name])
    tasks.ran(1, NAME, 3_000_000_000)
    framework.settled()
    counts.update(lookups=100 + looked_up, compiles=30 + bool(looked_up))
    tasks.now += rest
    assert framework.settled() is settled


@pytest.mark.parametrize(("ran_ms", "state", "settled"), [(0, "S", True), (5, "S", False), (0, "R", False)])
def test_programs_that_were_found_may_still_compile(tasks, monkeypatch, ran_ms, state, settled):
    """A program is found again while it compiles: a thread that compiles, or waits for a CPU to, is not over with it."""
    framework = TorchTpu()
    framework._threads = tasks.threads
    counts = {"lookups": 100, "compiles": 30}
    for name in ("lookups", "compiles"):
        monkeypatch.setattr(TorchTpu, name, lambda _, name=name: counts[name])
    tasks.ran(1, NAME, 3_000_000_000)
    framework.settled()
    counts["lookups"] += 20
    tasks.ran(1, NAME, 3_000_000_000 + ran_ms * 1_000_000, state)
    assert framework.settled() is settled


def test_a_thread_that_waits_for_a_cpu_has_not_rested(tasks):
    tasks.ran(1, NAME, 0, "R")
    tasks.now += STALLED_SECONDS
    assert not tasks.threads.settled(STALLED_SECONDS)
    tasks.ran(1, NAME, 0)
    tasks.now += STALLED_SECONDS
    assert tasks.threads.settled(STALLED_SECONDS)
