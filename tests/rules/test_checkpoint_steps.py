"""A slow step that saves a checkpoint: what it reads and writes counts with it, and other work does not."""

import pytest

from tests.rules.given import given, step, steps
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"user:checkpoint": 16.0, "device_to_host_sync": 20.0, "host:python": 24.0},
            "mostly for checkpoint",
        ),
        (
            {"user:checkpoint": 16.0, "device_to_host_sync": 20.0, "host:python": 36.0},
            "mostly for checkpoint",
        ),
        # Histograms of all weights in the step that saves them: the checkpoint was named.
        ({"user:checkpoint": 16.0, "device_to_host_sync": 20.0, "host:python": 53.0}, "runs code"),
        ({"user:checkpoint": 16.0, "host:io": 15.0, "host:python": 53.0}, "runs code"),
    ],
)
def test_other_work_of_a_step_that_saves_is_no_part_of_saving(parts, said):
    signals = given(steps=[*steps(4), step(100 + sum(parts.values()), 4, **parts)])
    outcome = outcome_of(find_rule("uneven-steps"), signals)
    assert (outcome.status, said in outcome.title) == ("failed", True), outcome.title
