"""Compiles of captured steps that come again, that never do, and those of which it is unknown."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.analysis.sections.usual_step import BESIDE_COMPILES_FROM
from tpuprof.model.compile.recurrence import (
    AFTER_PER_CAPTURED,
    EXPLAINS_FROM_SHARE,
    MIN_STEPS_AFTER,
    RETURNS_FROM_BEFORE,
    RETURNS_FROM_STEPS,
    STEADY_FROM_STEPS,
    AfterCapture,
    CompilingLine,
    History,
    Returns,
    late_of,
    returns,
    seen_after_capture,
)
from tpuprof.model.steps import Steps
from tpuprof.model.steps.table import StepSource
from tpuprof.render.facts import START_FROM_S, fact_lines
from tpuprof.safe_text import TO_SAFE

LINE, OTHER = "train (train.py:20)", "evaluate (train.py:7)"
DEFINED = "update (train.py:3)"


def after(steps, **lines):
    compiling = sum(lines.values())
    rows = {name.replace("_", " "): CompilingLine(cuts, cuts, 1.0 * cuts) for name, cuts in lines.items()}
    return AfterCapture(steps, compiling, compiling, 1.0 * compiling, 100.0, True, rows)


@pytest.mark.parametrize(("source", "compiling"), [(StepSource.READS, 7), (StepSource.CALLS, 1)])
def test_after_a_recording_by_the_clock_as_many_steps_count_as_fill_the_time(source, compiling):
    """Compiles in reads are noted together, as the program ends: there each graph is one."""
    steps = Steps(source, "medium", np.arange(3), np.arange(3) * 10**12, (np.arange(3) + 1) * 10**12, "")
    seen = AfterCapture(0, 1, 7, 0.0, 100.0, True, {"unknown": CompilingLine(1, 7, 0.0)})
    found = History([], seen).in_steps_like(steps).after
    assert (found.steps, found.compiling_steps, found.estimated) == (100, compiling, True)


def safe(text):
    return text.translate(TO_SAFE)


@pytest.mark.parametrize(
    ("steps", "answer"),
    [(MIN_STEPS_AFTER - 1, Returns.UNKNOWN), (MIN_STEPS_AFTER, Returns.NEVER)],
)
def test_how_many_steps_without_a_compile_show_that_none_comes(steps, answer):
    assert returns(LINE, 1, 8, after(steps)) is answer


@pytest.mark.parametrize(("more", "answer"), [(-1, Returns.UNKNOWN), (0, Returns.NEVER)])
def test_long_captures_need_more_steps_after_them(more, answer):
    assert returns(LINE, 1, 50, after(50 * AFTER_PER_CAPTURED + more)) is answer


def test_a_compile_of_the_same_line_is_a_return_and_of_another_is_not():
    rows = {LINE: CompilingLine(2, 2, 1.0)}
    seen = AfterCapture(100, 2, 2, 1.0, 10.0, True, rows)
    assert returns(LINE, 1, 8, seen) is Returns.YES
    assert returns(OTHER, 1, 8, seen) is Returns.NEVER
    assert returns("", 1, 8, seen) is Returns.YES


@pytest.mark.parametrize(
    ("steps", "answer"), [(15 + MIN_STEPS_AFTER, Returns.YES), (16 + MIN_STEPS_AFTER, Returns.NEVER)]
)
def test_compiles_that_ended_soon_after_the_capture_do_not_come_again(steps, answer):
    """A program for each of 32 batches, say: the first epoch compiles, and no other."""
    rows = {"unknown": CompilingLine(16, 76, 9.0, steps=list(range(16)))}
    seen = AfterCapture(steps, 16, 76, 9.0, 12.0, True, rows)
    assert returns("", 8, 8, seen) is returns(LINE, 8, 8, seen) is answer


@pytest.mark.parametrize(
    ("compiling", "answer"), [(RETURNS_FROM_STEPS - 1, Returns.UNKNOWN), (RETURNS_FROM_STEPS, Returns.YES)]
)
def test_the_capture_alone_shows_that_compiles_return(compiling, answer):
    assert returns(LINE, compiling, 2 * compiling, None) is answer
    assert returns(LINE, compiling, 2 * compiling + 1, None) is Returns.UNKNOWN


@pytest.mark.parametrize(
    ("before", "compiling", "captured", "answer"),
    [
        (RETURNS_FROM_BEFORE, 2, 2, Returns.YES),
        (RETURNS_FROM_BEFORE - 1, 2, 2, Returns.UNKNOWN),
        (RETURNS_FROM_BEFORE, 2, 5, Returns.UNKNOWN),
        (RETURNS_FROM_BEFORE, 0, 0, Returns.UNKNOWN),
    ],
)
def test_a_line_that_compiled_often_before_compiles_again(before, compiling, captured, answer):
    assert returns(LINE, compiling, captured, None, before) is answer


@pytest.mark.parametrize(
    ("compiling", "late", "answer"),
    [
        (STEADY_FROM_STEPS, STEADY_FROM_STEPS / 2, Returns.YES),
        (STEADY_FROM_STEPS - 1, STEADY_FROM_STEPS - 1, Returns.UNKNOWN),
        # One of nine is in the middle: a compile in every tenth step.
        (STEADY_FROM_STEPS + 1, STEADY_FROM_STEPS / 2, Returns.YES),
        # A set of shapes that is used up: most of them came early.
        (STEADY_FROM_STEPS, STEADY_FROM_STEPS / 2 - 1, Returns.UNKNOWN),
    ],
)
def test_compiles_that_come_as_often_late_as_early_keep_coming(compiling, late, answer):
    assert returns(LINE, compiling, 10 * compiling, None, late=int(late)) is answer


@pytest.mark.parametrize(
    ("again", "answer"), [(RETURNS_FROM_STEPS - 1, Returns.UNKNOWN), (RETURNS_FROM_STEPS, Returns.YES)]
)
def test_a_program_that_is_compiled_again_and_again_does_not_end(again, answer):
    """A jitted method of an object that each epoch makes again: "unknown whether compiles come again"."""
    assert returns(LINE, 4, 89, None, again=again) is answer
    assert returns(LINE, 4, 89, after(200), again=again) is Returns.NEVER


@pytest.mark.parametrize(("steps", "answer"), [(20, Returns.YES), (21, Returns.UNKNOWN)])
def test_they_have_stopped_where_none_came_for_two_of_their_gaps(steps, answer):
    assert returns(LINE, 8, 80, after(steps), late=4) is answer


def test_which_steps_are_late():
    assert late_of([3, 7, 12], np.arange(3, 13)) == 1
    assert late_of([8, 12], np.arange(3, 13)) == 2
    assert late_of([], np.zeros(0, int)) == 0


def run_folder(folder, count=8, compiling=(3,), later=None, around=(0, 0), busy=0, logs=0, wanted=None):
    """A run of steps of 1 ms, or 41 ms where one compiles for 40 ms; `later` is the count after the capture.

    `around` is how many compiling steps before and behind the captured ones have records of their own.
    `busy` is how long a device works in each step (us), if there is one, `logs` how long compiling ones log (us).
    `wanted` is the `--steps` of the capture.
    """
    trace = TraceBuilder()
    python = trace.host().line("python")
    device = trace.tpu(0).line("XLA Modules") if busy else None
    at = 0
    records = []
    for number in range(count):
        long = 41000 + logs if number in compiling else 1000
        python.event("train_step", at, long, _r=1, step_num=around[0] + number, tpuprof="step", origin="user")
        python.event("StepMarker", at + 900, 50)
        python.event("SyncLiveTensorsGraph", at + 900, 50)
        if device is not None:
            device.event("step(7)", at, busy)
        if number in compiling:
            python.event("XLAGraphExecutor::Compile", at + 950, 40000, graph_hash=f"hash{number}")
        compiles = [{"graphs": 1, "seconds": 0.008, "frames": [LINE]}] if number in compiling else []
        records.append(
            {
                "step": around[0] + number,
                "wall_ns": 10**6,
                "captured": True,
                "counters": {},
                "compiles": compiles,
            }
        )
        at += long
    trace.write(folder / "plugins" / "profile" / "one" / "host.xplane.pb")
    compiles = [{"graphs": 1, "seconds": 0.5, "frames": [LINE]}]
    others = [*range(around[0]), *range(around[0] + count, sum(around) + count)]
    records += [
        {"step": number, "wall_ns": 10**9, "captured": False, "counters": {}, "compiles": compiles}
        for number in others
    ]
    records.sort(key=lambda record: record["step"])
    notes = folder / "tpuprof"
    notes.mkdir()
    capture = {"capture": {"steps_wanted": wanted}} if wanted else {}
    (notes / "run.json").write_text(json.dumps({"schema": "tpuprof.run/1", "warnings": [], **capture}))
    (notes / "telemetry.host.0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    if later is not None:
        (notes / "after.host.0.json").write_text(json.dumps(later))
    return analyze_run(folder)


def later(steps, cuts=0, seconds=0.0, wall=10.0):
    line = {
        "cuts": cuts,
        "graphs": cuts,
        "seconds": seconds,
        "frames": [LINE],
        "steps": [5 + 19 * at for at in range(cuts)],
    }
    return {
        "steps": steps,
        "compiling_steps": cuts,
        "graphs": cuts,
        "seconds": seconds,
        "wall_seconds": wall,
        "ended": True,
        "lines": {LINE: line} if cuts else {},
    }


def finding(report, rule="recompiles-other"):
    return next(each for each in report.findings if each.rule == rule)


def test_a_compile_that_never_came_again_is_no_part_of_the_steps(tmp_path):
    report = run_folder(tmp_path, later=later(100))
    assert {row.wall_ms for row in report.steps.per_step} == {1.0}
    assert [row.index for row in report.steps.per_step] == [0, 1, 2, 4, 5, 6, 7]
    assert report.verdict.bound != "compile"
    (phase,) = report.phases
    assert (phase.name, phase.duration_ms, phase.step) == ("one-off compile", 41.0, 3)
    assert "100 steps after" in phase.evidence
    assert finding(report).status == "passed"
    assert "start-up cost" in finding(report).reason
    assert report.compiles[0].frames == [LINE]
    assert (report.compile_history.compiling_in, report.compile_history.returns) == (1, "never")


def compiling_later(steps, cuts):
    """So many steps of 1 ms after the capture, of which some compile for 40 ms, the last one too."""
    row = later(steps, cuts, 0.040 * cuts, (steps + 40 * cuts) / 1000)
    row["lines"][LINE]["steps"] = [steps * (at + 1) // cuts - 1 for at in range(cuts)]
    return row


def test_a_compile_that_returns_is_priced_by_its_true_rate(tmp_path):
    often = run_folder(tmp_path / "often", later=compiling_later(80, 10))
    rarely = run_folder(tmp_path / "rarely", later=compiling_later(80, 5))
    assert often.verdict.bound == rarely.verdict.bound == "compile"
    assert "of 80 steps after the capture" not in rarely.verdict.sentence
    one, half = finding(often), finding(rarely)
    assert one.status == half.status == "failed"
    assert half.evidence[-1].value == pytest.approx(6.25)
    assert often.compile_history.returns == "yes"


# Compiling takes 40 of the 48 ms captured (83 %), and half of that where 3.6 of 200 later steps compile.
@pytest.mark.parametrize(("cuts", "bound"), [(3, "undecided"), (4, "compile")])
def test_compiles_decide_unless_they_take_half_the_share_later(tmp_path, cuts, bound):
    assert run_folder(tmp_path, later=compiling_later(200, cuts)).verdict.bound == bound


def test_compiles_that_are_the_largest_cause_later_too_are_said_with_both_shares(tmp_path):
    """Where the device fills nearly all else of a step."""
    said = run_folder(tmp_path, later=compiling_later(1000, 5), busy=950).verdict
    assert said.bound == "compile"
    assert "compiles, which takes 83 % of the captured steps' time" in said.sentence
    assert said.sentence.endswith(
        " But only 5 of 1000 steps after the capture compile, which takes 17 % of the time there."
    )


# Eight of 1000 later steps compile for 40 ms: 0.32 ms per step. 50 us of each step are tracing.
@pytest.mark.parametrize(
    ("busy", "named"),
    [
        (950 - 320 * BESIDE_COMPILES_FROM - 10, True),
        (950 - 320 * BESIDE_COMPILES_FROM + 10, False),
    ],
)
def test_what_costs_about_as_much_in_the_other_steps_is_named_with_them(tmp_path, busy, named):
    """Metrics took 46 ms of steps of 58, later compiles 19: all that was said is that compiles take 25 %."""
    said = run_folder(tmp_path, later=compiling_later(1000, 8), busy=round(busy)).verdict
    assert said.bound == "compile"
    assert "But only 8 of 1000 steps after the capture compile" in said.sentence
    assert (" Without compiles: Undecided: " in said.sentence) == named


def test_the_usual_step_is_named_where_compiles_come_much_more_seldom_later(tmp_path):
    said = run_folder(tmp_path, later=compiling_later(400, 1)).verdict
    assert said.bound == "undecided"
    assert (
        "That is the mean step with as many compiles as come after the capture. 1 of 8 captured steps compiles (5.00 ms per "
        "step on average), but only 1 of 400 steps after the capture compiles, which takes 9.1 % of the time there."
    ) in said.sentence


def test_steps_that_all_compile_do_not_tell_what_a_step_is_without(tmp_path):
    said = run_folder(tmp_path, compiling=range(8), later=compiling_later(400, 1)).verdict
    assert said.bound == "compile"


def test_steps_behind_the_capture_are_none_before_it(tmp_path):
    """A capture of steps that compile is kept while a steadier part is looked for: those steps have records too."""
    found = run_folder(tmp_path, later=later(80, 10, 0.08), around=(4, 3)).compile_history
    assert (found.steps_before, found.compiling_before) == (4, 4)
    assert (found.graphs_before, found.seconds_before) == (4, 1.0)
    assert (found.steps_after, found.compiling_after) == (83, 13)
    assert found.seconds_after == pytest.approx(0.08 + 3 * 0.5)
    assert found.wall_seconds_after == pytest.approx(10 + 3)


def test_the_finding_counts_the_same_steps_after_the_capture_as_the_report(tmp_path):
    """Twelve steps were counted behind 36 that have records: all 48 came after the capture."""
    report = run_folder(tmp_path, later=later(12, 12, 6.0), around=(4, 36))
    assert (report.compile_history.steps_after, report.compile_history.compiling_after) == (48, 48)
    texts = [each.text for each in finding(report).evidence]
    assert "steps that compiled after the capture (48 of 48 steps)" in texts


@pytest.mark.parametrize(("last", "said"), [(15, True), (570, False)])
def test_the_verdict_says_where_only_the_first_steps_of_training_compile(tmp_path, last, said):
    """All captured steps compile, 16 after them too, and then none of hundreds; or one near the end as well."""
    steps = [*range(15), last]
    lines = {"unknown": {"cuts": 16, "graphs": 16, "seconds": 9.0, "frames": [], "steps": steps}}
    report = run_folder(tmp_path, compiling=range(8), later={**later(583, 16, 9.0), "lines": lines})
    assert report.verdict.bound == "compile"
    assert ("of 583 steps after them 16 compiled, and then none" in report.verdict.sentence) == said
    assert report.compile_history.returns == ("never" if said else "yes")


def test_steps_that_compile_right_behind_the_capture_are_among_those_after_it(tmp_path):
    """The capture went on looking for steady training: it noted those steps one by one, and counted later ones."""
    lines = {"unknown": {"cuts": 16, "graphs": 16, "seconds": 9.0, "frames": [], "steps": [*range(16)]}}
    counted = {**later(583, 16, 9.0), "lines": lines}
    report = run_folder(tmp_path / "all", compiling=range(8), later=counted, around=(0, 3))
    assert "of 586 steps after them 19 compiled, and then none" in report.verdict.sentence
    (phase,) = run_folder(tmp_path / "one", later=later(100), around=(0, 3)).phases
    assert "3 of 103 steps after compiled, and none of the last 100 steps" in phase.evidence


def test_steps_that_all_compile_are_the_first_ones_where_none_compiles_after_them(tmp_path):
    report = run_folder(tmp_path, compiling=range(8), later=later(100))
    assert (
        "none of 100 steps after them compiled. Capture later steps (`--warmup`)" in report.verdict.sentence
    )


@pytest.mark.parametrize("wanted", [None, 50])
def test_what_to_measure_next_agrees_that_later_steps_are_needed(tmp_path, wanted):
    """Also of a run that asked for many: more of the first steps would be no others."""
    lines = {"unknown": {"cuts": 16, "graphs": 16, "seconds": 9.0, "frames": [], "steps": [*range(16)]}}
    counted = {**later(583, 16, 9.0), "lines": lines}
    report = run_folder(tmp_path, compiling=range(8), later=counted, around=(0, 3), wanted=wanted)
    captures = [row.command for row in report.measure_next if "tpuprof capture" in row.command]
    first = 8 + 3 + 16
    assert captures and all(f" --warmup {first} -- " in each for each in captures if " --addr " not in each)
    assert "verdict" in report.measure_next[0].decides


def test_where_the_program_ends_at_once_both_answers_are_given(tmp_path):
    report = run_folder(tmp_path, later=later(2))
    said = "unknown whether compiles come again: none of 2 steps after these did. If not:"
    assert said in report.verdict.sentence
    assert "unknown whether compiles come again" in finding(report).title
    assert finding(report).confidence == "low"
    assert report.compile_history.returns == "unknown"


def by_the_clock(folder, compiling, later, *, framed=True, steps=8, before=(), between=()):
    """Eight calls of a jitted function, 1 ms each, without a marker; those that compile take 41 ms."""
    trace = TraceBuilder()
    python, runs = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    at = 0
    for number in range(steps):
        long = 41000 if number in compiling else 1000
        python.event("PjitFunction(update)", at, long - 100)
        if number in compiling:
            python.event("backend_compile_and_load", at + 10, 40000)
            if framed:
                told = {"frames": safe(f"{LINE};f (jax.py:3)"), "defined": safe(DEFINED)}
                python.event("tpuprof.compiled", at + 40020, 1, tpuprof="compiled", **told)
        runs.event("ThunkExecutor::Execute", at + long - 500, 300)
        at += long
    trace.write(folder / "plugins" / "profile" / "one" / "host.xplane.pb")
    notes = folder / "tpuprof"
    notes.mkdir()
    (notes / "run.json").write_text(json.dumps({"schema": "tpuprof.run/1", "warnings": []}))
    noted = {"step": -1, "wall_ns": 10**9, "captured": False, "counters": {}, "compiles": [*before]}
    rows = [noted, {**noted, "compiles": [*between], "repeats": True}]
    (notes / "telemetry.host.0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if later is not None:
        (notes / "after.host.0.json").write_text(json.dumps(later))
    return analyze_run(folder)


@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize(
    ("wall", "cuts", "answer"), [(30.0, 0, "never"), (0.02, 0, "unknown"), (30.0, 200, "yes")]
)
def test_without_steps_after_the_capture_its_time_tells_whether_a_compile_returns(
    tmp_path, wall, cuts, answer, framed
):
    """A step takes 6 ms on average: 5000 steps fit into half a minute, and 3 into 20 ms."""
    report = by_the_clock(tmp_path, (4,), later(0, cuts, wall=wall), framed=framed)
    assert report.compile_history.returns == answer
    assert report.compile_history.steps_after is None
    if answer == "never":
        assert "about 5010 steps after" in report.phases[0].evidence
    assert report.compiles[0].frames == ([LINE, "f (jax.py:3)"] if framed else [])
    assert report.compiles[0].defined == (DEFINED if framed else "")


def test_compiles_noted_before_a_short_recording_show_that_they_return(tmp_path):
    noted = {"graphs": 1, "seconds": 0.04, "frames": [LINE]}
    report = by_the_clock(tmp_path, (0, 1, 2, 3), None, steps=4, before=[noted] * RETURNS_FROM_BEFORE)
    assert report.compile_history.returns == "yes"


@pytest.mark.parametrize(
    ("count", "answer"), [(RETURNS_FROM_BEFORE, "yes"), (RETURNS_FROM_BEFORE - 1, "unknown")]
)
def test_compiles_between_recordings_show_that_they_return_and_prepare_nothing(tmp_path, count, answer):
    """A rate that changes with each step: eight recordings held compiles, and it was unknown whether they come again."""
    noted = {"graphs": 1, "seconds": 0.04, "frames": [LINE]}
    report = by_the_clock(tmp_path, (0, 1), None, steps=2, between=[noted] * count)
    assert report.compile_history.returns == answer
    assert report.compile_history.seconds_before == 0
    assert report.compile_history.graphs_before == 0


def test_a_compile_has_the_frames_noted_right_after_it(tmp_path):
    report = by_the_clock(tmp_path, (2, 5), None)
    assert [row.frames[0] for row in report.compiles] == [LINE, LINE]
    assert (report.compiles[0].cause.source_file, report.compiles[0].cause.source_line) == ("train.py", 20)


def test_compiles_outside_the_captured_steps_are_a_finding(tmp_path):
    report = run_folder(tmp_path, compiling=(), later=later(200, 10, 4.0))
    found = finding(report)
    assert found.status == "failed"
    assert "10 of 200 steps compiled: 40 % of that time" in found.title
    assert found.evidence[0].source == "train.py:20"
    assert found.savings is None
    assert "20.0 ms per step" in found.reason


def test_few_compiles_outside_the_captured_steps_are_none(tmp_path):
    assert finding(run_folder(tmp_path, compiling=(), later=later(200, 1, 0.9))).status == "passed"


def test_a_damaged_count_is_passed_over(tmp_path):
    assert run_folder(tmp_path, later={"steps": "many"}).steps.count == 8


def test_a_short_capture_keeps_its_steps(tmp_path):
    assert run_folder(tmp_path, count=3, later=later(100)).steps.count == 3


@pytest.mark.parametrize(
    ("fed", "wait"), [(False, 60), (True, 60), (True, 7)], ids=["ahead", "waits", "alone"]
)
def test_a_step_that_compiles_once_and_waits_for_what_was_handed_over_before_stays(tmp_path, fed, wait):
    """TorchTPU: eight steps of 1 ms call ops. The ninth reads: programs compile for 40 ms, and it waits for so long.

    Programs are handed over in each step (`fed`), or all of them after the compile. A wait of 7 ms proves no work.
    """
    whole, stays = 41_000 + wait * 1000, wait == 60
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("python  ")
    compiler = trace.host().line("tf_tt_compile/17")
    at, records = 0, []
    for number in range(9):
        long = whole if number == 8 else 1000
        python.event("train_step", at, long, _r=1, step_num=number, tpuprof="step", origin="user")
        python.event("aten::linear", at + 10, 300)
        if fed:
            run.event("ExecutionTask::Run", at + 350, 600)
        records.append(
            {"step": number, "wall_ns": long * 1000, "captured": True, "counters": {}, "compiles": []}
        )
        at += long
    begin = at - whole
    python.event("AtenLocalScalarDense", begin + 500, whole - 1000)
    compiler.event("PjRtCApiClient::CompileAndLoad(tt_jit_linear)", begin + 600, 40_000)
    for number in range(1 if fed else 9):
        run.event("ExecutionTask::Run", begin + 40_700 + 6600 * number, 6000)
    trace.write(tmp_path / "plugins" / "profile" / "one" / "host.xplane.pb")
    notes = tmp_path / "tpuprof"
    notes.mkdir()
    (notes / "run.json").write_text(json.dumps({"schema": "tpuprof.run/1", "warnings": []}))
    (notes / "telemetry.host.0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    (notes / "after.host.0.json").write_text(json.dumps(later(100)))
    report = analyze_run(tmp_path)
    (phase,) = report.phases
    assert (report.steps.count, phase.name) == (9 if stays else 8, "one-off compile")
    assert phase.duration_ms == pytest.approx(40.6 if stays else 48.0)
    assert report.run_summary.mean_step_ms == pytest.approx((8 + 60.4) / 9 if stays else 1.0)
    assert [row.step for row in report.compiles] == [None]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([], "none came again in 47 steps after"),
        ([6], "1 of 47 steps after compiled, and none of the last 40 steps"),
        ([2, 6], "2 of 47 steps after compiled, and none of the last 40 steps"),
    ],
)
def test_what_followed_is_said_as_it_was_counted(steps, said):
    """Layers dropped by chance: a number of layers that is new came once more, and compiles had ended then."""
    count = len(steps)
    rows = {"f (a.py:1)": CompilingLine(count, count, 1.9, ["f (a.py:1)"], steps)} if steps else {}
    after = AfterCapture(47, count, count, 1.9 * count, 2.5, True, rows)
    assert seen_after_capture("f (a.py:1)", after) == said


@pytest.mark.parametrize(("logs", "phases"), [(119_000, 1), (121_000, 0)])
def test_a_step_that_logs_and_compiles_a_little_is_no_start_up_cost(tmp_path, logs, phases):
    """A first log of 2 s that compiled for 21 ms was left out as "one-off compile, 2.01 s": the logs come again."""
    report = run_folder(tmp_path, later=later(100), logs=logs)
    assert EXPLAINS_FROM_SHARE == 40_000 / (40_000 + 120_000)
    assert (len(report.phases), report.steps.count) == (phases, 8 - phases)


@pytest.mark.parametrize(("seconds", "told"), [(START_FROM_S, True), (START_FROM_S - 0.1, False)])
def test_compiles_of_the_start_are_told_where_no_finding_is_about_them(tmp_path, seconds, told):
    """A list that grew compiled for 11.6 of 16 s before the captured steps, and the text had no word about it."""
    found = run_folder(tmp_path, later=later(80, 10, 0.08), around=(4, 3))
    history = replace(found.compile_history, seconds_before=seconds, source_before="train.py:9")
    said = [
        text for subject, text in fact_lines(replace(found, compile_history=history)) if subject == "Start"
    ]
    assert said == (
        ["4 graphs compiled before the captured steps, in 5.00 s, longest at train.py:9"] if told else []
    )


@pytest.mark.parametrize(("unnoted", "source"), [(8.9, "train.py:30"), (9.1, "")])
def test_no_line_of_the_start_is_named_where_reads_compiled_for_longer(tmp_path, unnoted, source):
    """Reads of L-BFGS compiled for 16 of 20 s before its capture, and nobody notes their lines."""
    run_folder(tmp_path, later=later(80, 10, 0.08), around=(4, 3))
    (notes,) = (tmp_path / "tpuprof").glob("telemetry.*")
    rows = [json.loads(line) for line in notes.read_text().splitlines()]
    first = next(row for row in rows if not row["captured"])
    first["compiles"] = [
        {"graphs": 1, "seconds": 9.0, "frames": ["step (train.py:30)"]},
        {"graphs": 3, "seconds": unnoted, "frames": []},
    ]
    notes.write_text("".join(json.dumps(row) + "\n" for row in rows))
    history = analyze_run(tmp_path).compile_history
    assert (history.source_before, history.graphs_before >= 4) == (source, True)
