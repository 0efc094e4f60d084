"""What sparing FSDPv2's gathers is worth: half of them up to all; on the CPU device, within one memory, all."""

import pytest

from tests.rules.given import given
from tests.rules.situations import collectives
from tpuprof.rules.collective.exposed_parameter_gather.rule import HIDDEN_AT_LEAST
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of


@pytest.mark.parametrize(("device", "left"), [("CPU", 0.0), ("TPU v5e", HIDDEN_AT_LEAST)])
def test_what_is_left_of_the_gathers(device, left):
    signals = {
        **collectives("all-gather", 0.5, fsdp=True),
        "report": {"environment": {"device_type": device}},
    }
    price = outcome_of(find_rule("exposed-parameter-gather"), given(**signals)).price
    assert [change.device["collective_exposed"] for change in (price.most, price.least)] == [0.0, left]
