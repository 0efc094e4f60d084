"""Findings by line as SARIF, and the action that checks a run."""

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import tpuprof
from tpuprof.budget.check import profiles, read_budget
from tpuprof.render.sarif import WARNING_FROM, render_sarif

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def report():
    return tpuprof.open(ROOT / "sample_traces" / "recompile_shapes").report


def results(report, root):
    return json.loads(render_sarif(report, root))["runs"][0]


def test_a_finding_is_at_the_line_of_its_evidence(report):
    run = results(report, Path("/tmp/tpuprof-samples"))
    (found,) = [each for each in run["results"] if each["ruleId"] == "recompiles-shape"]
    place = found["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "tpuprof/demo/decoder.py", "uriBaseId": "%SRCROOT%"}
    # The line that looks the tokens up, whose length changed; line 37 makes a mask of that length.
    assert place["region"]["startLine"] == 77
    assert run["tool"]["driver"]["rules"][found["ruleIndex"]]["id"] == "recompiles-shape"
    failed = {each.rule for each in report.findings if each.status == "failed"}
    assert {each["ruleId"] for each in run["results"]} | set(run["properties"]["without_line"]) == failed


def test_a_file_elsewhere_keeps_its_path(report, tmp_path):
    run = results(report, tmp_path)
    uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.startswith("file:///tmp/tpuprof-samples/")


@pytest.mark.parametrize(("severity", "level"), [(WARNING_FROM, "warning"), (WARNING_FROM - 0.01, "note")])
def test_levels(report, severity, level):
    changed = [
        replace(each, severity=severity) if each.rule == "recompiles-shape" else each
        for each in report.findings
    ]
    run = results(replace(report, findings=changed), Path("/"))
    assert [each["level"] for each in run["results"] if each["ruleId"] == "recompiles-shape"] == [level]


def test_hostile_lines_make_no_place(report):
    (finding,) = [each for each in report.findings if each.rule == "recompiles-shape"]
    fact = replace(finding.evidence[0], source="a b\x00c.py:0")
    space = replace(fact, source="/tmp/a b#.py:3")
    shown = replace(finding, evidence=[fact, space])
    run = results(replace(report, findings=[shown]), Path("/tmp"))
    places = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]]
    assert places == ["a%20b%23.py"]


def test_sentences_name_files_as_the_places_do(report):
    (finding,) = [each for each in report.findings if each.rule == "recompiles-shape"]
    shown = replace(report, findings=[replace(finding, title="cut by sync at /home/u/job/a.py:3")])
    below = results(shown, Path("/home/u/job"))["results"][0]["message"]["text"]
    assert below.startswith("cut by sync at a.py:3.")
    for elsewhere in ("/home/u/jo", "/u/job", "/home/v", "/"):
        text = results(shown, Path(elsewhere))["results"][0]["message"]["text"]
        assert text.startswith("cut by sync at /home/u/job/a.py:3.")


def test_the_command_writes_it_with_lines(report, tmp_path):
    command = [sys.executable, "-m", "tpuprof", "report", str(ROOT / "sample_traces" / "recompile_shapes")]
    out = tmp_path / "a.sarif"
    done = subprocess.run([*command, "-o", str(out)], capture_output=True, text=True, check=True)
    assert "nothing was redacted" in done.stderr
    assert "decoder.py" in out.read_text()


def test_profiles_are_budgets():
    assert profiles() == ["pull-request", "smoke", "tpu"]
    for name in profiles():
        assert read_budget(Path(name))
        assert tomllib.loads((ROOT / "tpuprof" / "budget" / "profiles" / f"{name}.toml").read_text())


def test_the_action_hands_inputs_over_as_variables():
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = action["runs"]["steps"]
    assert all("${{" not in step["run"] for step in steps)
    assert all(step["shell"] == "bash" for step in steps)
    assert (ROOT / ".github" / "check.sh").is_file()


def act(tmp_path, run, **variables):
    """Run the action's script with a `gh` that notes what it is asked."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "gh").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/gh.txt\n')
    (tools / "tpuprof").write_text(f'#!/bin/sh\nexec {sys.executable} -m tpuprof "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path), "RUN": str(run), "COMMENT": "true",
        "PULL_REQUEST": "7", "REPOSITORY": "a/b", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), **variables,
    }  # fmt: skip
    return subprocess.run(
        ["bash", str(ROOT / ".github" / "check.sh")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_action_checks_compares_and_comments(tmp_path):
    samples = ROOT / "sample_traces"
    done = act(
        tmp_path, samples / "recompile_shapes", BASELINE=str(samples / "decoder_loop"), BUDGET="smoke",
        SARIF=str(tmp_path / "a.sarif"),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    comment = (tmp_path / "comment.md").read_text()
    assert comment.startswith("<!-- tpuprof -->")
    assert "The budget does not hold" in comment
    assert comment == (tmp_path / "summary.md").read_text()
    assert "repos/a/b/issues/7/comments" in (tmp_path / "gh.txt").read_text()
    assert json.loads((tmp_path / "a.sarif").read_text())["version"] == "2.1.0"
