"""Comparisons of reports made by hand and of the samples."""

import dataclasses
import io
import json
import re

import numpy as np
import pytest
from markdown_it import MarkdownIt
from rich.console import Console
from typer.testing import CliRunner

from tests.report import golden, reports
from tpuprof.analysis.analyze import analyze_run
from tpuprof.cli.main import app
from tpuprof.compare.comparability import Weight
from tpuprof.compare.decision import Outcome
from tpuprof.compare.diff import MIN_CHANGE, MIN_CHANGE_CPU, counts_from, diff, said, signed_share
from tpuprof.compare.text import render, render_markdown
from tpuprof.report.labels import HELD_UP_ELSEWHERE
from tpuprof.share.redact import Redactor
from tpuprof.share.redacted_report import redacted


def walls(mean, seed=0, count=12, spread=0.01):
    return tuple(np.random.default_rng(seed).normal(mean, mean * spread, count))


def report(mean, seed=0, device=None, **more):
    made = reports.report(walls(mean, seed), **more)
    if device:
        made = dataclasses.replace(made, environment={**made.environment, "device_type": device})
    return made


def environment(made, **changes):
    return dataclasses.replace(made, environment={**made.environment, **changes})


def test_the_same_script_does_not_differ():
    comparison = diff(report(100, 1), report(100, 2))
    assert comparison.outcome is Outcome.SAME
    assert comparison.sentence.startswith("No difference beyond noise")


@pytest.mark.parametrize(("mean", "outcome"), [(130, Outcome.WORSE), (70, Outcome.BETTER)])
def test_a_clear_change_is_told_with_bounds(mean, outcome):
    comparison = diff(report(100, 1), report(mean, 2))
    assert comparison.outcome is outcome
    assert comparison.median.low < mean - 100 < comparison.median.high
    assert "95 % bounds" in comparison.sentence


def test_no_step_loses_more_than_it_has():
    """Bounds of a step of 398 ms ended at −504 ms."""
    uneven = (900.0, 40.0, 950.0, 60.0, 1000.0, 30.0)
    found = diff(reports.report(walls=uneven), reports.report(walls=walls(5, 1, 6)))
    assert found.mean.low == -found.mean.base
    assert found.mean.low < found.mean.delta < found.mean.high
    assert all(row.change.low >= -row.change.base for row in found.parts)


def test_steps_long_and_short_by_turns_do_not_differ_by_where_they_begin():
    steps = [7.0, 25.0, 7.4, 24.0, 6.8, 25.5, 7.1, 24.6, 7.2, 25.1]
    comparison = diff(reports.report(walls=(*steps, 7.0)), reports.report(walls=(*steps[1:], 7.0, 25.0)))
    assert comparison.outcome is Outcome.SAME
    assert comparison.steady.base == pytest.approx(comparison.steady.candidate, rel=0.02)


@pytest.mark.parametrize(("device", "threshold"), [("TPU v5p", MIN_CHANGE), ("CPU", MIN_CHANGE_CPU)])
def test_a_change_too_small_to_trust_is_none(device, threshold):
    def outcome(change):
        return diff(report(100, 1, device), report(100 * (1 + change), 1, device)).outcome

    assert outcome(threshold * 0.8) is Outcome.SAME
    assert outcome(threshold * 1.2) is Outcome.WORSE


@pytest.mark.parametrize(("device", "share"), [("TPU v5p", "5 %"), ("CPU", "60 %")])
def test_a_certain_change_that_is_too_small_is_not_called_noise(device, share):
    """The bounds beside the sentence exclude zero, so it says from which change on one counts, and why."""
    threshold = MIN_CHANGE_CPU if device == "CPU" else MIN_CHANGE
    comparison = diff(report(100, 1, device), report(100 * (1 + threshold * 0.8), 1, device))
    assert comparison.steady.low > 0
    assert comparison.sentence.startswith("No change that counts: ")
    assert "Two runs of the same script can differ as much" in comparison.sentence
    assert f"a change counts from {share} of the faster run's step on" in comparison.sentence


