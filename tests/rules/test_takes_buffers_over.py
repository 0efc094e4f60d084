"""Where XLA's CPU client may wait in a graph cut itself, a fix that lets the host run ahead may save little."""

from dataclasses import replace

import pytest

from tests.builders import TraceBuilder
from tests.rules.given import given
from tests.rules.situations import cut, reads
from tpuprof.analysis.analyze import report_of
from tpuprof.decode.find import find
from tpuprof.model.host.blocking_waits import WAIT_FROM_PS
from tpuprof.model.run import build_run
from tpuprof.report.schema import Savings
from tpuprof.rules.pricing import SIDE_BY_SIDE, doubted
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.signals import Signals
from tpuprof.signals.host import CUT_WAITS_FROM_SHARE

STEPS = 20
# A wait that counts (us).
LONG = WAIT_FROM_PS // 10**6


def trace_of(waits, cpu=True, lasts=LONG):
    """Steps of 1 ms; in so many of them the cut waits so long (us) until a program has taken a buffer over."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for step in range(STEPS):
        begin = step * 1000
        python.event("train", begin, 1000, _r=1)
        python.event("SyncLiveTensorsGraph", begin + 500, 100)
        python.event("ScheduleSyncTensorsGraph", begin + 510, 20)
        python.event("Wait for donation holds", begin + 560, lasts if step < waits else 1)
        if cpu:
            line = trace.host().line("tf_XLATfrtCpuClient/1")
            line.event("dot.1", begin + 600, 300, hlo_op="dot.1", hlo_module="step", program_id=1)
        else:
            trace.tpu(0).line("XLA Modules").event("step(1)", begin + 600, 300)
    return trace


@pytest.mark.parametrize(
    ("waits", "cpu", "lasts", "may_wait"),
    [
        (round(STEPS * CUT_WAITS_FROM_SHARE), True, LONG, True),
        (round(STEPS * CUT_WAITS_FROM_SHARE) - 1, True, LONG, False),
        (STEPS, True, LONG - 1, False),
        (STEPS, False, LONG, False),
    ],
    ids=["every tenth step", "seldom", "too short", "a TPU"],
)
def test_a_cut_may_wait_where_programs_take_buffers_over(tmp_path, waits, cpu, lasts, may_wait):
    run = build_run(find(trace_of(waits, cpu, lasts).write(tmp_path / "host.xplane.pb")))
    assert len(run.hosts[0].steps) == STEPS
    assert Signals(report_of(run), run).cut_may_wait is may_wait


@pytest.mark.parametrize(("may_wait", "confidence"), [(False, "high"), (True, "medium")])
def test_the_gain_of_a_read_begins_at_nothing(may_wait, confidence):
    facts = reads(1.0, 0.5, 50.0)
    facts["report"]["environment"] = {"device_type": "CPU"}
    outcome = outcome_of(find_rule("device-to-host-sync"), given(**facts, cut_may_wait=may_wait))
    assert (outcome.status, outcome.confidence) == ("failed", confidence)
    assert outcome.price.least.unblock is not may_wait
    assert (outcome.price.sure > 0) is not may_wait


@pytest.mark.parametrize(
    ("framework", "call", "confidence"),
    [
        ("jax", "block_until_ready", "medium"),
        ("jax", "item", "high"),
        ("torch_xla", "wait_device_ops", "high"),
    ],
)
def test_a_wait_that_reads_nothing_of_jax_on_a_cpu_may_cost_nothing(framework, call, confidence):
    facts = reads(1.0, 0.5, 50.0)
    facts["report"]["environment"] = {"device_type": "CPU"}
    facts["report"]["host_reads"] = [replace(row, call=call) for row in facts["report"]["host_reads"]]
    outcome = outcome_of(find_rule("device-to-host-sync"), given(**facts, framework=framework))
    assert (outcome.status, outcome.confidence) == ("failed", confidence)
    assert (outcome.price.sure > 0) is (confidence == "high")


@pytest.mark.parametrize(("device", "stay"), [("TPU v5 lite", False), ("CPU", True)])
def test_cuts_that_are_joined_leave_their_waits_where_host_and_device_share_the_cpus(device, stay):
    """34 to 48 ms was said of ten cuts whose waits were taken to go, and 9 to 21 were saved: both are slower then."""
    facts = cut(4, 20.0)
    facts["report"] = {**facts.get("report", {}), "environment": {"device_type": device}}
    outcome = outcome_of(find_rule("eager-graph-cuts"), given(**facts))
    assert outcome.status == "failed"
    assert outcome.price.least.waits_stay is stay
    assert not outcome.price.most.waits_stay
    assert (outcome.price.note == SIDE_BY_SIDE) is stay
    assert not doubted(Savings(1.0, 2.0, "counterfactual", note=SIDE_BY_SIDE))
