"""The Report of built traces."""

import json

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.analysis.analyze import analyze_run
from tpuprof.errors import TpuprofError
from tpuprof.model.busy_machine import said_with_the_verdict

HOSTILE = "</script><b>[red]{x}\u202e\x00"


def one_host(wall=1000, name="python", compiles=()):
    trace = TraceBuilder()
    python = trace.host().line(name)
    for number in range(4):
        python.event("train_step", number * wall, wall, _r=1, step_num=number)
        python.event("StepMarker", number * wall + 100, 50)
    for start, duration, graph in compiles:
        python.event("XLAGraphExecutor::Compile", start, duration, graph_hash=graph)
    modules = trace.tpu(0).line("XLA Modules")
    ops = trace.tpu(0).line("XLA Ops")
    for number in range(4):
        modules.event(f"g({number // 2})", number * wall + 500, 300)
        ops.event(start=number * wall + 500, duration=300, **op("fusion.1"))
    return trace


def test_compiles_have_step_hash_and_program(analyze):
    report = analyze(one_host(compiles=[(2100, 300, "abc123"), (9000, 10, "def")]))
    first, outside = report.compiles
    assert (first.step, first.graph_hash, first.program, first.duration_ms) == (2, "abc123", "g(1)", 0.3)
    assert (outside.step, outside.program) == (None, "")


def test_several_hosts_are_each_on_their_own_clock(analyze):
    report = analyze(one_host(), one_host(wall=2000))
    assert report.environment["host_count"] == 2
    assert {step.host for step in report.steps.per_step} == {"host0", "host1"}
    assert report.steps.median_ms == pytest.approx(1.5)
    assert report.breakdown["compute"].ms_per_step == pytest.approx(0.3)


def test_an_executor_gives_the_same_report(tmp_path):
    from concurrent.futures import ProcessPoolExecutor

    files = [one_host(wall).write(tmp_path / f"h{wall}.xplane.pb") for wall in (1000, 1100)]
    with ProcessPoolExecutor(2) as pool:
        assert analyze_run(files, executor=pool) == analyze_run(files)


def test_the_report_is_plain_json_and_hostile_names_stay_what_they_are(analyze):
    trace = one_host()
    trace.tpu(0).line("XLA Ops").event(start=800, duration=100, name=HOSTILE, display=HOSTILE)
    trace.host().line("python").event(HOSTILE, 600, 100, tpuprof="annotation", traced_ops=0)
    report = analyze(trace)
    text = json.dumps(report.to_dict(), allow_nan=False)
    assert json.loads(text)["schema"] == "tpuprof.report/1"
    assert HOSTILE in {row.name for row in report.ops}
    assert f"user:{HOSTILE}" in report.breakdown


def test_hostile_names_do_not_style_the_terminal(analyze):
    import io

    from rich.console import Console

    from tpuprof.render.text import render

    trace = one_host()
    trace.tpu(0).line("XLA Ops").event(
        start=800, duration=5000, name="[red]x[/nonsense]", display="[red]x[/nonsense]"
    )
    out = io.StringIO()
    render(analyze(trace), Console(file=out, width=200))
    assert "[red]x[/nonsense]" in out.getvalue()


def test_control_characters_do_not_reach_the_terminal(analyze):
    import io

    from rich.console import Console

    from tpuprof.render.text import render

    trace = one_host()
    name = "evil\x1b]0;title\x07\x1b[2J"
    trace.tpu(0).line("XLA Ops").event(start=800, duration=5000, name=name, display=name)
    out = io.StringIO()
    render(analyze(trace), Console(file=out, width=200))
    assert "\x1b" not in out.getvalue()
    assert "\x07" not in out.getvalue()


def test_a_host_without_device_or_training_thread_says_so(analyze):
    trace = TraceBuilder()
    trace.host().line("python").repeat("train", [0, 1000], 900, _r=1)
    report = analyze(trace)
    assert any("no device activity" in note for note in report.warnings)
    trace = TraceBuilder()
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [0, 1000, 2000], 900)
    report = analyze(trace)
    assert any("no training thread" in note for note in report.warnings)
    assert report.breakdown["unknown"].ms_per_step == pytest.approx(0.2 / 3)


def test_a_trace_of_nothing_is_an_error(analyze):
    trace = TraceBuilder()
    trace.host().line("python").event("idle", 0, 10)
    with pytest.raises(TpuprofError, match="input-no-activity"):
        analyze(trace)


def test_clocks_that_cannot_be_right(analyze):
    trace = one_host()
    trace.host().line("other", timestamp_ns=2**62).event("x", 0, 1)
    with pytest.raises(TpuprofError, match="input-corrupt"):
        analyze(trace)


def test_flops_stated_on_events_instead_of_metadata(analyze):
    trace = TraceBuilder()
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [0, 1000, 2000], 900)
    ops = trace.tpu(0).line("XLA Ops")
    for start in (0, 1000, 2000):
        ops.event(start=start, duration=900, flops=12_000, bytes_accessed=34, **op("fusion.1"))
    row = analyze(trace).ops[0]
    assert (row.flops, row.bytes, row.occurrences) == (12_000, 34, 3)
    assert row.program == "f(1)"


