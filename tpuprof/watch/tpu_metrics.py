"""Duty cycle, use of the tensor cores and of the memory of this process's TPU chips, by libtpu's own monitoring.

Nothing of it is imported where the device is no TPU: there, the import asks for a metadata server for minutes.
"""

from __future__ import annotations

import importlib
import math
import time
from typing import Any

MODULE = "libtpu.sdk.tpumonitoring"
# How often the chips are asked (s): libtpu samples them no faster.
LOOK_SECONDS = 5.0
# A reading that takes longer is the last one (s): it may hold up the threads that train.
MOST_SECONDS = 0.1
# Shares by the name that Google's SDK gives them, with libtpu's metric: percent, one per chip or core.
_SHARES = {"tpu_duty_cycle": "duty_cycle_pct", "tpu_tensorcore_utilization": "tensorcore_util"}
_HBM, _USED, _TOTAL = "hbm_utilization", "hbm_capacity_usage", "hbm_capacity_total"
NAMES = (*_SHARES, _HBM)


class TpuMetrics:
    """`values` has percent by name, `unavailable` says why a name is not there, `bytes_in_use` is of the first chip."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.unavailable = dict.fromkeys(NAMES, "the device runtime is not up yet")
        self.bytes_in_use: int | None = None
        self._module: Any = None
        self._looked = -math.inf

    def begin(self, device: str | None) -> None:
        """The runtime is up with devices of this type. Raises nothing."""
        if device != "TPU":
            self._stop(f"libtpu measures it on a TPU; the device is {device or 'unknown'}")
            return
        try:
            self._module = importlib.import_module(MODULE)
        except Exception as error:  # an extension module raises what it likes
            self._stop(f"libtpu's monitoring cannot be imported: {error}")

    def look(self, now: float | None = None) -> None:
        """Ask the chips, if it is time. Raises nothing."""
        now = time.monotonic() if now is None else now
        if self._module is None or now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        began = time.perf_counter()
        for name, metric in _SHARES.items():
            found = self._read(name, metric)
            self._keep(name, sum(found) / len(found) if found else None)
        used, total = self._read(_HBM, _USED), self._read(_HBM, _TOTAL)
        self.bytes_in_use = int(used[0]) if used else None
        self._keep(_HBM, 100 * sum(used) / sum(total) if used and sum(total) > 0 else None)
        spent = time.perf_counter() - began
        if spent > MOST_SECONDS:
            self._stop(f"reading it took {spent:.2f} s, which could slow training down")

    def _read(self, name: str, metric: str) -> list[float]:
        try:
            found = [float(each) for each in self._module.get_metric(metric).data()]
        except Exception as error:  # see begin
            self.unavailable[name] = f"libtpu: {type(error).__name__}: {error}"
            return []
        if not found:
            self.unavailable[name] = "libtpu answers without values"
        return found

    def _keep(self, name: str, percent: float | None) -> None:
        self.values.pop(name, None)
        if percent is None:
            return
        if not 0 <= percent <= 100:
            self.unavailable[name] = f"libtpu says {percent:g} %, which is no share"
            return
        self.values[name] = percent
        self.unavailable.pop(name, None)

    def _stop(self, why: str) -> None:
        self._module, self.bytes_in_use = None, None
        self.values.clear()
        self.unavailable = dict.fromkeys(NAMES, why)