def test_a_part_whose_bounds_exclude_zero_is_not_called_noise():
    """It read "−10.8 ms to −6.84 ms within noise"."""
    found = diff(report(100, 1), report(101.5, 1))
    small = next(row for row in found.parts if row.change.beyond_noise)
    assert not small.changed
    assert said(small.change, small.changed) == "too small to count"
    told = io.StringIO()
    render(found, Console(file=told, width=200))
    assert re.search(rf"{small.name} .*too small to count", told.getvalue())
    assert [said(each.change, each.changed) for each in diff(report(100, 1), report(100, 2)).parts] == [
        "within noise"
    ] * len(found.parts)


def test_a_cured_finding_is_named_with_gain_and_prediction():
    comparison = diff(
        report(100, 1, findings=[reports.finding()]),
        report(60, 2, findings=[reports.finding(status="passed", severity=0.0)]),
    )
    (row,) = comparison.findings
    assert (row.rule, row.what, row.predicted_ms) == ("recompilation", "fixed", (12.0, 18.5))
    assert "Fixed: Input shapes change" in comparison.sentence
    assert "Better: 100" in comparison.sentence or "Better: 99" in comparison.sentence


def test_new_changed_and_unchecked_findings():
    def only(before, after):
        found = diff(report(100, 1, findings=before), report(100, 2, findings=after)).findings
        return [row.what for row in found]

    failed, mild = reports.finding(severity=0.3), reports.finding(severity=0.28)
    assert only([], [failed]) == ["new"]
    assert only([failed], [mild]) == []
    assert only([failed], [reports.finding(severity=0.1)]) == ["changed"]
    assert only([failed], [reports.finding(status="unavailable")]) == ["gone, but not checked"]
    assert only([failed], []) == ["gone, but not checked"]
    hidden = reports.finding(status="passed", reason=f"it gains little: {HELD_UP_ELSEWHERE}")
    assert only([failed], [hidden]) == ["gone, but only hidden"]


def test_one_compile_where_there_was_none_is_worse_and_the_other_way_better():
    clean = report(10, 1)
    stalled = reports.report((*walls(10, 2, 11), 500.0), compiles=((11, 490.0),))
    assert diff(clean, stalled).outcome is Outcome.WORSE
    assert "Compiles: 0 in 12 steps, now 1 in 12" in diff(clean, stalled).sentence
    assert diff(stalled, clean).outcome is Outcome.BETTER
    assert diff(stalled, stalled).outcome is Outcome.SAME


def test_a_few_steps_judge_nothing():
    """Three times as slow, in captures of three steps: no bounds, so neither worse nor the same."""
    comparison = diff(reports.report((10.0, 10.1, 9.9)), reports.report((30.0, 30.1, 29.9)))
    assert comparison.outcome is Outcome.UNKNOWN
    assert comparison.sentence.startswith("Cannot be judged: fewer than 4 steps say nothing of their spread.")
    assert "The estimate is 10.0 ms to 30.0 ms per step (+200.0 %" in comparison.sentence
    assert "difference" not in comparison.sentence
    # One step more, and it is clear.
    assert (
        diff(reports.report((10.0, 10.1, 9.9, 10.0)), reports.report((30.0, 30.1, 29.9, 30.0))).outcome
        is Outcome.WORSE
    )


def test_a_large_change_with_wide_bounds_is_not_called_none():
    uneven = (10.0, 10.0, 10.0, 100.0, 10.0)
    comparison = diff(reports.report((10.0, 10.1, 9.9, 10.2, 10.0)), reports.report(uneven))
    assert comparison.outcome is Outcome.UNKNOWN
    assert "could be chance" in comparison.sentence


def test_compiles_are_not_blamed_where_steps_decide():
    """Steps are three times as slow, and one compiles: the steps decide, and the compile is left out of their times."""
    slow = reports.report((*walls(30, 2, 11), 530.0), compiles=((11, 500.0),))
    comparison = diff(report(10, 1), slow)
    assert comparison.outcome is Outcome.WORSE
    assert comparison.sentence.startswith("Worse: 10.0 ms to 30.")
    assert "compiles left out. Compiles: 0 in 12 steps, now 1 in 12." in comparison.sentence
    assert "by its compiles" not in comparison.sentence


