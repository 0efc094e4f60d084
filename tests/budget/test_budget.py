"""Budgets held against reports, and what is printed of it."""

import dataclasses
import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.report import golden, reports
from tpuprof.budget.check import Level, Status, check, read_budget
from tpuprof.budget.output import github_annotations, junit, render
from tpuprof.budget.quantities import SIGNALS
from tpuprof.cli.main import app
from tpuprof.errors import TpuprofError
from tpuprof.report.as_json import to_json

ROOT = Path(__file__).resolve().parents[2]


def budget(folder, text):
    path = folder / "tpuprof.toml"
    path.write_text(text, "utf-8")
    return path


def results(folder, text, report=None, baseline=None):
    return check(read_budget(budget(folder, text)), report or reports.report(), baseline)


def one(folder, text, report=None, baseline=None):
    (result,) = results(folder, text, report, baseline)
    return result


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("step_time_median = { max = 10.36 }", Status.PASSED),
        ("step_time_median = { max = 10.34 }", Status.FAILED),
        ("step_time_p95 = { max = 10.9 }", Status.FAILED),
        ("tracing_share = { max = 0.31 }", Status.PASSED),
        ("tracing_share = { max = 0.29 }", Status.FAILED),
        ("duty_cycle = { min = 0.69 }", Status.PASSED),
        ("duty_cycle = { min = 0.71 }", Status.FAILED),
        ("recompiles = { max = 0 }", Status.PASSED),
        ("exposed_collectives_share = { max = 0 }", Status.PASSED),
        ("host_reads_per_step = { max = 1 }", Status.PASSED),
        ("host_reads_per_step = { max = 0 }", Status.FAILED),
        ("mfu = { min = 0.41 }", Status.PASSED),
        ("mfu = { min = 0.43 }", Status.FAILED),
        ("hbm_peak_share = { max = 0.69 }", Status.PASSED),
        ("hbm_peak = { max = 11811160063 }", Status.FAILED),
    ],
)
def test_signals_against_fixed_numbers(tmp_path, line, status):
    assert one(tmp_path, f"[budget]\n{line}").status is status


def test_a_planted_recompile_fails_and_its_absence_passes(tmp_path, samples):
    text = "[budget]\nrecompiles = { max = 0 }"
    path = budget(tmp_path, text)
    planted = CliRunner().invoke(app, ["check", str(samples / "recompile_shapes"), "--budget", str(path)])
    clean = CliRunner().invoke(app, ["check", str(samples / "decoder_loop"), "--budget", str(path)])
    assert (planted.exit_code, clean.exit_code) == (1, 0)
    assert "s64[4,33] became s64[4,41]" in planted.stdout.replace("\n", "")


def test_numbers_that_are_no_share_may_be_above_one(tmp_path):
    text = (
        "[budget]\nstep_time_median = { tolerance = 1.5 }\nrecompiles = { max = 3 }\nduty_cycle = { max = 1 }"
    )
    assert len(read_budget(budget(tmp_path, text))) == 3


def test_fewer_recompiles_than_asked_for_have_no_cause(tmp_path):
    result = one(tmp_path, "[budget]\nrecompiles = { min = 1 }", reports.report())
    assert (result.status, result.advice, result.place) == (Status.FAILED, "", "")


def test_what_was_not_measured_fails_with_advice(tmp_path):
    unknown = dataclasses.replace(
        reports.report().compute, mfu=None, mfu_note="the peak is stated on TPU only"
    )
    report = dataclasses.replace(reports.report(), compute=unknown)
    result = one(tmp_path, "[budget]\nmfu = { min = 0.4 }", report)
    assert result.status is Status.UNAVAILABLE
    assert result.fails
    assert "on TPU" in result.advice
    assert (
        one(tmp_path, "[budget]\nstep_time_median = { max = 1 }", reports.report(())).status
        is Status.UNAVAILABLE
    )


