"""Transfers of a device with the host: collectives across slices, Python callbacks, or either."""

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.device.host_exchanges import RUNTIME_EVENTS
from tpuprof.rules.collective.exposed_collectives.rule import MOSTLY

ATTRIBUTES = 'is_host_transfer=true, frontend_attributes={_xla_megascale_transfer_type="ALL_REDUCE"}'


def waiting(
    long_name="recv-done(%recv.1), channel_id=7",
    host="PjitFunction(step)",
    wait="host recv-done",
    across=450,
    within=50,
    **stated,
):
    """Three steps of 1 ms: 400 us of computing, an all-reduce of 50 us, and 450 us of waiting for the host."""
    trace = TraceBuilder()
    python, device = trace.host().line("python"), trace.tpu(0)
    for number in range(3):
        start = 1000 * number
        python.event("train", start, 990, _r=1, step_num=number)
        if host:
            python.event(host, start, 10)
        device.line("XLA Modules").event("jit_step(7)", start, 1000)
        ops = device.line("XLA Ops")
        ops.event(start=start, duration=400, **op("fusion.1"))
        ops.event(
            start=start + 400,
            duration=within,
            **op("all-reduce.2", opcode="all-reduce", category="all-reduce"),
        )
        facts = {"hlo_category": wait, "source": "train.py:9", **stated}
        name = f"%recv-done.4 = (f32[1024]{{0}}, token[]) {long_name}"
        ops.event(start=start + 400 + within, duration=across, name=name, display="recv-done.4", facts=facts)
    return trace


def analyzed(trace, tmp_path):
    trace.write(tmp_path / "x.xplane.pb")
    return analyze_run(tmp_path)


@pytest.mark.parametrize(
    "trace",
    [
        waiting(f"recv-done(%recv.1), {ATTRIBUTES}"),
        waiting(dcn_collective_info=b"\x08\x01"),
        waiting(host=f"{RUNTIME_EVENTS} HostCommandHandle"),
        waiting(host="PjRtComputationClient::ExecuteReplicated"),
    ],
    ids=["by its attributes", "by its stat", "by the runtime's events", "by a framework without callbacks"],
)
def test_a_wait_for_another_slice_is_communication(trace, tmp_path):
    report = analyzed(trace, tmp_path)
    assert report.verdict.bound == "collective"
    assert "90 % of that is between slices" in report.verdict.sentence
    rows = {row.name: row for row in report.collectives}
    assert (rows["recv-done.4"].across_slices, rows["all-reduce.2"].across_slices) == (True, False)
    assert rows["recv-done.4"].kind == "recv across slices"
    assert rows["recv-done.4"].exposed_ms_per_step == pytest.approx(0.45)
    assert not any(each.rule == "input-starved" and each.status == "failed" for each in report.findings)


def test_the_finding_says_where_the_time_goes(tmp_path):
    report = analyzed(waiting(dcn_collective_info=b"\x08\x01"), tmp_path)
    titles = {each.rule: each.title for each in report.findings if each.status == "failed"}
    assert titles["exposed-collectives"].endswith("for communication, mostly between slices")


@pytest.mark.parametrize(("us", "mostly"), [(500 * MOSTLY, True), (500 * MOSTLY - 1, False)])
def test_mostly_is_from_half_of_the_exposed_time(tmp_path, us, mostly):
    trace = waiting(dcn_collective_info=b"\x08\x01", across=us, within=500 - us)
    titles = {each.rule: each.title for each in analyzed(trace, tmp_path).findings if each.status == "failed"}
    assert titles["exposed-collectives"].endswith(", mostly between slices") == mostly


def test_a_wait_for_the_host_that_nothing_explains_names_both(tmp_path):
    report = analyzed(waiting(), tmp_path)
    assert report.verdict.bound == "callback"
    assert "Or it waits for another slice" in report.verdict.sentence
    assert not any(row.across_slices for row in report.collectives)


def test_infeed_stays_input(tmp_path):
    report = analyzed(waiting("infeed(%after-all.1)", wait="infeed"), tmp_path)
    assert report.verdict.bound == "input"