def test_steps_and_compiles_that_disagree_without_a_clear_mean_are_not_judged():
    fast = reports.report((*walls(5, 2, 11), 150.0), compiles=((11, 145.0),))
    comparison = diff(report(10, 1), fast)
    assert comparison.outcome is Outcome.UNKNOWN
    assert "opposite directions" in comparison.sentence


def test_two_scripts_are_not_a_fair_comparison():
    base = report(100, 1)
    info = {**base.environment["run"], "command_line": ["/a/train.py", "--lr", "1"]}

    def differs(*command_line, ops=base.ops):
        other = environment(base, run={**info, "command_line": list(command_line)})
        found = diff(environment(base, run=info), dataclasses.replace(other, ops=ops)).unlike
        return {each.what: each.weight for each in found}

    assert differs("/b/train.py", "--lr", "1") == {}
    assert differs("/a/train.py", "--lr", "2") == {"arguments": Weight.NOTE}
    assert differs("/a/other.py", "--lr", "1") == {"script": Weight.CARE}
    # The same name, and other ops on the device.
    foreign = [dataclasses.replace(op, name=f"another-{op.name}") for op in base.ops]
    assert differs("/a/train.py", "--lr", "1", ops=foreign) == {"device ops": Weight.CARE}
    unnamed = diff(environment(base, run={}), environment(base, run={}))
    assert {each.what: each.weight for each in unnamed.unlike} == {"script": Weight.NOTE}


def test_unlike_runs_are_told_before_any_number():
    base = report(100, 1)
    other = environment(base, device_type="TPU v6 lite", device_count=8)
    weights = {each.what: each.weight for each in diff(base, other).unlike}
    assert weights == {"device type": Weight.CARE, "device count": Weight.CARE}
    assert "Note what else differs: device type, device count" in diff(base, other).sentence
    run = {
        **base.environment["run"],
        "versions": {"torch_xla": "2.8.0"},
        "environment": {"XLA_FLAGS": "--xla_a=c"},
    }
    weights = {each.what: each.weight for each in diff(base, environment(base, run=run)).unlike}
    assert weights == {"torch_xla": Weight.CARE, "XLA_FLAGS": Weight.NOTE, "PJRT_DEVICE": Weight.NOTE}


def test_a_variable_that_jax_sets_by_itself_is_no_difference():
    base = report(100, 1)
    run = {**base.environment["run"], "environment": {"TPU_SKIP_MDS_QUERY": "1", "TPU_VISIBLE_CHIPS": "0"}}
    bare = {**run, "environment": {}}
    found = {each.what for each in diff(environment(base, run=bare), environment(base, run=run)).unlike}
    assert found == {"TPU_VISIBLE_CHIPS"}


def test_a_private_value_is_no_difference_to_a_saved_report():
    """The baseline of CI is a saved report: it says `path-1` for a path, whose number another report may not have."""

    def run(library, flags=""):
        stated = {"TPU_LIBRARY_PATH": f"{library}/site-packages/libtpu/libtpu.so", "XLA_FLAGS": flags}
        facts = {"environment": stated, "command_line": ["train.py", "--data", f"{library}/data"]}
        return dataclasses.replace(environment(report(100, 1), run=facts), redactions=None)

    def sent(made, *before):
        redactor = Redactor()
        for text in before:
            redactor.text(text)
        return redacted(made, redactor)

    def differs(base, candidate):
        return [each.what for each in diff(base, candidate).unlike]

    here = run("/home/ann/lib/python3.11")
    saved = sent(here, "/home/ann/first/x.py")
    assert "path-2/site-packages" in saved.environment["run"]["environment"]["TPU_LIBRARY_PATH"]
    assert differs(saved, here) == differs(here, saved) == []
    assert differs(saved, sent(here)) == []
    assert differs(saved, run("/home/ann/lib/python3.11", "--xla_dump")) == ["XLA_FLAGS"]
    assert differs(here, run("/home/bob/lib/python3.11")) == ["arguments", "TPU_LIBRARY_PATH"]


def test_another_batch_size_shows_in_the_work_of_a_step():
    base = report(100, 1)
    twice = dataclasses.replace(base.compute, flops_per_step=2 * base.compute.flops_per_step)
    assert [each.what for each in diff(base, dataclasses.replace(base, compute=twice)).unlike] == [
        "work per step"
    ]


