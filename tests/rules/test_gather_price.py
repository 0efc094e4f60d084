"""What sparing FSDPv2's gathers is worth: all of them where whole parameters fit, else half of them up to all."""

import pytest

from tests.rules.given import Memory, given
from tests.rules.situations import collectives
from tpuprof.rules.collective.exposed_parameter_gather.rule import HIDDEN_AT_LEAST, STATE_PER_PARAMETER
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.thresholds import HBM_PRESSURE_FROM_SHARE

# Of the one gather in `collectives`.
GATHERED_BYTES = 1024
CAPACITY = 1_000_000
FITS = int(HBM_PRESSURE_FROM_SHARE * CAPACITY) - STATE_PER_PARAMETER * GATHERED_BYTES


def left_at_least_and_most(**report):
    signals = {**collectives("all-gather", 0.5, fsdp=True), "report": report}
    price = outcome_of(find_rule("exposed-parameter-gather"), given(**signals)).price
    return [change.device["collective_exposed"] for change in (price.most, price.least)]


@pytest.mark.parametrize(("peak", "left"), [(FITS, 0.0), (FITS + 1, HIDDEN_AT_LEAST)])
def test_room_for_whole_parameters(peak, left):
    assert left_at_least_and_most(memory=Memory(peak, CAPACITY, "", "")) == [0.0, left]


def test_a_device_without_memory_of_its_own_has_room():
    assert left_at_least_and_most(environment={"device_type": "CPU"}) == [0.0, 0.0]


def test_memory_that_is_not_known_proves_no_room():
    assert left_at_least_and_most() == [0.0, HIDDEN_AT_LEAST]
