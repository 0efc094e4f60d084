"""A report lists the ops that matter, and says what the others take."""

import json

import pytest
from typer.testing import CliRunner

from tests.builders import TraceBuilder, op
from tpuprof.analysis.analyze import analyze_run, report_of
from tpuprof.analysis.sections.compute import LISTED_FROM
from tpuprof.cli.main import app
from tpuprof.decode.find import find
from tpuprof.model.run import build_run

SMALL = LISTED_FROM + 500


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Two devices that run a few large ops and many small ones; the second runs one more, and one not at all."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for step in range(2):
        python.event("train_step", step * 1_000_000, 1_000_000, _r=1, step_num=step)
        for device in range(2):
            at = step * 1_000_000 + 1000
            trace.tpu(device).line("XLA Modules").event("step(1)", at, 900_000)
            ops = trace.tpu(device).line("XLA Ops")
            for row in range(LISTED_FROM if device else 10):
                ops.event(start=at, duration=200, **op(f"large.{row}"))
                at += 200
            for row in range(SMALL):
                if (device, row) != (1, 7):
                    ops.event(start=at, duration=0.001, **op(f"small.{row}", "copy"))
                at += 1
    return trace.write(tmp_path_factory.mktemp("ops") / "h.xplane.pb")


def test_the_ops_that_matter_are_listed(trace):
    report = analyze_run(trace)
    assert len(report.ops) == LISTED_FROM
    assert report.ops_left_out.ops == SMALL
    assert report.ops_left_out.self_ms == pytest.approx((4 * SMALL - 2) * 1e-6)
    assert all(row.cores for row in report.ops)


def test_sums_are_of_all_ops(trace):
    report = analyze_run(trace)
    whole = report_of(build_run(find(trace)), all_ops=True)
    assert whole.ops_left_out.ops == 0
    assert len(whole.ops) == LISTED_FROM + SMALL
    assert whole.ops[:LISTED_FROM] == report.ops
    assert whole.op_groups == report.op_groups and whole.findings == report.findings
    assert whole.compute == report.compute


def test_what_each_device_ran(trace):
    whole = {row.name: row for row in report_of(build_run(find(trace)), all_ops=True).ops}
    found = {name: [(core.device, core.occurrences) for core in whole[name].cores] for name in whole}
    one, two = "/device:TPU:0", "/device:TPU:1"
    assert found["large.3"] == [(one, 2), (two, 2)]
    assert found["large.30"] == [(two, 2)]
    assert found["small.7"] == [(one, 2)]
    assert whole["large.3"].occurrences == 4
    assert whole["large.3"].total_ms == pytest.approx(0.8)


def test_all_ops_on_the_command_line(trace):
    found = CliRunner().invoke(app, ["analyze", str(trace)]).stdout
    assert f"and {SMALL} that take next to no time (--all-ops)" in " ".join(found.split())
    plain = json.loads(CliRunner().invoke(app, ["analyze", "--json", "--all-ops", str(trace)]).stdout)
    assert len(plain["ops"]) == LISTED_FROM + SMALL
