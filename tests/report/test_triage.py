"""How the verdict was reached, and what to measure next: in the Report, and as all renderers show it."""

import ast
import dataclasses
import html
import io
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from tests.builders import TraceBuilder
from tests.report import reports
from tpuprof.analysis.analyze import analyze_run
from tpuprof.analysis.sections.measure_next import (
    BY_THE_CLOCK,
    COMPILES_HIDE_FROM,
    NOTHING_ON_A_GPU,
    OTHER_CAUSES,
    REMEDIES,
    measure_next,
    remedy_of,
)
from tpuprof.analysis.sections.next_values import values_of
from tpuprof.analysis.sections.why import decision_rows
from tpuprof.capture.held_gradients import GONE, NO_OPTIMIZER
from tpuprof.cli.analyze import analyze
from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture
from tpuprof.model.decisions import MS, SHARE, Decision
from tpuprof.model.outside_capture import outside_capture
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.model.verdict_sentence import COMPUTED_AGAIN, CUT_BY_READS
from tpuprof.preflight.targets import parse_target
from tpuprof.render.html import render_html
from tpuprof.render.text import render
from tpuprof.render.text_triage import render_why
from tpuprof.render.triage import measurements, numbers_of, verdict_note
from tpuprof.report import labels
from tpuprof.report.triage import NextMeasurement
from tpuprof.rules import runner
from tpuprof.rules.runner import REPLAY_DISAGREES
from tpuprof.run_folder import USUAL_WARMUP

ROOT = Path(__file__).resolve().parents[2]


