"""The price of calls that the training thread makes: what is left is the other calls, or the work of the device."""

from __future__ import annotations

from tpuprof.report.schema import Savings
from tpuprof.rules.base import Price
from tpuprof.rules.pricing import COUNTERFACTUAL, ON_THIS_CPU
from tpuprof.signals import Signals
from tpuprof.units import format_ms


def host_price(signals: Signals, least: float, most: float) -> Price | None:
    """The price of a fix that takes so much (ms per step) out of the training thread's calls.

    None where nothing tells how long the device works meanwhile: TorchTPU on a device plane was not tried, and without
    one only a device that is this machine's CPU has its time counted.
    """
    busy = signals.device_at_most_ms
    if busy is None:
        return None
    least = min(least, max(signals.step_ms - busy, 0.0))
    return Price(
        savings=Savings(least, most, COUNTERFACTUAL, note=f"{ON_THIS_CPU}{format_ms(busy)} of a step")
    )