@pytest.mark.parametrize("line", ["host_reads_per_step = { max = 9 }", "exposed_collectives = { max = 1 }"])
def test_a_run_without_steps_passes_nothing_that_is_per_step(tmp_path, line):
    assert one(tmp_path, f"[budget]\n{line}", reports.report()).status is Status.PASSED
    assert one(tmp_path, f"[budget]\n{line}", reports.without_steps()).status is Status.UNAVAILABLE


def test_every_signal_is_told_or_says_why_not():
    for report in (reports.report(), reports.report(()), reports.without_steps(), reports.with_findings()):
        for signal in SIGNALS.values():
            reading = signal.read(report)
            assert (reading.value is None) == bool(reading.unavailable), signal.name


@pytest.mark.parametrize(("median", "status"), [(10.9, Status.PASSED), (11.8, Status.FAILED)])
def test_a_tolerance_is_against_the_baseline(tmp_path, median, status):
    text = "[budget]\nstep_time_median = { tolerance = 0.1 }"
    result = one(tmp_path, text, reports.report([median] * 5), reports.report([10.5] * 5))
    assert result.status is status
    assert "baseline 10.5 ms" in result.expected


def test_a_tolerance_of_what_should_be_high_goes_the_other_way(tmp_path):
    text = "[budget]\nduty_cycle = { tolerance = 0.1 }"
    base = reports.report(parts={"compute": 0.8, "tracing": 0.2})
    low = reports.report(parts={"compute": 0.7, "tracing": 0.3})
    assert one(tmp_path, text, low, base).status is Status.FAILED
    assert one(tmp_path, text, base, low).status is Status.PASSED


def test_a_tolerance_without_a_baseline_fails_with_advice(tmp_path):
    result = one(tmp_path, "[budget]\nstep_time_median = { tolerance = 0.1 }")
    assert result.fails
    assert "--baseline" in result.advice


def test_a_tolerance_is_printed_as_a_share(tmp_path):
    """Of a run that cannot tell the signal, too: 0.1 of a time in ms is no 100 µs."""
    empty = reports.report(())
    result = one(tmp_path, "[budget]\nstep_time_median = { tolerance = 0.1 }", empty, reports.report())
    assert (result.status, result.expected) == (Status.UNAVAILABLE, "at most 10 % more")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("any = {}", Status.FAILED),
        ("any = { min_severity = 0.31 }", Status.FAILED),
        ("any = { min_severity = 0.32 }", Status.PASSED),
        ("recompilation = {}", Status.FAILED),
        ("input-starved = {}", Status.PASSED),
        ("hbm-headroom = {}", Status.UNAVAILABLE),
        ("no-such-rule = {}", Status.UNAVAILABLE),
    ],
)
def test_findings(tmp_path, line, status):
    assert one(tmp_path, f"[findings]\n{line}", reports.with_findings()).status is status


def test_without_rules_findings_are_unavailable(tmp_path):
    assert one(tmp_path, "[findings]\nany = {}").status is Status.UNAVAILABLE


