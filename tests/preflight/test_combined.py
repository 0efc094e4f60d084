"""One iteration of several graphs: times add, memory is the largest, and each way of failing has its status."""

import pytest

from tests.preflight import programs
from tests.preflight.test_prediction import STATS
from tpuprof.preflight.combined import Iteration, iteration_dict
from tpuprof.preflight.compiler import Compiled
from tpuprof.preflight.prediction import Prediction, predict
from tpuprof.preflight.render import sweep_notes
from tpuprof.preflight.targets import parse_target

GIB = 1 << 30
ONE_MS = f"""HloModule step.1, is_scheduled=true

ENTRY %main (a: f32[8]) -> f32[8] {{
  %a = f32[8]{{0}} parameter(0)
  ROOT %out = f32[8]{{0}} fusion(%a), kind=kLoop, calls=%f{programs.cycles(programs.MS_V5E)}
}}
"""


def part(number: int, arguments: int = 0, status: str = "compiled") -> Prediction:
    made = Compiled(programs.graph(number=number), parse_target("v5e-1"), status, 1.0, error="why")
    made.memory = {**STATS, "argument": arguments, "output": 0, "alias": 0}
    made.hlo_text = ONE_MS
    return predict(made)


def iteration(*parts: tuple[Prediction, int], trains: bool = True) -> Iteration:
    return Iteration("v5e-1", list(parts), parts[0][0], trains)


def test_times_add_and_memory_is_the_largest():
    both = iteration((part(1, GIB), 3), (part(2, 4 * GIB), 1))
    assert both.step_ms == pytest.approx(4.0)
    assert both.memory is not None
    assert both.memory.kinds["arguments"] == 4 * GIB
    assert (both.fits, both.exit_status) == (True, 0)
    assert [each["times"] for each in iteration_dict(both)["graphs"]] == [3, 1]


def test_one_graph_that_does_not_fit_is_enough():
    both = iteration((part(1, GIB), 3), (part(2, 17 * GIB), 1))
    assert (both.fits, both.exit_status) == (False, 1)
    assert both.verdict.startswith("does not fit")


@pytest.mark.parametrize(
    ("status", "expected"),
    [("refused", 2), ("unknown-target", 2), ("crashed", 3), ("time-limit", 4), ("memory-limit", 4)],
)
def test_without_a_program_there_is_no_verdict_and_no_success(status, expected):
    both = iteration((part(1, GIB), 1), (part(2, status=status), 1))
    assert (both.fits, both.step_ms, both.exit_status, both.verdict) == (None, None, expected, status)


def test_what_trains_nothing_has_no_verdict():
    alone = iteration((part(1, GIB), 1), trains=False)
    assert (alone.fits, alone.exit_status) == (None, 4)
    assert "fits" not in alone.verdict
    assert "not a training step" in alone.verdict


class Swept:
    """An outcome of a sweep, as `sweep_notes` reads it."""

    def __init__(self, label: str, arguments: int, donors: list[int]) -> None:
        self.variant = type("Variant", (), {"label": label})
        found = part(1, arguments * GIB)
        found.compiled.graph.donors = donors
        self.found = iteration((found, 1))

    def iterations(self) -> list[Iteration]:
        return [self.found]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((1, 2), "the limit was not found"),
        ((1, 2, 17), "b=2 is the largest that fits; b=17: does not fit"),
        ((17,), "none fits"),
    ],
)
def test_a_sweep_says_whether_it_found_the_limit(sizes, words):
    assert words in sweep_notes([Swept(f"b={size}", size, [size]) for size in sizes])["v5e-1"]


def test_a_setting_that_changes_nothing_is_no_limit():
    assert "does not use this setting" in sweep_notes([Swept("b=1", 1, []), Swept("b=2", 1, [])])["v5e-1"]
