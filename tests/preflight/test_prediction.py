"""What is said of one graph on one target."""

import pytest

from tests.preflight import programs
from tpuprof.preflight.compiler import Compiled
from tpuprof.preflight.prediction import collectives_by_kind, predict, prediction_dict
from tpuprof.preflight.targets import parse_target

STATS = {"argument": 10, "output": 10, "alias": 10, "temp": 5, "generated_code": 7}


def compiled(text: str, status: str = "compiled", error: str = "") -> Compiled:
    made = Compiled(programs.graph(), parse_target("v5e-4"), status, 1.0, dict(STATS), error=error)
    made.hlo_text = text
    return made


GATHER = (
    "HloModule step.1, is_scheduled=true\n\n"
    + programs.GATHERED
    + """
ENTRY %main (w: bf16[512,1024]) -> f32[1024] {
  %w = bf16[512,1024]{1,0} parameter(0)
  %copy-start = (bf16[512,1024]{1,0:S(1)}, bf16[512,1024]{1,0}, u32[]{:S(2)}) copy-start(%w)
  %copy-done = bf16[512,1024]{1,0:S(1)} copy-done(%copy-start)
  %async-collective-start = (bf16[512,1024]{1,0}, bf16[2048,1024]{1,0}) fusion(%copy-done), kind=kCustom, calls=%start
  %async-collective-done = bf16[2048,1024]{1,0} fusion(%async-collective-start), kind=kCustom, calls=%done
  %g = f32[4096]{0} fusion(%async-collective-done), kind=kLoop, calls=%other
  ROOT %out = f32[1024]{0} fusion(%g), kind=kCustom, calls=%scatter
}
"""
)


def test_collectives_are_named_by_weight_and_layer():
    found = predict(compiled(GATHER))
    first = found.collectives[0]
    assert (first.kind, first.weight, first.layer, first.asynchronous) == (
        "all-gather", "layers.3.up.weight", "layers.3", True,
    )  # fmt: skip
    assert collectives_by_kind(found.collectives) == {
        "all-gather": (1, 4 << 20),
        "reduce-scatter": (1, 16384),
    }


def test_a_gather_inside_a_loop_is_no_one_weights():
    text = programs.LOOPED_GATHER
    found = predict(compiled(text))
    assert [(each.kind, each.count, each.bytes, each.weight) for each in found.collectives] == [
        ("all-gather", 3, 3 * (4 << 20), "")
    ]


def test_mfu_is_flops_over_peak_in_the_predicted_step():
    found = predict(compiled(GATHER))
    found.flops = 197_000_000
    assert found.mfu_bound == 197e6 / (found.schedule.duration / 1e12) / 197e12


def test_json_says_none_and_why_where_nothing_was_compiled():
    result = prediction_dict(predict(compiled("", "time-limit", "stopped after 5 s")))
    assert result["memory"] is None
    assert result["predicted"] is None
    assert result["mfu_bound"] is None
    assert result["why"] == "stopped after 5 s"


def test_json_states_what_times_rest_on():
    result = prediction_dict(predict(compiled(GATHER)))
    assert result["assumptions"]["clock_hz"] == 1.5e9
    assert "GHz" in result["assumptions"]["clock_source"]
    # The parts are whole picoseconds; as ms they round.
    assert sum(result["predicted"]["split_ms"].values()) == pytest.approx(
        result["predicted"]["step_ms"], abs=1e-12
    )
