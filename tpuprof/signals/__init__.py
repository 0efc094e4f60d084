"""Named numbers and tables that rules read: each with its unit, its definition, and the reason where it is missing.

One module a subject; `Signals` has them all.
"""

from __future__ import annotations

from tpuprof.model.steps.table import TYPICAL_UP_TO
from tpuprof.signals.base import Unavailable, signal_units
from tpuprof.signals.device import DeviceSignals
from tpuprof.signals.host import HostSignals
from tpuprof.signals.preflight import PreflightSignals
from tpuprof.signals.transfers import TransferSignals

__all__ = ["TYPICAL_UP_TO", "Signals", "Unavailable", "signal_units"]


class Signals(HostSignals, TransferSignals, DeviceSignals, PreflightSignals):
    """The signals of one run."""