@pytest.mark.parametrize(
    "change",
    [{"predicted": True}, {"steps": reports.report(()).steps}, {"steps": reports.without_steps().steps}],
)
def test_what_cannot_be_compared_is_not(change):
    comparison = diff(report(100, 1), dataclasses.replace(report(100, 2), **change))
    assert comparison.outcome is Outcome.UNFAIR
    assert comparison.median is None
    json.dumps(comparison.to_dict(), allow_nan=False)


def test_ops_are_matched_across_programs_and_numbers():
    base = report(10, 1)
    ops = [
        dataclasses.replace(
            op, name=op.name.replace(".1", ".77"), program="graph(9)", source=op.source.replace(":12", ":15")
        )
        for op in base.ops
    ]
    assert diff(base, dataclasses.replace(base, ops=ops)).ops == []
    slower = [dataclasses.replace(op, self_ms=op.self_ms * 3) if op.name == "dot.77" else op for op in ops]
    (row,) = diff(base, dataclasses.replace(base, ops=slower)).ops
    assert (row.op, row.where) == ("dot", "layers.0")
    assert row.candidate_ms == pytest.approx(3 * row.base_ms)


@pytest.mark.parametrize(("share", "said"), [(9.9, "+990 %"), (10.1, ""), (-0.5, "−50 %"), (None, "")])
def test_a_change_relative_to_next_to_nothing_has_no_percentage(share, said):
    assert signed_share(share) == said


def test_ops_outside_of_steps_are_no_change_of_a_step():
    base = report(10, 1)
    inside = [dataclasses.replace(op, self_ms_per_step=1.0) for op in base.ops]
    more = [dataclasses.replace(op, self_ms=op.self_ms * 3) for op in inside]
    assert diff(dataclasses.replace(base, ops=inside), dataclasses.replace(base, ops=more)).ops == []


def busy(made, share):
    run = {**made.environment["run"], "capture": {"cpu_wait_share": share}}
    return environment(made, run=run)


@pytest.mark.parametrize(("share", "outcome"), [(0.09, Outcome.WORSE), (0.5, Outcome.SAME)])
def test_a_busy_machine_explains_what_its_waiting_can_explain(share, outcome):
    """Half the time waiting for a CPU doubles a step: 50 % more is then no change, 150 % more is."""
    comparison = diff(report(100, 1), busy(report(150, 2), share))
    assert comparison.outcome is outcome
    assert ("busy machine" in comparison.sentence) == (outcome is Outcome.SAME)
    assert ("so this says nothing" in comparison.sentence) == (outcome is Outcome.SAME)
    assert diff(report(100, 1), busy(report(250, 2), share)).outcome is Outcome.WORSE


def test_from_which_change_on_it_counts_is_said_in_words():
    assert counts_from(diff(report(100, 1), report(150, 2))) == (
        "A change counts from 5 % of the faster run's step on, with bounds that exclude zero."
    )
    assert counts_from(diff(report(100, 1), busy(report(150, 2), 0.9))) == (
        "Other work on the machine may have made the steps of a run 10 times as long, so only a larger change counts, "
        "with bounds that exclude zero."
    )


def test_goldens():
    base = report(100, 1, findings=[reports.finding()])
    candidate = report(80, 2, findings=[reports.finding("device-to-host-sync", title="A value is read back")])
    candidate = environment(candidate, libtpu="0.0.22", device_count=8)
    comparison = diff(base, candidate)
    console = Console(width=120, record=True, file=io.StringIO(), highlight=False)
    render(comparison, console)
    golden.same("diff.txt", "\n".join(line.rstrip() for line in console.export_text().splitlines()) + "\n")
    golden.same("diff.md", render_markdown(comparison))
    golden.same("diff.json", json.dumps(comparison.to_dict(), indent=1) + "\n")


def test_hostile_names_stay_text():
    base = reports.hostile()
    comparison = diff(base, reports.report(walls(30)))
    text = render_markdown(comparison)
    assert not re.search(r"<img", MarkdownIt().enable("table").render(text))
    console = Console(width=200, record=True, file=io.StringIO())
    render(comparison, console)
    assert "\x00" not in console.export_text()


