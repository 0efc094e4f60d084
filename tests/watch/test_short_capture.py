"""The budget of captures, what is kept of an anomaly, and stacks of a hang."""

import threading
import time

from tests.ledger.test_ledger import FakeClock
from tpuprof.ledger.reader import read_folder
from tpuprof.watch import watcher as watcher_module
from tpuprof.watch.analysis import read_verdict
from tpuprof.watch.anomalies import Anomaly
from tpuprof.watch.options import WatchOptions, commit_of, job_name
from tpuprof.watch.short_capture import Budget, ShortCaptures
from tpuprof.watch.stacks import all_stacks
from tpuprof.watch.watcher import Watcher

SLOW = Anomaly("slow_step", 41, "step 41 took 3 times the median", "host", {"ratio": 3.0})


def captures_of(tmp_path, **options):
    notes = []
    made = ShortCaptures(
        WatchOptions(str(tmp_path), **options),
        "p0",
        lambda kind, *at, **facts: notes.append((kind, facts)),
        FakeClock(),
    )
    return made, notes


def test_captures_per_hour_are_bounded(tmp_path):
    now = [0.0]
    budget = Budget(2, 2**30, lambda: now[0])
    for _ in range(2):
        assert budget.refusal(tmp_path) == ""
        budget.spend()
    assert "2 captures within an hour" in budget.refusal(tmp_path)
    now[0] = 3601.0
    assert budget.refusal(tmp_path) == ""


def test_the_disk_that_captures_take_is_bounded(tmp_path):
    (tmp_path / "profile").write_bytes(bytes(2**20))
    assert Budget(9, 2**20 + 1).refusal(tmp_path) == ""
    assert "1 MiB" in Budget(9, 2**20).refusal(tmp_path)


def test_an_anomaly_is_kept_and_a_second_one_within_the_budget_is_noted(tmp_path):
    made, notes = captures_of(tmp_path, captures_per_hour=1)
    where = made.ask(SLOW, record=True)
    assert read_verdict(where)["first"] == SLOW.message
    assert made.ask(SLOW, record=True) is None
    assert [kind for kind, _ in notes] == ["capture_left_out"]


def test_a_capture_that_cannot_begin_costs_training_nothing(tmp_path):
    made, notes = captures_of(tmp_path)
    made.ask(SLOW, record=True)
    assert made.boundary(42, object()) is True
    assert made.boundary(43, object()) is False
    assert [kind for kind, _ in notes] == ["capture_left_out"]


def test_without_captures_nothing_is_recorded(tmp_path):
    made, _ = captures_of(tmp_path, capture=False)
    assert made.ask(SLOW, record=True) is not None
    assert made.boundary(42, object()) is False


def test_stacks_of_all_threads_name_where_they_wait():
    halt = threading.Event()

    def stuck_here():
        halt.wait(30)

    thread = threading.Thread(target=stuck_here, name="stuck", daemon=True)
    thread.start()
    try:
        text = all_stacks()
    finally:
        halt.set()
    assert "Thread stuck" in text
    assert "stuck_here" in text


def test_a_watched_process_without_a_framework_records_its_marked_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(watcher_module, "READY_SECONDS", 0.01)
    import tpuprof

    monkeypatch.setattr(Watcher, "use_framework", lambda self: None)
    watcher = Watcher(WatchOptions(str(tmp_path), job="marks"))
    watcher.start()
    for step in range(5, 10):
        tpuprof.step(step, samples=32)
        time.sleep(0.002)
    with tpuprof.phase("evaluation"):
        time.sleep(0.002)
    watcher.stop("stopped")
    watcher.stop("stopped")
    tpuprof.step(10)
    (ledger,) = read_folder(tmp_path)
    assert list(map(int, ledger.columns["step"])) == [5, 6, 7, 8]
    assert set(map(int, ledger.columns["samples_milli"])) == {32_000}
    assert [each["name"] for each in ledger.events if each["kind"] == "span"] == ["evaluation"]
    assert ledger.ended == "stopped"
    assert ledger.meta["job"] == "marks"


def test_a_job_keeps_its_name_over_restarts(monkeypatch, tmp_path):
    for name in ("TPUPROF_JOB", "JOB_NAME", "SLURM_JOB_NAME"):
        monkeypatch.delenv(name, raising=False)
    options = WatchOptions(str(tmp_path))
    assert job_name(options) == job_name(options)
    monkeypatch.setenv("JOB_NAME", "llama")
    assert job_name(options) == "llama"
    assert job_name(WatchOptions(str(tmp_path), job="mine")) == "mine"


def test_the_commit_is_read_without_git(tmp_path):
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git" / "refs" / "heads" / "main").write_text("0123456789" * 4 + "\n")
    (tmp_path / "deep").mkdir()
    assert commit_of(str(tmp_path / "deep")) == "0123456789" * 4
    assert commit_of("/proc") is None


def test_the_function_can_be_called_whatever_was_imported_before(tmp_path, monkeypatch):
    import importlib

    import tpuprof

    monkeypatch.setattr(Watcher, "use_framework", lambda self: None)
    for name in (None, "tpuprof.watch", "tpuprof.watch.session"):
        if name:
            monkeypatch.setattr(tpuprof, "watch", importlib.import_module("tpuprof.watch"))
        with tpuprof.watch(tmp_path, job="any", capture=False):
            tpuprof.step(1)
            tpuprof.step(2)
    assert [each.steps for each in read_folder(tmp_path)] == [1, 1, 1]
