"""What a split batch saves at least: on this machine's CPUs sums of gradients may take all of it."""

import pytest

from tests.rules.given import given
from tests.rules.situations import special
from tpuprof.parts import COMPUTE
from tpuprof.rules.compute.repeated_work.rule import GAINED_AT_LEAST
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of


@pytest.mark.parametrize(("device_type", "at_least"), [("CPU", 0.0), ("TPU v6 Lite", GAINED_AT_LEAST)])
def test_on_devices_that_share_cpus_the_price_begins_at_nothing(device_type, at_least):
    """Four devices on two cores: "8.44 ms to 51.9 ms" was said, and 1 ms saved."""
    facts = {**special(80.0, repeated=4, self_ms_per_step=80.0), "device_type": device_type}
    price = outcome_of(find_rule("repeated-work"), given(**facts)).price
    gained = 1 - price.most.device[COMPUTE]
    assert gained == pytest.approx(0.75 * 0.8)
    assert 1 - price.least.device[COMPUTE] == pytest.approx(at_least * gained)