def command(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.mark.parametrize(("mean", "count", "status"), [(100, 12, 0), (150, 12, 1), (50, 12, 0), (300, 3, 4)])
def test_exit_status_of_the_command(tmp_path, mean, count, status):
    from tpuprof.report.as_json import to_json

    (tmp_path / "base.json").write_text(to_json(report(100, 1)), "utf-8")
    (tmp_path / "new.json").write_text(to_json(reports.report(walls(mean, 2, count))), "utf-8")
    for option in ((), ("--json",), ("--md",)):
        assert command("diff", tmp_path / "base.json", tmp_path / "new.json", *option).exit_code == status


def test_a_real_run_compares_with_its_own_bundle(samples, tmp_path):
    assert command("report", samples / "decoder_loop", "-o", tmp_path / "r.zip").exit_code == 0
    done = command("diff", samples / "decoder_loop", tmp_path / "r.zip", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["outcome"] == Outcome.SAME.value


def test_a_script_and_its_cured_twin(samples):
    """Reading the loss back each step makes host and device take turns; the same model without it does not."""
    comparison = diff(analyze_run(samples / "recompile_shapes"), analyze_run(samples / "decoder_loop"))
    assert comparison.compiles.base == 1
    assert comparison.compiles.candidate == 0
    assert comparison.compiles.outcome is Outcome.BETTER


def test_a_real_run_and_its_cured_twin(samples):
    """The samples with and without a changing shape: the finding that went, and the compile time with it."""
    found = diff(analyze_run(samples / "recompile_shapes"), analyze_run(samples / "decoder_loop"))
    assert [each.rule for each in found.findings if each.what == "fixed"] == ["recompiles-shape"]
    assert found.outcome == Outcome.BETTER
    compiled = next(each.change for each in found.parts if each.name == "compile")
    assert compiled.candidate == 0
    assert compiled.low == compiled.delta == -compiled.base < -100


def test_two_predictions_are_called_that_and_have_no_bounds():
    base, slower = (
        dataclasses.replace(reports.report(walls=(mean,) * 4), predicted=True) for mean in (100.0, 130.0)
    )
    same, worse = diff(base, base), diff(base, slower)
    assert (same.outcome, worse.outcome) == (Outcome.SAME, Outcome.WORSE)
    assert diff(slower, base).outcome is Outcome.BETTER
    # 5 % of the faster run's step, whichever of the two is the base.
    for mean, outcomes in ((105.1, (Outcome.WORSE, Outcome.BETTER)), (104.9, (Outcome.SAME,) * 2)):
        other = dataclasses.replace(reports.report(walls=(mean,) * 4), predicted=True)
        assert (diff(base, other).outcome, diff(other, base).outcome) == outcomes
    for each in (same, worse):
        assert each.predicted
        assert each.sentence.startswith("Predicted, not measured")
        text = render_markdown(each) + text_of(each)
        assert "bounds:" not in text
        assert "95 %" not in text
        assert "noise" not in text
    assert worse.median.delta == pytest.approx(30.0)
    assert worse.to_dict()["median"]["low"] is None


def text_of(comparison):
    out = io.StringIO()
    render(comparison, Console(file=out, width=100))
    return out.getvalue()


@pytest.mark.parametrize(("given", "env"), [(True, {}), (False, {"TPUPROF_BASE": "BASE"})])
def test_analyze_says_what_changed_since_the_base(samples, given, env):
    import json

    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.cli.main import app
    from tpuprof.compare.diff import diff

    base, run = samples / "recompile_shapes", samples / "decoder_fsdpv2"
    more = ["--base", str(base)] if given else []
    variables = {name: str(base) for name in env}
    expected = diff(analyze_run(base), analyze_run(run))

    def printed(*options):
        done = CliRunner().invoke(app, ["analyze", str(run), *options, *more], env=variables)
        assert done.exit_code == 0, done.output
        return done.stdout

    text = printed("--no-cache")
    assert "Against the base run" in text
    assert text.index("Collective-bound") < text.index("Better by its compiles")
    assert "### tpuprof diff: Better by its compiles" in printed("--md")
    whole = json.loads(printed("--json"))
    assert whole["schema"] == "tpuprof.report/1"
    assert whole["comparison"] == json.loads(json.dumps(expected.to_dict()))
