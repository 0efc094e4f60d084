"""The zoo's judge, its truths, and the few programs of it that are quick."""

import dataclasses
import importlib
import itertools
import sys
from pathlib import Path

import pytest

ZOO = Path(__file__).parents[2] / "scenarios" / "zoo"


@pytest.fixture(scope="module")
def zoo():
    sys.path.insert(0, str(ZOO))
    try:
        yield lambda name: importlib.import_module(f"runner.{name}")
    finally:
        sys.path.remove(str(ZOO))


def program(zoo, **changed):
    base = zoo("truth").Truth("a", "", "", verdicts=["host"], first=["sleep"], names=["sleeps"])
    return dataclasses.replace(base, **changed)


def said(zoo, **changed):
    base = zoo("judge").Answer(
        "host", 0.9, "The host sleeps.", "sleep", "It sleeps", "medium", median_ms=10.0
    )
    return dataclasses.replace(base, **changed)


def test_what_is_right_and_what_is_wrong(zoo):
    judge = zoo("judge").judge
    assert judge(program(zoo), said(zoo), "") == ("right", [])
    assert judge(program(zoo), said(zoo, bound="tracing"), "") == ("wrong", ["verdict tracing, not host"])
    word, faults = judge(program(zoo), said(zoo, first="tracing-bound", confidence="high"), "")
    assert word == "wrong"
    assert "with high confidence" in faults[0]
    word, faults = judge(program(zoo), said(zoo, sentence="The host waits.", first_title=""), "")
    assert (word, len(faults)) == ("wrong", 1)


def test_undecided_counts_only_where_it_is_allowed_and_names_a_true_candidate(zoo):
    judge = zoo("judge").judge
    answer = said(zoo, bound="undecided", sentence="Undecided: the host sleeps or traces.")
    assert judge(program(zoo), answer, "")[0] == "wrong"
    assert judge(program(zoo, undecided=["sleeps"]), answer, "")[0] == "undecided"
    assert judge(program(zoo, undecided=["compiles"]), answer, "")[0] == "wrong"
    assert (
        judge(program(zoo, undecided=["sleeps"]), dataclasses.replace(answer, confidence="high"), "")[0]
        == "wrong"
    )


def test_no_capture(zoo):
    judge = zoo("judge").judge
    assert judge(program(zoo), None, "")[0] == "not captured"
    crashed = program(zoo, captured=False, says="exit status 3")
    assert judge(crashed, None, "it ended with exit status 3") == ("right", [])
    assert judge(crashed, None, "never imported torch_xla")[0] == "wrong"
    assert judge(crashed, said(zoo), "")[0] == "wrong"


@pytest.mark.parametrize(
    ("own", "fine"), [(10.0, True), (14.9, True), (15.1, False), (6.7, True), (6.6, False)]
)
def test_steps_against_the_program_s_own_clock(zoo, own, fine):
    assert (zoo("judge").step_fault(said(zoo), own) == "") == fine


def test_steps_against_the_captured_steps_of_the_program_s_own_clock(zoo):
    fault = zoo("judge").step_fault
    ran_ahead = said(zoo, breakdown={"compute": 9.0, "tracing": 1.0})
    assert fault(ran_ahead, 1.0, 10.0) == ""
    assert "by the program's own clock 1.00 ms" in fault(ran_ahead, 1.0, 5.0)


def test_overhead_is_judged_only_where_runs_agree(zoo):
    overhead = zoo("overhead").overhead
    even = [([0.010] * 40, [0.010] * 40)] * 3
    assert overhead(even).word == "fine"
    assert overhead([([0.010] * 40, [0.0102] * 40)] * 3).word == "slow"
    wild = [([0.010] * 40, [0.010 * factor] * 40) for factor in (0.9, 1.0, 1.1)]
    assert overhead(wild).word == "unclear"
    assert overhead([([0.01] * 7, [0.01] * 7)]) is None
    one = [([0.010] * 40, [0.0103] * 40)]
    assert (overhead(one).half, overhead(one).word) == (None, "unclear")
    assert overhead(one, 0.001).word == "slow"
    assert overhead(one, 0.02).word == "unclear"


