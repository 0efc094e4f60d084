"""The live view: many hosts, slow ones, silent ones, anomalies with verdicts; and the history of runs."""

import io
import json

import pytest
from rich.console import Console

from tests.goodput.test_account import attempt
from tests.ledger.test_ledger import FakeClock
from tpuprof.errors import TpuprofError
from tpuprof.goodput.history import as_dict, first_regression, history_of
from tpuprof.goodput.history import render as render_history
from tpuprof.watch import follow
from tpuprof.watch.follow import read_jobs, render

NOW = 1_760_000_500.0


def status(folder, name, *, rank, own=0.2, best=0.2, age=1.0, ended="", job="job", **more):
    (folder / "status").mkdir(exist_ok=True)
    facts = {
        "job": job, "host": f"host-{rank}", "rank": rank, "wall_seconds": NOW - age, "step": 100, "ended": ended,
        "median_step_seconds": 0.25, "own_work_seconds": own, "own_best_seconds": best, "samples_per_second": 64.0,
        "last_anomalies": [], "problem": "",
    }  # fmt: skip
    (folder / "status" / f"{name}.json").write_text(json.dumps(facts | more))


def text_of(show, what):
    console = Console(width=200, record=True, file=io.StringIO())
    show(what, console)
    return console.export_text()


def test_hosts_are_scored_against_the_median_and_their_own_best(tmp_path):
    for rank in range(4):
        status(tmp_path, f"p{rank}", rank=rank, own=0.4 if rank == 2 else 0.2, best=0.2)
    (job,) = read_jobs(tmp_path, NOW)
    slowest = job.slowest()[0]
    assert (slowest.rank, slowest.relative, slowest.own_best) == (2, 0.5, 0.5)
    assert [each.relative for each in job.slowest()[1:]] == [1.0, 1.0, 1.0]
    assert job.samples_per_second == 256.0
    assert "host-2" in text_of(render, [job])


def test_a_silent_host_is_named_and_an_ended_one_is_not(tmp_path):
    status(tmp_path, "a", rank=0)
    status(tmp_path, "b", rank=1, age=90.0)
    status(tmp_path, "c", rank=2, age=90.0, ended="exit")
    (job,) = read_jobs(tmp_path, NOW)
    assert [each.rank for each in job.silent] == [1]
    # Of what a process said before it fell silent nothing counts.
    assert job.samples_per_second == 64.0
    assert "host-1 (rank 1): no sign of life for 1 min 30 s" in text_of(render, [job])


def test_of_a_rank_that_came_back_the_newest_process_counts(tmp_path):
    status(tmp_path, "old", rank=0, age=300.0)
    status(tmp_path, "new", rank=0, age=1.0, step=140)
    (job,) = read_jobs(tmp_path, NOW)
    assert (len(job.hosts), job.step, job.silent) == (1, 140, [])


def test_an_anomaly_stands_with_its_verdict_and_hostile_text_is_harmless(tmp_path):
    anomaly = {"kind": "recompile", "step": 40, "message": "step 40 compiled\x1b[2J [red]"}
    status(tmp_path, "a", rank=0, last_anomalies=[anomaly])
    where = tmp_path / "captures" / "a-recompile-40"
    where.mkdir(parents=True)
    (where / "verdict.json").write_text(
        json.dumps({"anomaly": anomaly, "capture": "Compile-bound: 9 of 10."})
    )
    text = text_of(render, read_jobs(tmp_path, NOW))
    assert "Verdict: Compile-bound: 9 of 10." in text
    assert "\x1b" not in text
    assert "[red]" in text


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"job": 3, "rank": "x", "wall_seconds": null, "step": "no"}']
)
def test_damaged_status_files_raise_nothing(tmp_path, content):
    status(tmp_path, "a", rank=0)
    (tmp_path / "status" / "b.json").write_text(content)
    assert read_jobs(tmp_path, NOW)[0].step == 100


def test_a_folder_without_a_job_is_an_error(tmp_path):
    with pytest.raises(TpuprofError, match="input-no-ledger"):
        read_jobs(tmp_path)


def test_a_thousand_hosts_are_read_by_one_ledger(tmp_path, monkeypatch):
    clock = FakeClock()
    attempt(tmp_path, clock, "p0", 1, 200)
    for rank in range(1000):
        status(tmp_path, f"p{rank}", rank=rank)
    read = []
    real = follow.read_ledger
    monkeypatch.setattr(follow, "read_ledger", lambda path: read.append(path) or real(path))
    (job,) = read_jobs(tmp_path, NOW)
    assert (len(job.hosts), len(read)) == (1000, 1)
    assert job.account.kept_steps == 200


def runs(folder, lengths, commits):
    clock = FakeClock()
    for at, (length, commit) in enumerate(zip(lengths, commits, strict=True)):
        ledger = attempt(folder, clock, f"run-{at}", 1, 40, setup=1)
        del ledger._rows[:]
        ledger.describe(commit=commit)
        from tpuprof.ledger.rows import Row

        for step in range(41, 200):
            ledger.add(Row(step, clock.now, int(length * 1e9)))
            clock.now += int(length * 1e9)
        ledger.close("exit")


def test_the_first_regression_is_named_by_commit(tmp_path):
    runs(
        tmp_path,
        [0.5, 0.51, 0.5, 0.51, 0.6, 0.6],
        ["a" * 40, "b" * 40, "c" * 40, "d" * 40, "e" * 40, "f" * 40],
    )
    (job,) = as_dict(history_of(tmp_path))["jobs"]
    assert job["first_regression"]["commit"] == "e" * 40
    assert job["first_regression"]["certain"]
    assert job["first_regression"]["ratio"] == pytest.approx(0.6 / 0.505, rel=0.02)
    text = text_of(render_history, history_of(tmp_path))
    assert "First regression: commit eeeeeeeeee" in text


@pytest.mark.parametrize(("last", "worse"), [(0.52, False), (0.53, True)])
def test_a_regression_is_five_percent(tmp_path, last, worse):
    runs(tmp_path, [0.5, 0.5, 0.5, last], [None] * 4)
    ((_, found),) = history_of(tmp_path).items()
    assert (first_regression(found) is not None) is worse


def test_with_few_runs_a_regression_says_that_it_may_be_noise(tmp_path):
    runs(tmp_path, [0.5, 0.6], [None, "b" * 40])
    assert "may be noise" in text_of(render_history, history_of(tmp_path))
