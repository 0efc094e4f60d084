"""What the host does is sure from samples; how long it takes by itself is not where threads wait for a CPU."""

from dataclasses import replace

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


CALL = "model(x.to(device)).cpu()"


@pytest.mark.parametrize(
    ("part", "call", "samples", "said", "confidence"),
    [
        ("dispatch", CALL, 3, "runs code beside calls that give the device work", "medium"),
        # Fewer than counted samples, and samples that were not counted.
        ("dispatch", CALL, 2, "runs code that gives the device no work", "high"),
        ("dispatch", CALL, 0, "runs code beside calls that give the device work", "medium"),
        # A part of the expression, and one that only the line has in common with it.
        ("dispatch", "model(x.to(device))", 3, "runs code beside calls that give the device work", "medium"),
        ("dispatch", f"total.add({CALL})", 3, "runs code that gives the device no work", "high"),
        ("host:io", CALL, 3, "runs code that gives the device no work", "high"),
    ],
)
def test_code_that_also_hands_programs_over_is_not_said_to_give_no_work(
    part, call, samples, said, confidence
):
    """`model(x).cpu()` was said to give the device no work, with high confidence."""
    python = replace(asleep(40.0, part="host:python"), user_call=CALL)
    other = replace(python, part=part, user_call=call, exposed_ms_per_step=4.0, samples=samples)
    signals = given(steps=steps(), host_stacks=[python, other], sampled_host_ms={"host:python": 40.0})
    found = outcome_of(find_rule("host-blocked"), signals)
    assert found.title.startswith(f"The host {said} at {python.source} ({CALL})")
    assert found.evidence[0].text == f"the host {said}: {CALL}"
    assert found.confidence == confidence