def test_the_cost_of_all_programs_is_known_better_than_that_of_one(zoo):
    over_all, between = zoo("overhead").over_all, zoo("overhead").between_runs
    noise = [0.02 * (at % 11 - 5) / 5 for at in range(66)]
    assert over_all(noise).word == "fine"
    assert over_all([each + 0.02 for each in noise]).word == "slow"
    assert over_all([5 * each for each in noise]).word == "unclear"
    assert over_all(noise[:11]) is None and between(noise[:11]) is None
    assert between(noise) == pytest.approx(0.0178, abs=0.001)
    # Three programs that are really slowed do not make the others' noise look larger.
    assert between([*noise[:63], 0.5, 0.5, 0.5]) == pytest.approx(between(noise), abs=0.002)


def test_steps_behind_the_capture_leave_out_the_one_in_which_it_ends(zoo):
    assert zoo("overhead").behind(list(range(20)), 3, 8) == [*range(12, 20)]


def test_programs_train_for_more_steps_where_their_cost_is_measured(zoo):
    longer = zoo("turns").longer
    assert longer("for step in range(40):\n    x = 40", 40, 3) == "for step in range(120):\n    x = 40"
    assert longer("train(max_steps=40)", 40, 2) == "train(max_steps=80)"
    assert longer("range(16 * 40)", 40, 2) == "range(16 * 80)"
    assert longer("range(140)", 40, 2) == "range(140)"


def test_programs_without_a_number_of_steps_get_more_data(zoo):
    larger = zoo("turns").larger
    assert larger("TensorDataset(torch.randn(320, 64), torch.zeros((320,)))  # 3200", "(320", 3) == (
        "TensorDataset(torch.randn(960, 64), torch.zeros((960,)))  # 3200"
    )
    assert larger("return 40 * 16", "40 * 16", 2) == "return 80 * 16"
    assert larger("range(4)", "", 2) == "range(4)"


def test_text_that_says_how_much_data_there_is_is_in_the_program(zoo):
    """Else it would train for no longer, and end before anything is measured."""
    truth = zoo("truth")
    for each in map(truth.load, truth.names()):
        texts = [path.read_text() for path in (ZOO / each.name).rglob("*.py")]
        assert any(each.sized_by in text for text in texts), each.name


SPY = """process 7:"python train.py";thread (7);<module> (/home/train.py:9);guarded (/pkg/tpuprof/cut.py:4) 12
process 7:"python train.py";thread (7);<module> (/home/train.py:9);forward (/home/train.py:3) 900
process 7:"python train.py";thread (7);<module> (/pkg/tpuprof/run.py:1);forward (/home/train.py:3) 50
process 7:"python train.py";thread (8);HiddenThread._run (/pkg/tpuprof/hidden.py:2);look (/pkg/tpuprof/hidden.py:3) 400
process 5:"python -m tpuprof capture -- python train.py";thread (5);wait (/pkg/tpuprof/run.py:8) 900
"""


def test_own_work_is_what_the_program_waits_for(zoo):
    """Not what own threads wait for: their time is what they take of a processor."""
    read = zoo("own_share").read
    before = {"5": 1.0, "7": 10.0, "8": 0.5}
    assert read(SPY, "/pkg/tpuprof/", before, {"5": 1.01, "7": 19.0, "8": 0.53}) == (12, pytest.approx(0.04))


@pytest.mark.parametrize(("own", "word"), [(0, "fine"), (15, "fine"), (18, "unclear"), (28, "slow")])
def test_own_work_is_fine_where_it_is_surely_below_one_percent(zoo, own, word):
    share = zoo("own_share").OwnShare("", own, 3000, 0.01, 10.0)
    assert share.word == word
    assert share.share == pytest.approx(own / 3000 + 0.001)
    assert share.at_most > share.share


