"""What a device's work costs where its programs overlap, so that nothing tells which of them the host waits for."""

import pytest

from tests.builders import TraceBuilder
from tests.rules.given import given
from tpuprof.decode.find import find_all
from tpuprof.model.run import build_run
from tpuprof.rules.base import Price
from tpuprof.rules.pricing import Pricing, simulator_of
from tpuprof.simulate.change import Change

STEP, COUNT = 20_000, 20


def calls_beside(overlap, folder):
    """A call per step that lasts nearly as long; programs on two threads follow, or overlap, one another."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    lines = [trace.host().line(f"tf_XLATfrtCpuClient/{number}") for number in (7, 8)]
    for number in range(COUNT):
        at = number * STEP
        python.event("train", at, STEP, _r=1, step_num=number)
        python.event("PjitFunction(step)", at + 100, STEP - 200)
        took = STEP + overlap
        line = lines[number % 2]
        line.event("ThunkExecutor::Execute (wait for completion)", at + 150, took)
        line.event("dot.1", at + 150, took, hlo_op="dot.1", hlo_module="jit_step", program_id=1)
    path = folder / "plugins" / "profile" / "one" / "host0.xplane.pb"
    trace.write(path)
    return build_run(find_all(folder))


def test_waits_whose_end_is_unknown_may_go_with_the_work(tmp_path):
    run = calls_beside(1000, tmp_path)
    simulator = simulator_of(run.hosts)
    half = Change(device={"compute": 0.5})
    replayed = simulator.measured_ms - simulator.step_ms(half)
    found, _ = Pricing(given(step_ms=simulator.measured_ms, sees_device=True), lambda: simulator).savings(
        Price(half, half)
    )
    assert replayed < 1 < found.high
    assert found.high <= simulator.removed_ms(half) * 1.001
    assert found.low == pytest.approx(replayed, abs=0.1)
