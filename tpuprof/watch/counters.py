"""What the framework and the system count, read without a profiler: compiles per step, the rest once per second."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

from tpuprof.capture.telemetry import FALLBACK_PREFIX
from tpuprof.instrument.state import counter
from tpuprof.watch.tpu_metrics import TpuMetrics

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass
class Totals:
    """Totals since the process began, None where nothing counts them."""

    tracing_ns: float | None = None
    read_ns: float | None = None
    fallbacks: int = 0
    cache_hits: int = 0


class Counters:
    """Reads torch_xla's counters, or those of the framework that stands for it. Without any, all is zero or None."""

    def __init__(self, extension: Any | None) -> None:
        self.extension = extension
        # Set when the device runtime is up: asking for its memory would start it.
        self.runtime_up = False
        self.chips = TpuMetrics()
        self._tells_memory = True

    def compiles(self) -> int:
        """Graphs compiled since the process began."""
        return counter(self.extension, "UncachedCompile") if self.extension is not None else 0

    def graphs(self) -> tuple[int, int]:
        """Graphs compiled, and graphs handed to the runtime, since the process began.

        Asked once per step, it calls the extension itself.
        """
        if self.extension is None:
            return 0, 0
        value = self.extension._xla_counter_value
        made = int(value("UncachedCompile") or 0)
        return made, made + int(value("CachedCompile") or 0)

    def drain_compiles(self) -> list[tuple[int, float, list[str]]]:
        """Compiles since the last call of a framework that has no graph cuts."""
        drain = getattr(self.extension, "drain_compiles", None)
        return list(drain()) if drain is not None else []

    def totals(self) -> Totals:
        """What is read once per second: metrics copy up to a thousand samples each."""
        if self.extension is None:
            return Totals()
        names = self.extension._xla_counter_names()
        fallbacks = sum(
            counter(self.extension, name)
            for name in names
            if name.startswith(FALLBACK_PREFIX) and name != "aten::_local_scalar_dense"
        )
        hits = counter(self.extension, "PersistentCacheHit")
        return Totals(self._metric("LazyTracing"), self._metric("TransferFromDeviceTime"), fallbacks, hits)

    def last_graph_ops(self) -> int | None:
        """Size of the graph that was collected last (ops), where torch_xla counts it."""
        data = self.graph_sizes()
        return int(data[2][-1][1]) if data and len(data) > 2 and data[2] else None

    def graph_sizes(self) -> Any:
        """Torch_xla's metric of the graphs it collected: count, sum, newest samples. None where nothing counts them."""
        return self.extension._xla_metric_data("TensorsGraphSize") if self.extension is not None else None

    def _metric(self, name: str) -> float | None:
        data = self.extension._xla_metric_data(name) if self.extension is not None else None
        return float(data[1]) if data else None

    def device_bytes(self) -> int | None:
        """Memory in use on this process's first device (bytes), None where the runtime does not tell."""
        model = sys.modules.get("torch_xla.core.xla_model")
        if model is None or not (self.runtime_up and self._tells_memory):
            return self.chips.bytes_in_use
        try:
            found = model.get_memory_info("xla:0")
            return int(found["bytes_used"])
        except Exception:  # runtimes without the call raise what they like
            self._tells_memory = False
            return self.chips.bytes_in_use

    def host_bytes(self) -> int | None:
        """Memory of this process (bytes)."""
        try:
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * _PAGE
        except (OSError, ValueError, IndexError):
            return None
