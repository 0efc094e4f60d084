"""The account of a job: pieces that sum to the wall time, over crashes, resumes, clock jumps and strange rows."""

import itertools
from io import StringIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.ledger.test_ledger import SECOND, FakeClock
from tpuprof.goodput.account import account
from tpuprof.goodput.attempts import attempt_of, series
from tpuprof.goodput.jobs import as_dict, duration, goodput_of, render
from tpuprof.ledger import blocks
from tpuprof.ledger.reader import read_folder
from tpuprof.ledger.rows import Row
from tpuprof.ledger.writer import LedgerWriter


def attempt(folder, clock, name, first, last, *, close=None, setup=10, job="job", rank=0, lost=0, **parts):
    """One process: `setup` seconds until the runtime is up, as many until the first step, steps of a second."""
    meta = {
        "job": job,
        "rank": rank,
        "host": name,
        "started_ns": clock.now,
        "command": ["python", "train.py"],
    }
    ledger = LedgerWriter(folder, name, meta, clock)
    ledger.flush()
    clock.now += setup * SECOND
    ledger.event("runtime_ready")
    clock.now += setup * SECOND
    for step in range(first, last + 1):
        ledger.add(Row(step, clock.now, SECOND, **parts))
        clock.now += SECOND
    ledger.flush()
    clock.now += int(lost * SECOND)
    if close:
        ledger.close(close)
    else:
        ledger.flush()
    return ledger


def seconds(folder):
    (job,) = as_dict(goodput_of(folder))["jobs"]
    return job


def test_a_crash_and_a_resume(tmp_path):
    clock = FakeClock()
    begin = clock.now
    attempt(tmp_path, clock, "a", 1, 50, lost=0.5)
    clock.now += 120 * SECOND
    attempt(tmp_path, clock, "b", 41, 100, close="exit", compile_us=200_000, input_us=100_000)
    job = seconds(tmp_path)
    assert job["wall_seconds"] == (clock.now - begin) / SECOND
    assert sum(job["seconds"].values()) == job["wall_seconds"]
    assert job["seconds"] == {
        "productive": 40 + 60 * 0.7,
        "tpu_initialization": 20,
        "training_prep": 20,
        "data_loading_sync": 6,
        "program_startup": 12,
        "unproductive_checkpoint_save_time": 0,
        "unproductive_checkpoint_restore_time": 0,
        "wasted_progress_from_disruption": 10.5,
        "infrastructure_recovery_from_disruption": 120,
        "custom_badput_events": 0,
        "other": 0,
    }
    assert (job["kept_steps"], job["wasted_steps"], job["last_step"], job["disruptions"]) == (100, 10, 100, 1)


def test_a_resume_from_an_older_checkpoint_wastes_steps_of_all_attempts_before(tmp_path):
    clock = FakeClock()
    attempt(tmp_path, clock, "a", 1, 50)
    attempt(tmp_path, clock, "b", 41, 60)
    attempt(tmp_path, clock, "c", 11, 70, close="exit")
    job = seconds(tmp_path)
    assert (job["kept_steps"], job["wasted_steps"]) == (70, 60)


def unnumbered(tmp_path, *, save, restore):
    clock = FakeClock()
    first = attempt(tmp_path, clock, "a", 1, 50)
    first.describe(numbered=False)
    if save:
        first.event("span", clock.now - 11 * SECOND, name="save", until_ns=clock.now - 10 * SECOND)
    first.flush()
    clock.now += 60 * SECOND
    second = attempt(tmp_path, clock, "b", 1, 40)
    second.describe(numbered=False)
    if restore:
        second.event("span", clock.now - 45 * SECOND, name="restore", until_ns=clock.now - 44 * SECOND)
    second.close("exit")
    return seconds(tmp_path)


def test_without_step_numbers_the_last_checkpoint_says_what_was_done_again(tmp_path):
    job = unnumbered(tmp_path, save=True, restore=True)
    assert (job["kept_steps"], job["wasted_steps"], job["last_step"]) == (80, 10, None)
    assert any("no numbers" in note for note in job["notes"])


@pytest.mark.parametrize(("save", "restore"), [(False, False), (True, False), (False, True)])
def test_without_numbers_or_checkpoints_it_is_unknown_and_said(tmp_path, save, restore):
    job = unnumbered(tmp_path, save=save, restore=restore)
    assert job["wasted_steps"] == 0
    assert any("unknown which steps" in note for note in job["notes"])


def test_phases_and_checkpoints_are_taken_out_of_the_steps_they_lie_in(tmp_path):
    clock = FakeClock()
    ledger = attempt(tmp_path, clock, "a", 1, 50)
    at = clock.now - 30 * SECOND
    ledger.event("span", at, name="save", until_ns=at + 2 * SECOND)
    ledger.event("span", at + 4 * SECOND, name="evaluation", until_ns=at + 9 * SECOND)
    ledger.event("span", clock.now, name="save", until_ns=clock.now + 3 * SECOND)
    clock.now += 3 * SECOND
    ledger.close("exit")
    job = seconds(tmp_path)
    assert job["seconds"]["unproductive_checkpoint_save_time"] == 5
    assert job["custom_seconds"]["evaluation"] == 5
    assert job["seconds"]["productive"] == 43
    assert sum(job["seconds"].values()) == job["wall_seconds"]