def run_folder(tmp_path, info, telemetry=""):
    one_host(compiles=[(2100, 300, "abc123")]).write(tmp_path / "plugins" / "profile" / "x" / "vm.xplane.pb")
    (tmp_path / "tpuprof").mkdir()
    (tmp_path / "tpuprof" / "run.json").write_text(info if isinstance(info, str) else json.dumps(info))
    (tmp_path / "tpuprof" / "telemetry.vm.0.jsonl").write_text(telemetry)
    return analyze_run(tmp_path)


def test_frames_of_a_compile_come_from_telemetry(tmp_path):
    line = {"step": 2, "compiles": [{"graphs": 1, "frames": ["train (train.py:9)", "main (train.py:20)"]}]}
    report = run_folder(tmp_path, {"schema": "tpuprof.run/1"}, json.dumps(line) + "\n{damaged")
    assert report.compiles[0].frames == ["train (train.py:9)", "main (train.py:20)"]
    assert report.warnings == []


def test_a_newer_run_json_is_left_out_with_a_code(tmp_path):
    report = run_folder(tmp_path, {"schema": "tpuprof.run/2", "versions": {"torch_xla": "9"}})
    assert report.environment["torch_xla"] is None
    assert "[input-schema-too-new]" in report.warnings[0]


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_run_json_is_said(tmp_path, text):
    assert "run.json" in run_folder(tmp_path, text).warnings[0]


def test_a_missing_process_is_said(tmp_path):
    report = run_folder(tmp_path, {"schema": "tpuprof.run/1", "process_count": 4})
    assert "4 processes, and 1" in report.warnings[0]


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        # Training ended, or failed, before: nothing that happened is missing.
        ({"capture": {"steps_wanted": 8, "steps_captured": 5}}, "passed"),
        ({"process_count": 4}, "failed"),
    ],
)
def test_a_capture_is_whole_where_training_ended_before_it(tmp_path, facts, status):
    report = run_folder(tmp_path, {"schema": "tpuprof.run/1", **facts})
    (found,) = [each for each in report.findings if each.rule == "truncated-trace"]
    assert found.status == status


@pytest.mark.parametrize(
    ("capture", "said"),
    [
        ({"cpu_wait_share": 0.49}, False),
        ({"cpu_wait_share": 0.5}, True),
        ({"cpu_wait_share": None}, False),
        (7, False),
    ],
)
def test_a_machine_with_too_few_cpus_is_said(tmp_path, capture, said):
    report = run_folder(tmp_path, {"schema": "tpuprof.run/1", "capture": capture})
    assert any("waited for a CPU for 50 %" in warning for warning in report.warnings) == said


@pytest.mark.parametrize(
    ("share", "word", "said"),
    [(0.79, "tracing", False), (0.8, "tracing", True), (0.9, "device", False), (None, "host", False)],
)
def test_a_verdict_on_the_host_says_that_other_work_had_the_cpus(share, word, said):
    sentence = said_with_the_verdict({"capture": {"cpu_wait_share": share}}, word)
    assert ("waited for one for 80 %" in sentence) is said


def test_the_run_in_a_few_figures(analyze):
    report = analyze(one_host(compiles=[(2100, 300, "abc123")]))
    # Of each 1 ms step the device is in a program for 0.3 ms.
    assert report.run_summary.device_busy_share == pytest.approx(0.3)
    assert report.run_summary.mean_step_ms == pytest.approx(1.0)
    assert report.run_summary.compile_ms == pytest.approx(0.3)


def test_a_trace_without_devices_has_no_duty_cycle(analyze):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(4):
        python.event("train_step", number * 1000, 1000, _r=1, step_num=number)
    assert analyze(trace).run_summary.device_busy_share is None


def test_ops_are_summed_by_what_they_share(analyze):
    report = analyze(one_host())
    assert {row.name for row in report.op_groups if row.by == "program"} == {
        row.program for row in report.ops
    }
    for by in ("category", "program", "annotation"):
        assert sum(row.self_ms for row in report.op_groups if row.by == by) == pytest.approx(1.2)
        assert sum(row.occurrences for row in report.op_groups if row.by == by) == 4


@pytest.mark.parametrize(("noted", "framework"), [("jax", "jax"), (None, "unknown"), (7, "unknown")])
def test_a_host_without_events_of_a_framework_has_that_of_the_capture(tmp_path, noted, framework):
    trace = TraceBuilder()
    trace.tpu(0).line("XLA Modules").event("f(1)", 0, 900)
    trace.write(tmp_path / "plugins" / "profile" / "x" / "vm.xplane.pb")
    (tmp_path / "tpuprof").mkdir()
    info = {"schema": "tpuprof.run/1", "framework": noted}
    (tmp_path / "tpuprof" / "run.json").write_text(json.dumps(info), "utf-8")
    assert analyze_run(tmp_path).environment["framework"] == framework