def reasons():
    """The literal reasons of rules and signals, with a word for each value inside."""
    for path in (*(ROOT / "tpuprof" / "rules").rglob("*.py"), *(ROOT / "tpuprof" / "signals").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Unavailable", "unavailable"):
                yield from literals(node.args[0])
            # Inputs of signals are lacking for what their function returns.
            if isinstance(node, ast.Return) and path.name == "inputs.py" and node.value is not None:
                yield from (each for each in literals(node.value) if each)


def literals(node):
    if isinstance(node, ast.Constant):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(each.value if isinstance(each, ast.Constant) else "3" for each in node.values)
    elif isinstance(node, ast.BoolOp):
        for each in node.values:
            yield from literals(each)


def test_a_remedy_that_two_reasons_need_is_said_once():
    """What needs a device and what needs a TPU's allocator is one capture on one machine."""
    command = "tpuprof capture -- python train.py"
    said = [remedy_of(each).advice for each in ("no device activity", "runtime's allocator", "which chip")]
    rows = [NextMeasurement("Unknown.", command, advice, ["x"]) for advice in said]
    (found,) = measurements(SimpleNamespace(measure_next=rows))
    assert found.advice.count("Run the capture on") == 1
    assert "the allocator's events" in found.advice and "--no-hlo-debug" in found.advice


def test_every_reason_of_a_rule_or_a_signal_has_a_remedy():
    found = set(reasons())
    assert len(found) > 25
    # A rule that looks at nothing is a defect of the rule.
    found -= {"the rule looked at nothing in this run"}
    assert [each for each in sorted(found) if remedy_of(each) is None] == []
    for each in (runner.ONLY_TPU, labels.DEVICE_IS_BEHIND, runner.REPLAY_DISAGREES):
        assert remedy_of(each) is not None


def test_every_remedy_is_of_some_reason():
    known = {
        *reasons(),
        runner.ONLY_TPU,
        labels.DEVICE_IS_BEHIND,
        runner.REPLAY_DISAGREES,
        "hosts' clocks differ",
    }
    known |= {
        "hosts have no step in common",
        "the capture has no samples of the training thread's stack",
        "no run folder with torch_xla's counters",
        "the trace states no FLOPs for its ops",
        NO_OPTIMIZER,
        GONE,
        "aten::zero_ may set the gradients of teacher to zero in each step",
    }
    for remedy in REMEDIES:
        assert any(remedy_of(each) is remedy for each in known), remedy.words


def test_no_advice_begins_with_a_word_for_what_stands_before_it():
    """Reports join the advice of several remedies: "It" was then what another remedy spoke of."""
    source = ROOT / "tpuprof" / "analysis" / "sections" / "measure_next.py"
    calls = [node for node in ast.walk(ast.parse(source.read_text("utf-8"))) if isinstance(node, ast.Call)]
    made = [node for node in calls if getattr(node.func, "id", "") == "Remedy"]
    said = [
        node.value
        for call in made
        for node in (*call.args, *(each.value for each in call.keywords))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert len(said) > len(REMEDIES)
    assert [
        each for each in said if re.search(r"(?:^|\. )(?:It|They|This|That)\b(?! version)|\bthis,", each)
    ] == []


@pytest.mark.parametrize("sample", ["recompile_shapes", "device_to_host_sync", "predicted_decoder_scan"])
def test_what_is_unavailable_comes_with_a_command_that_exists(samples, sample):
    from tpuprof.cli.main import app

    report = analyze_run(samples / sample)
    unavailable = {each.rule for each in report.findings if each.status == "unavailable"}
    assert unavailable
    decided = {name for row in report.measure_next for name in row.decides}
    assert unavailable <= decided
    commands = typer.main.get_command(app).commands
    for row in report.measure_next:
        assert row.command, row
        program, name, *words = shlex.split(row.command)
        assert program == "tpuprof"
        options = {option for each in commands[name].params for option in each.opts}
        own = words[: words.index("--")] if "--" in words else words
        assert {each for each in own if each.startswith("--")} <= options, row.command
        assert "{" not in row.command


def test_the_command_is_of_the_program_that_ran():
    found = analyze_run(ROOT / "sample_traces" / "recompile_shapes")
    row = next(each for each in found.measure_next if "verdict" in each.decides)
    assert row.reason == "It is unknown whether compiles come again."
    folder = ROOT / "sample_traces" / "recompile_shapes"
    assert row.command.startswith(f"tpuprof capture -o {folder} --steps 50 -- python /")
    assert "recompile_shapes.py" in row.command
    assert found.measure_next[0] == row


@pytest.mark.parametrize(
    "launched",
    [["python", "-m", "pkg.train", "--lr", "0.1"], ["bash", "-c", "CPU_NUM_DEVICES=4 python train.py"]],
    ids=["module", "launcher"],
)
def test_the_command_is_that_which_started_the_program(launched):
    """A package's `train.py`, run as a file, ends at its first relative import."""
    found = analyze_run(ROOT / "sample_traces" / "recompile_shapes")
    run = {**found.environment["run"], "capture": {"launched": launched}}
    found = dataclasses.replace(found, environment={**found.environment, "run": run})
    row = measure_next(found, Bound("compile", 0.9, 0.9), StepTimes(1.0, {"compile": 0.9}, 0.1, 0.0, 0.0))[0]
    words = shlex.split(row.command)
    assert words[words.index("--") + 1 :] == launched


@pytest.mark.parametrize(
    ("launched", "argv", "asked"),
    [
        (
            ["python", "-m", "pkg.train", "--lr", "0.1"],
            ["/w/pkg/train.py", "--lr", "0.1"],
            "-m pkg.train --tpu v5e-1 -- --lr 0.1",
        ),
        (["python", "-m", "pkg"], ["/w/pkg/__main__.py"], "-m pkg --tpu v5e-1"),
        (["python", "-m", "torch.distributed.run", "train.py"], ["/w/train.py"], "/w/train.py --tpu v5e-1"),
        (
            ["python", "train.py", "-m", "small"],
            ["train.py", "-m", "small"],
            "train.py --tpu v5e-1 -- -m small",
        ),
        (["python", "train.py", "-m"], ["train.py", "-m"], "train.py --tpu v5e-1 -- -m"),
        ([], ["train.py"], "train.py --tpu v5e-1"),
    ],
)
def test_preflight_is_given_the_module_and_the_arguments(launched, argv, asked):
    """`tpuprof preflight pkg/train.py` ends at the first relative import, and without its arguments at the parser."""
    run = {"command_line": argv, "capture": {"launched": launched}}
    found = dataclasses.replace(reports.report(), environment={"run": run})
    values = values_of(found)
    assert (
        "tpuprof preflight {script} --tpu {slice}{arguments}".format(**values) == f"tpuprof preflight {asked}"
    )


@pytest.mark.parametrize(
    ("environment", "launched", "begins"),
    [
        ({"CPU_NUM_DEVICES": "4"}, [], "CPU_NUM_DEVICES=4 tpuprof capture "),
        ({"CPU_NUM_DEVICES": "4"}, ["bash", "-c", "CPU_NUM_DEVICES=4 python train.py"], "tpuprof capture "),
        (
            {"XLA_FLAGS": "--xla_force_host_platform_device_count=2 --xla_a=b"},
            [],
            "XLA_FLAGS='--xla_force_host_platform_device_count=2 --xla_a=b' tpuprof capture ",
        ),
        ({"XLA_FLAGS": "--xla_a=b", "PJRT_DEVICE": "CPU"}, [], "tpuprof capture "),
    ],
)
def test_commands_have_the_variables_that_make_several_devices(environment, launched, begins):
    """Without them a program of four CPU devices is another one, or ends at its mesh."""
    run = {"environment": environment, "command_line": ["train.py"], "capture": {"launched": launched}}
    found = dataclasses.replace(reports.report(), environment={"run": run})
    assert "{variables}tpuprof capture ".format(**values_of(found)) == begins


@pytest.mark.parametrize(("wanted", "by_the_clock"), [(None, True), (8, False)])
def test_more_steps_of_a_program_without_marks_need_marks(wanted, by_the_clock):
    """A recording by the clock lasts as long whatever `--steps` says."""
    found = analyze_run(ROOT / "sample_traces" / "recompile_shapes")
    run = {**found.environment["run"], "capture": {"steps_wanted": wanted}}
    found = dataclasses.replace(found, environment={**found.environment, "run": run})
    bound = Bound("compile", 0.9, 0.9)
    row = measure_next(found, bound, StepTimes(1.0, {"compile": 0.9}, 0.1, 0.0, 0.0))[0]
    assert "--steps 50 -- python /" in row.command
    assert (row.advice == BY_THE_CLOCK) is by_the_clock


@pytest.mark.parametrize(("later_ms", "asked"), [(20.0, True), (10.0, False)])
def test_longer_steps_outside_of_the_capture_ask_for_a_longer_one(later_ms, asked):
    """A loader started its workers again with each epoch; the capture held none of that, and nothing said how to."""
    counted = AfterCapture(MIN_STEPS_AFTER, 0, 0, 0.0, later_ms * MIN_STEPS_AFTER / 1_000, True)
    said = outside_capture(np.full(3, 10 * 10**9), counted)
    report = dataclasses.replace(reports.report(), warnings=said)
    rows = measure_next(report, Bound("device", 1.0, 1.0), StepTimes(1.0, {}, 1.0, 0.0, 0.0))
    assert (
        any(
            each.reason.startswith("What steps spend outside") and "--steps 50" in each.command
            for each in rows
        )
        is asked
    )


@pytest.mark.parametrize(
    ("share", "word", "asked"),
    [
        (COMPILES_HIDE_FROM, "compile", True),
        (COMPILES_HIDE_FROM - 0.01, "compile", False),
        (COMPILES_HIDE_FROM, "device", False),
    ],
)
def test_steps_that_mostly_compile_ask_for_a_capture_without_compiles(share, word, asked):
    """A tenth of such a step, from which rules fail, is a large part of what it does beside compiles."""
    report = dataclasses.replace(
        reports.report(), compile_history=dataclasses.replace(reports.report().compile_history, returns="yes")
    )
    rows = measure_next(report, Bound(word, share, share), StepTimes(1.0, {"compile": share}, 0.1, 0.0, 0.0))
    assert any(OTHER_CAUSES in each.decides for each in rows) is asked


def test_a_price_that_is_in_doubt_is_proved_by_two_runs():
    report = reports.report()
    doubtful = reports.finding("tracing-bound", reason=REPLAY_DISAGREES)
    report = dataclasses.replace(
        report,
        source={"files": ["runs/my first/plugins/profile/2026/host.xplane.pb"]},
        findings=[doubtful],
    )
    row = next(
        each
        for each in measure_next(report, Bound("device", 1.0, 1.0), StepTimes(1.0, {}, 1.0, 0.0, 0.0))
        if "prove" in each.command
    )
    words = shlex.split(row.command)
    assert words[:3] == ["tpuprof", "prove", doubtful.rule]
    assert words[words.index("--before") + 1].startswith("python ")
    assert words[words.index("-o") + 1] == "runs/my first"
    assert row.decides == [doubtful.rule]


@pytest.mark.parametrize(
    ("chip", "devices", "name"),
    [
        ("TPU v6 Lite", 3, "v6e-4"),
        ("TPU v6 Lite", 1, "v6e-1"),
        ("TPU v5 lite", 2, "v5e-4"),
        ("TPU v5 lite", 300, "v5e-256"),
        ("TPU v4", 4, "v4-8"),
        ("TPU v5", 3, "v5p-8"),
        ("TPU7x", 8, "tpu7x-8"),
        ("TPU7x", 9, "tpu7x-16"),
        ("TPU v3", 8, "v5e-1"),
        ("CPU", 4, "v5e-4"),
        ("CPU", 1, "v5e-1"),
    ],
)
def test_preflight_is_advised_for_a_slice_that_exists(chip, devices, name):
    environment = {**reports.report().environment, "device_type": chip, "device_count": devices}
    report = dataclasses.replace(
        reports.report(),
        environment=environment,
        findings=[reports.finding("hbm-pressure", status="unavailable", reason="peak memory is not known")],
    )
    rows = measure_next(report, Bound("device", 1.0, 1.0), StepTimes(1.0, {}, 1.0, 0.0, 0.0))
    assert any(f"--tpu {name} " in f"{row.command} " for row in rows)
    assert parse_target(name).devices >= min(devices, 256) or chip == "TPU v3"


def undecided():
    """Steps in which the host does something that nothing names."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(6):
        at = 1000 * number
        python.event("train", at, 1000, _r=1, step_num=number)
        python.event("StepMarker", at + 900, 50)
        trace.tpu(0).line("XLA Modules").event("step(7)", at, 100)
    return trace


def test_a_verdict_that_is_open_leads_the_list(tmp_path):
    report = analyze_run(undecided().write(tmp_path / "x.xplane.pb"))
    assert report.verdict.bound in ("undecided", "unknown")
    first = report.measure_next[0]
    assert first.decides == ["verdict"]
    assert first.command == "tpuprof capture -- python train.py"


@pytest.mark.parametrize(
    ("sampled", "said", "command"),
    [
        ({"samples": 0}, "too few samples", "tpuprof capture -o RUN --steps 50 -- python train.py"),
        ({}, "samples the stack and tells", "tpuprof capture -o RUN -- python train.py"),
    ],
)
def test_a_capture_that_meant_to_sample_needs_more_steps(tmp_path, sampled, said, command):
    """The steps were so short that no sample fell into them: to capture again in the same way would tell no more."""
    notes = tmp_path / "tpuprof"
    notes.mkdir()
    info = {"schema": "tpuprof.run/1", "warnings": [], "capture": {"host_samples": sampled}}
    (notes / "run.json").write_text(json.dumps(info))
    undecided().write(tmp_path / "plugins" / "profile" / "2026" / "host.xplane.pb")
    report = analyze_run(tmp_path)
    assert report.verdict.bound == "undecided"
    assert said in report.verdict.sentence
    assert report.measure_next[0].command == command.replace("RUN", str(tmp_path))


@pytest.mark.parametrize(
    ("noted", "option"),
    [
        ({"warmup": 402}, "--warmup 402 "),
        ({"warmup": USUAL_WARMUP}, ""),
        ({}, ""),
        ({"warmup": "; rm x"}, ""),
        ({"warmup": 402, "launched": None}, ""),
    ],
)
def test_the_same_part_of_training_is_captured_again(tmp_path, noted, option):
    """The second of two stages was captured by `--warmup 402`, and the next command would have captured the first."""
    notes = tmp_path / "tpuprof"
    notes.mkdir()
    capture = {"host_samples": {"samples": 0}, "launched": ["python", "train.py"], **noted}
    (notes / "run.json").write_text(
        json.dumps({"schema": "tpuprof.run/1", "warnings": [], "capture": capture})
    )
    undecided().write(tmp_path / "plugins" / "profile" / "2026" / "host.xplane.pb")
    command = f"tpuprof capture -o {tmp_path} {option}--steps 50 -- python train.py"
    assert analyze_run(tmp_path).measure_next[0].command == command


def gpu_run(tmp_path, **environment):
    """A run of GPUs, of another framework where one is given."""
    trace = TraceBuilder()
    trace.host().line("python").event("PjitFunction(step)", 0, 10)
    kernels = trace.plane("/device:GPU:0").line("Stream #2")
    for number in range(4):
        kernels.event("gemm", 1000 * number, 100 * (number + 1), hlo_op="gemm")
    report = analyze_run(trace.write(tmp_path / "x.xplane.pb"))
    report = dataclasses.replace(report, environment={**report.environment, **environment})
    return report, measure_next(
        report, Bound("unknown", 0.5, 1.0), StepTimes(2.0, {"unknown": 1.0}, 1.0, 0.0, 0.0)
    )


def test_what_only_a_tpu_decides_is_not_advised_for_gpus(tmp_path):
    _, rows = gpu_run(tmp_path)
    (flops,) = [row for row in rows if "MFU" in row.decides]
    assert (flops.command, flops.advice) == ("", NOTHING_ON_A_GPU)
    assert all("preflight" not in row.command and "on a TPU" not in row.advice for row in rows)
    assert any(row.command.startswith("tpuprof capture") for row in rows)


def test_pytorch_on_gpus_is_measured_by_its_own_profiler(tmp_path):
    report, rows = gpu_run(tmp_path, framework="pytorch")
    assert all(row.command == "" for row in rows)
    assert any("prof.step()" in row.advice for row in rows if row.decides == ["verdict"])
    out = io.StringIO()
    render(dataclasses.replace(report, measure_next=rows), Console(file=out, width=200))
    shown = out.getvalue().partition("Measure next")[2]
    assert "record_function" in shown and "prof.step()" in shown
    assert "tpuprof capture" not in shown


def test_figures_are_numbers_people_read():
    share = Decision("q", 0.123, 0.1, SHARE, True, "a", "b")
    time = Decision("q", 1.5, 2.0, MS, False, "a", "b")
    asked = Decision("q", None, None, "yes or no", True, "a", "b")
    rows = decision_rows([share, time, asked], 200.0)
    assert [each.changes_when for each in rows] == [
        "below 10 % (4.60 ms less): b",
        "from 2.00 ms (500 µs more): b",
        "if not: b",
    ]
    assert [numbers_of(each) for each in rows] == [
        ("12 % of the step", "at least 10 %"),
        ("1.50 ms", "less than 2.00 ms"),
        ("yes", ""),
    ]


def test_reasons_of_one_command_stand_together():
    rows = [
        NextMeasurement("One.", "tpuprof capture", "It waits.", ["a", "b"]),
        NextMeasurement("Two.", "tpuprof capture", "It waits.", ["b", "c", "d"]),
        NextMeasurement("Three.", "", "Nothing decides it.", ["e"]),
        NextMeasurement("Four.", "", "Nothing decides it.", ["f"]),
    ]
    found = measurements(dataclasses.replace(reports.report(), measure_next=rows))
    assert [(each.command, each.reasons, each.advice) for each in found] == [
        ("tpuprof capture", ["One.", "Two."], "It waits."),
        ("", ["Three."], "Nothing decides it."),
        ("", ["Four."], "Nothing decides it."),
    ]
    assert found[0].decides_text == "a, b, c and 1 more rule"


def test_why_ends_with_the_warnings():
    out = io.StringIO()
    render_why(dataclasses.replace(reports.report(), warnings=["other work had the CPUs"]), Console(file=out))
    assert out.getvalue().rstrip().endswith("! other work had the CPUs")


def test_why_prints_the_decisions_and_the_plain_report_what_to_measure(samples):
    app = typer.Typer()
    app.command()(analyze)
    result = CliRunner().invoke(app, [str(samples / "device_to_host_sync"), "--why", "--no-cache"])
    assert result.exit_code == 0
    assert "Sync-bound" in result.output
    said = " ".join(result.output.split())
    assert "46 %" in said and "at least 10 %" in said, said
    assert "What to fix" not in result.output
    out = io.StringIO()
    report = analyze_run(samples / "device_to_host_sync")
    render(report, Console(file=out, width=200))
    assert "Measure next" in out.getvalue()
    assert "tpuprof preflight /" in out.getvalue()
    assert verdict_note(report)[:40] in out.getvalue()


def test_the_share_of_a_verdict_that_seems_to_contradict_a_part_is_explained(samples):
    report = analyze_run(samples / "device_to_host_sync")
    assert "The verdict's 46 % is what host and device lose" in html.unescape(render_html(report))
    assert verdict_note(analyze_run(samples / "decoder_loop")) == ""


@pytest.mark.parametrize(
    ("sentence", "says"),
    [(CUT_BY_READS, "graphs of reads"), (COMPUTED_AGAIN, "graphs of reads"), ("Sync-bound", "take turns")],
)
def test_what_reads_cost_by_their_graphs_is_not_called_turns(samples, sentence, says):
    report = analyze_run(samples / "device_to_host_sync")
    told = replace(report, verdict=replace(report.verdict, sentence=sentence))
    assert says in verdict_note(told)


@pytest.mark.parametrize(("wanted", "asked"), [(49, 50), (50, 100), (None, 50)])
def test_a_run_of_many_steps_is_not_asked_for_as_many_again(wanted, asked):
    found = analyze_run(ROOT / "sample_traces" / "recompile_shapes")
    run = {**found.environment["run"], "capture": {"steps_wanted": wanted} if wanted else {}}
    found = dataclasses.replace(found, environment={**found.environment, "run": run})
    row = measure_next(found, Bound("compile", 0.9, 0.9), StepTimes(1.0, {"compile": 0.9}, 0.1, 0.0, 0.0))[0]
    assert f"--steps {asked} -- python /" in row.command