def test_a_step_that_hung_is_a_stall(tmp_path):
    clock = FakeClock()
    ledger = attempt(tmp_path, clock, "a", 1, 20)
    ledger.add(Row(21, clock.now, 300 * SECOND))
    clock.now += 300 * SECOND
    ledger.close("exit")
    assert seconds(tmp_path)["custom_seconds"]["stall"] == 299


def test_a_jump_of_the_clock_moves_no_time_from_kind_to_kind(tmp_path):
    clock = FakeClock()
    ledger = attempt(tmp_path, clock, "a", 1, 10)
    clock.offset += 7200 * SECOND
    clock.now += SECOND
    ledger.flush()
    clock.now += 60 * SECOND
    attempt(tmp_path, clock, "b", 11, 20, close="exit")
    job = seconds(tmp_path)
    assert job["wall_seconds"] == 30 + 1 + 60 + 30
    assert job["seconds"]["infrastructure_recovery_from_disruption"] == 60
    assert any("jumped by +7200.0 s" in note for note in job["notes"])


def test_two_jobs_in_one_folder_are_two_accounts(tmp_path):
    clock = FakeClock()
    attempt(tmp_path, clock, "a", 1, 10, job="first", close="exit")
    attempt(tmp_path, clock, "b", 1, 20, job="second", close="exit")
    jobs = as_dict(goodput_of(tmp_path))["jobs"]
    assert [(job["job"], job["kept_steps"], job["disruptions"]) for job in jobs] == [
        ("first", 10, 0),
        ("second", 20, 0),
    ]


def test_a_rank_goes_on_when_it_comes_back_on_another_host(tmp_path):
    start = FakeClock()
    for rank in range(3):
        clock = FakeClock()
        attempt(tmp_path, clock, f"old-{rank}", 1, 10, rank=rank)
        clock.now += 5 * SECOND
        attempt(tmp_path, clock, f"new-{rank}", 11, 20, rank=rank, close="exit")
    (lanes,) = series(read_folder(tmp_path)).values()
    assert [[each.name for each in lane] for lane in lanes] == [
        [f"old-{rank}", f"new-{rank}"] for rank in range(3)
    ]
    assert seconds(tmp_path)["processes"] == 3
    assert start.now < clock.now


whole_numbers = st.integers(-(2**40), 2**40)
columns = st.lists(
    st.tuples(whole_numbers, whole_numbers, whole_numbers, whole_numbers, whole_numbers), max_size=30
)


@settings(max_examples=50, deadline=None)
@given(st.lists(columns, min_size=1, max_size=3))
def test_whatever_the_rows_say_the_kinds_sum_to_the_wall_time(tmp_path_factory, attempts):
    folder = tmp_path_factory.mktemp("any")
    clock = FakeClock()
    for at, rows in enumerate(attempts):
        ledger = LedgerWriter(folder, f"p{at}", {"job": "j", "rank": 0, "started_ns": clock.now}, clock)
        ledger.flush()
        for step, start, length, compile_us, input_us in rows:
            ledger.add(Row(step, clock.now + start, length, compile_us=compile_us, input_us=input_us))
        clock.now += 100 * SECOND
        ledger.flush()
    found = [attempt_of(each) for each in read_folder(folder)]
    total = account(found)
    assert min(total.kinds.values()) >= 0
    ends = [each.end_ns - each.start_ns for each in found]
    gaps = [max(0, b.start_ns - a.wall_end_ns) for a, b in itertools.pairwise(found)]
    assert total.wall_ns == sum(ends) + sum(gaps)
    assert all((np.diff(each.steps.start_ns) >= 0).all() for each in found)


def told(folder):
    console = Console(file=StringIO(), width=200)
    render(goodput_of(folder), console)
    return console.file.getvalue()


def damage(path):
    """Put zeros where the steps were."""
    whole, _ = blocks.decode(path.read_bytes())
    kept = [blocks.encode(each.kind, each.payload) for each in whole if each.kind != blocks.Kind.STEPS]
    path.write_bytes(b"".join(kept) + bytes(1000))


def test_the_goodput_of_a_damaged_ledger_is_unknown(tmp_path):
    clock = FakeClock()
    attempt(tmp_path, clock, "a", 1, 500, close="exit")
    attempt(tmp_path, clock, "b", 501, 600, close="exit")
    damage(tmp_path / "ledgers" / "a.ledger")
    job = seconds(tmp_path)
    assert [each["steps"] for each in job["attempts"]] == [0, 100]
    assert job["goodput"] is None
    assert sum(job["seconds"].values()) == job["wall_seconds"]
    assert not any("no step was seen" in note for note in job["notes"])
    assert "no step of it can be read" in told(tmp_path).splitlines()[0]


def test_the_text_names_jobs_and_hides_what_took_no_time(tmp_path):
    clock = FakeClock()
    attempt(tmp_path, clock, "a", 1, 50, close="exit", job="one")
    assert "Job" not in told(tmp_path)
    attempt(tmp_path, clock, "b", 1, 50, close="exit", job="two")
    text = told(tmp_path)
    assert [line for line in text.splitlines() if line.startswith("Job")] == ["Job one", "Job two"]
    assert "1 attempt," in text
    assert "stall" not in text


def test_durations_are_for_people():
    assert [duration(each * 1e9) for each in (1.26, 65, 3 * 3600 + 420, 3 * 86400)] == [
        "1.3 s",
        "1 min 5 s",
        "3 h 7 min",
        "3 d 0 h",
    ]
