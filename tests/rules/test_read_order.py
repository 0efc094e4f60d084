"""Of reads, those of most steps stand first, as in the verdict."""

import pytest

from tests.rules.given import given, steps
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE
from tpuprof.report.schema import HostReadRow


@pytest.mark.parametrize(
    ("often", "first"), [(10 * READS_IN_STEPS_SHARE, "mask"), (10 * READS_IN_STEPS_SHARE - 1, "log")]
)
def test_reads_of_most_steps_come_before_one_that_waits_longest(often, first):
    """The verdict named a check of the mask, and the finding a log in one of ten steps."""
    log, mask = HostReadRow("item", "log", 1, 17.7), HostReadRow("__bool__", "mask", often, 1.4)
    signals = given(steps=steps(count=10), report={"host_reads": [log, mask]})
    assert signals.host_reads[0].source == first
    assert signals.python_reads[0].source == first