def test_own_work_of_all_programs_says_which_is_the_most_and_which_is_not_sure(zoo, monkeypatch):
    page, share = zoo("page"), zoo("own_share").OwnShare
    told = {"a": share("", 6, 3000, 0.0, 10.0), "b": share("", 25, 3000, 0.0, 10.0), "c": None}
    monkeypatch.setattr(page.own_share, "kept", lambda truth: told[truth.name])
    truths = [program(zoo, name=name) for name in told]
    (said,) = page.own_work(truths)
    assert "sampled in 2 programs: median 0.52% of the time, most 0.83% (b)" in said
    assert said.endswith("Surely below 1 %: 1; not sure: b.")
    assert page.own_work(truths[2:]) == []


def test_turns_hold_ten_steps_within_bounds(zoo):
    turn_of = zoo("turns").turn_of
    assert [turn_of([step] * 9) for step in (0.003, 0.05, 0.5)] == [0.2, 0.5, 1.0]


def test_runs_that_take_turns_never_run_at_the_same_time(zoo, tmp_path):
    turns, start = zoo("turns"), zoo("execute").Start
    code = (
        "import sys, time\nmarks = []\n"
        "with open(sys.argv[1], 'w') as log:\n"
        "    while len(marks) < 300:\n        time.sleep(0.01)\n        marks.append(time.perf_counter())\n"
        "        print(marks[-1], file=log, flush=True)\n"
        "print('seconds', *(b - a for a, b in zip(marks, marks[1:])))"
    )
    logs = [tmp_path / "a", tmp_path / "b"]
    starts = [start([sys.executable, "-c", code, str(log)], tmp_path, {}) for log in logs]
    lengths = turns.in_turns(starts, 1.0, first=1)
    assert [len(each) for each in lengths] == [299, 299]
    marks = [(float(row), log.name) for log in logs for row in log.read_text("utf-8").split()]
    changes = sum(a[1] != b[1] for a, b in itertools.pairwise(sorted(marks)))
    assert 2 <= changes <= 12
    # A step in which the process was stopped is not compared.
    assert len(turns.undisturbed(lengths[0], 1.0)) < 299
    assert max(turns.undisturbed(lengths[0], 1.0)) < 1.0


def test_what_a_program_prints_about_time_is_not_compared(zoo):
    outcome = zoo("execute").read(0, "loss 1.5\n12.50 ms per step\nseconds 0.01 0.02\n", "", 1.0)
    assert outcome.printed == ["loss 1.5"]
    assert outcome.mean_ms == 12.5
    assert outcome.seconds == [0.01, 0.02]


def test_every_truth_can_be_read_and_every_cure_applies(zoo, tmp_path):
    truth = zoo("truth")
    for name in truth.names():
        told = truth.load(name)
        assert told.verdicts or not told.captured, name
        assert told.first or not told.captured, name
        for cure in told.cures:
            assert cure.saves_at_least is not None or cure.saves_at_most is not None, name
            zoo("execute")._copy(told, tmp_path, cure)


def test_programs_know_nothing_of_tpuprof(zoo):
    for name in zoo("truth").names():
        for path in (ZOO / name).rglob("*"):
            if path.is_file() and path.name != "truth.toml" and path.suffix != ".pyc":
                assert "tpuprof" not in path.read_text("utf-8"), path


def fast_programs():
    return [
        path.parent.name
        for path in sorted(ZOO.glob("*/truth.toml"))
        if "\nfast = true" in path.read_text("utf-8")
    ]


ANOTHER = pytest.mark.slow("another real capture; `make zoo` runs all programs")


@pytest.mark.torch_xla
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=ANOTHER if at else ()) for at, each in enumerate(fast_programs())]
)
def test_a_program_is_named_right(zoo, name, tmp_path):
    truth = zoo("truth").load(name)
    watched = zoo("execute").captured(truth, tmp_path, tmp_path / "run")
    assert watched.status == truth.status
    answer = zoo("keeper").analyze(tmp_path / "run")
    assert zoo("judge").judge(truth, answer, watched.messages) == ("right", [])