def test_levels(tmp_path):
    text = """[budget]
recompiles = { max = 0, level = "warn" }
tracing_share = { max = 0.0, level = "off" }
step_time_median = { max = 1 }
"""
    found = results(tmp_path, text, reports.with_findings())
    assert [(each.assertion.level, each.fails) for each in found] == [
        (Level.WARN, False),
        (Level.ERROR, True),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "x = [",
        "[budgets]\n",
        "",
        "[budget]\nnope = { max = 1 }",
        "[budget]\nrecompiles = 0",
        "[budget]\nrecompiles = {}",
        "[budget]\nrecompiles = { maximum = 1 }",
        "[budget]\nrecompiles = { max = -1 }",
        "[budget]\nrecompiles = { max = true }",
        "[budget]\nrecompiles = { max = nan }",
        "[budget]\nduty_cycle = { min = 90 }",
        "[budget]\ntracing_share = { max = 5 }",
        "[budget]\nmfu = { tolerance = 1.5 }",
        "[findings]\nany = { min_severity = 5 }",
        '[budget]\nrecompiles = { max = 0, level = "fatal" }',
        "budget = 3",
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(tmp_path, text):
    with pytest.raises(TpuprofError) as error:
        read_budget(budget(tmp_path, text))
    assert str(error.value).endswith("[budget-invalid]")
    assert "\n" not in str(error.value)


BUDGET = """[budget]
step_time_median = { max = 10 }
step_time_p95 = { tolerance = 0.10 }
recompiles = { max = 0 }
tracing_share = { max = 0.01, level = "warn" }
duty_cycle = { min = 0.1 }
mfu = { min = 0.4 }

[findings]
any = { min_severity = 0.05 }
hbm-headroom = { level = "warn" }
"""


def all_kinds(folder):
    return results(folder, BUDGET, reports.with_findings(), reports.report())


def test_goldens(tmp_path):
    found = all_kinds(tmp_path)
    console = Console(width=110, record=True, file=io.StringIO(), highlight=False)
    render(found, console)
    golden.same("check.txt", "\n".join(line.rstrip() for line in console.export_text().splitlines()) + "\n")
    golden.same("check.junit.xml", junit(found, "run"))
    golden.same(
        "check.github.txt", "\n".join(github_annotations(found, tmp_path / "tpuprof.toml", tmp_path)) + "\n"
    )


def test_junit_is_what_ci_servers_read(tmp_path):
    suite = ElementTree.fromstring(junit(all_kinds(tmp_path), reports.HOSTILE).encode()).find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("8", str(len(suite.findall("testcase/failure"))))
    assert len(suite.findall("testcase")) == 8
    assert len(suite.findall("testcase/system-out")) == 2


def test_annotations_lead_to_the_source_line_inside_the_checkout(tmp_path):
    (tmp_path / "path-1").mkdir()
    (tmp_path / "path-1" / "model.py").write_text("")
    lines = github_annotations(all_kinds(tmp_path), tmp_path / "tpuprof.toml", tmp_path)
    recompile = next(line for line in lines if "recompiles" in line)
    assert recompile.startswith(
        "::error file=path-1/model.py,line=41,title=tpuprof%3A budget.recompiles max::"
    )
    assert next(line for line in lines if "step_time_median" in line).startswith(
        "::error file=tpuprof.toml,title="
    )
    assert next(line for line in lines if "tracing_share" in line).startswith("::warning ")


def test_an_annotation_of_a_profile_names_no_file(tmp_path):
    for outside in (Path("smoke"), tmp_path / "elsewhere" / "tpuprof.toml"):
        for line in github_annotations(all_kinds(tmp_path), outside, tmp_path / "checkout"):
            assert line.split("::")[1].split(" ", 1)[1].startswith("title=")


def test_annotations_of_hostile_names_stay_one_line_each(tmp_path):
    hostile = results(tmp_path, "[findings]\nany = {}", reports.hostile())
    (line,) = github_annotations(hostile, tmp_path / "tpuprof.toml", tmp_path)
    assert "\n" not in line
    assert line.count("::") >= 2


def test_the_command_writes_junit_and_annotations(tmp_path):
    (tmp_path / "r.json").write_text(to_json(reports.with_findings()), "utf-8")
    path = budget(tmp_path, BUDGET)
    arguments = [
        "check",
        tmp_path / "r.json",
        "-b",
        path,
        "--baseline",
        tmp_path / "r.json",
        "--junit",
        tmp_path / "j.xml",
        "--github",
    ]
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == 1
    assert "::error" in done.stdout
    assert ElementTree.parse(tmp_path / "j.xml").getroot().tag == "testsuites"


def test_every_signal_is_documented():
    text = (ROOT / "docs" / "check.md").read_text("utf-8")
    assert [name for name in SIGNALS if f"`{name}`" not in text] == []
