"""What is known of a price where nothing can be replayed: of the device's own work, an upper bound."""

import pytest

from tests.rules.given import given, step
from tpuprof.rules.base import Price
from tpuprof.rules.pricing import BOUND, Pricing
from tpuprof.simulate.change import Change

MISSED = "it cannot be priced: the replay gives 88.1 ms per step where 74.5 ms were measured, 18 % off"


@pytest.mark.parametrize(
    ("change", "most"),
    [
        (Change(device={"compute": 0.25}), 60.0),
        (Change(device={"compute": 0.25, "collective_exposed": 0.5}), 62.0),
        (Change(device={"infeed_outfeed": 0.0}), None),
        (Change(device={"compute": 0.25}, unblock=True), None),
        (Change(host={"tracing": 0.0}), None),
    ],
)
def test_work_that_goes_is_the_most_that_is_saved(change, most):
    pricing = Pricing(
        given(steps=[step(100.0, compute=80.0, collective_exposed=4.0, tracing=16.0)]), lambda: MISSED
    )
    found, why = pricing.savings(Price(change, change))
    if most is None:
        assert (found, why) == (None, MISSED)
        return
    assert (found.low, found.high, found.method) == (0.0, pytest.approx(most), BOUND)
    assert "it cannot be replayed: the replay gives" in found.note
    assert why == ""
