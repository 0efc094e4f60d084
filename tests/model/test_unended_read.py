"""A read of torch_xla that goes on as the recording ends leaves no event: samples alone show that training waits in it."""

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.host.unended_read import WAIT, unended_read
from tpuprof.report.sections import HostStackRow


def report_of(tmp_path, call):
    trace = TraceBuilder()
    for number in range(4):
        name = "x" * (number + 1)
        trace.tpu(0).line("XLA Modules").event(f"{name}(1)", 100 * number, 20)
        trace.tpu(0).line("XLA Ops").event(start=100 * number, duration=20, **op(f"{name}_op"))
    python = trace.host().line("python")
    python.event("PjRtComputationClient::TransferToDevice", 10, 5)
    for number in range(60):
        begin = 100 + number * 1000
        words = {"frames": "main (train.py:9)", "source": "train.py:9", "call": call, "user_call": call}
        trace.sampled(begin, 1000, cpu=0, stack=1, asleep=True, **words)
    trace.write(tmp_path / "plugins" / "profile" / "x" / "vm.xplane.pb")
    return analyze_run(tmp_path)


def test_what_it_waits_for_is_unknown(tmp_path):
    report = report_of(tmp_path, "loss.item()")
    assert report.verdict.bound == "unknown"
    assert "waits in loss.item() at train.py:9" in report.verdict.sentence
    assert "XLA may compile" in report.verdict.sentence
    rule = next(each for each in report.findings if each.rule == "host-blocked")
    assert rule.status == "unavailable"


def test_another_call_is_still_named(tmp_path):
    report = report_of(tmp_path, "lib.wait_for_it()")
    assert report.verdict.bound == "host"
    assert "train.py:9" in report.verdict.sentence


def row(call, ms, part=WAIT):
    return HostStackRow(part, ["main (train.py:9)"], call, "train.py:9", call, ms, 0.0)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([row("loss.item()", 5.0), row("run()", 4.9)], "loss.item()"),
        ([row("loss.item()", 4.9), row("run()", 5.0)], None),
        ([row("float(loss)", 5.0), row("x.cpu()", 6.0)], "x.cpu()"),
        ([row("loss.item()", 5.0, "host:sleep")], None),
        ([], None),
    ],
)
def test_most_waits_must_be_reads(rows, found):
    read = unended_read(rows)
    assert (read.call if read else None) == found
