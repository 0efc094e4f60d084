"""What sparing FSDPv2's gathers is worth: half of them up to all; on the CPU device, within one memory, all."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.rules.given import given, op, steps, transfer
from tests.rules.situations import collectives
from tpuprof.rules.collective.exposed_parameter_gather.rule import HIDDEN_AT_LEAST
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.signals import transfers


def test_gathers_slow_the_computing_of_devices_that_share_cpus():
    signals = {
        **collectives("all-gather", 0.3, fsdp=True),
        "beside_gathers_share": 0.4,
        "steps": steps(compute=50.0),
        "report": {"environment": {"device_type": "CPU"}},
    }
    outcome = outcome_of(find_rule("exposed-parameter-gather"), given(**signals))
    assert outcome.price.most.device == {"collective_exposed": 0.0, "compute": pytest.approx(0.6)}
    assert outcome.price.least.device == {"collective_exposed": 0.0}
    # At stake are the gathers and that part of the computing.
    assert outcome.share == pytest.approx(0.3 + 0.4 * 0.5)
    assert "30 % of each step" in outcome.title


@pytest.mark.parametrize(("devices", "share"), [(4, 1 - 0.5 * 0.75), (1, 0.0)])
def test_what_of_the_computing_may_go_with_gathers(devices, share, monkeypatch):
    """Copies of what was gathered are half of it, and runs of ops could take three quarters of their time."""
    monkeypatch.setattr(transfers, "undisturbed_share", lambda device: 0.75)
    ops = [
        op("dot.1", 10.0),
        op("copy.1", 5.0, layout_copy=True),
        op("copy.2", 5.0, layout_copy=True),
        op("all-gather.1", 7.0, kind="collective"),
    ]
    gather = replace(transfer("all-gather", role="parameter_gather"), source=ops[0].source)
    signals = given(
        report={"environment": {"device_type": "CPU"}, "ops": ops}, collectives=[gather], run_info={}
    )
    signals._run.hosts.append(SimpleNamespace(devices=[SimpleNamespace(count=devices)]))
    assert signals.beside_gathers_share == pytest.approx(share)


@pytest.mark.parametrize(("device", "left"), [("CPU", 0.0), ("TPU v5e", HIDDEN_AT_LEAST)])
def test_what_is_left_of_the_gathers(device, left):
    signals = {
        **collectives("all-gather", 0.5, fsdp=True),
        "report": {"environment": {"device_type": device}},
    }
    price = outcome_of(find_rule("exposed-parameter-gather"), given(**signals)).price
    assert [change.device["collective_exposed"] for change in (price.most, price.least)] == [0.0, left]
