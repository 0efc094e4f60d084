"""What the host does is sure from samples; how long it takes by itself is not where threads wait for a CPU."""

import pytest

from tests.rules.given import asleep, given, steps
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of


@pytest.mark.parametrize(
    ("kind", "waited", "confidence"),
    [
        ("host:python", 0.49, "high"),
        ("host:python", 0.5, "medium"),
        ("host:lock", 0.93, "medium"),
        # A sleep takes as long on a busy machine.
        ("host:sleep", 0.93, "high"),
    ],
)
def test_on_a_busy_machine_only_a_sleep_is_sure(kind, waited, confidence):
    facts = {"steps": steps(), "host_stacks": [asleep(40.0, part=kind)]}
    signals = given(**facts, run_info={"capture": {"cpu_wait_share": waited}})
    assert outcome_of(find_rule("host-blocked"), signals).confidence == confidence
