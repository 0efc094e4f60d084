"""Which programs ran in the steps: memory is said of those."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.decode.find import find_all
from tpuprof.model.device.program_ops import programs_in_steps
from tpuprof.model.run import build_run


@pytest.fixture
def host(tmp_path):
    """One program before the first step, one in each of two steps."""
    trace = TraceBuilder()
    python, modules, ops = (
        trace.host().line("python"),
        trace.tpu(0).line("XLA Modules"),
        trace.tpu(0).line("XLA Ops"),
    )
    for name, at in (("first_weights(1)", 0), ("step(2)", 1000), ("step(2)", 2000)):
        modules.event(name, at, 800)
        ops.event(f"%dot.{name[-2]} = f32[8]{{0}} dot()", at, 700, display=f"dot.{name[-2]}")
        if at:
            python.event("train", at, 1000, _r=1, step_num=at // 1000)
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(trace.to_bytes())
    return build_run(find_all([path])).hosts[0]


def test_only_programs_of_steps_count(host):
    assert programs_in_steps(host.devices, host.steps) == {"step(2)": 1.0}
    assert programs_in_steps([], host.steps) == {}
