"""Copies to and from host memory, and communication between chips."""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.device.collective_role import PARAMETER_GATHER
from tpuprof.report.schema import TransferRow
from tpuprof.signals.base import signal
from tpuprof.signals.inputs import DEVICE_OPS, STEPS
from tpuprof.signals.steps import StepSignals
from tpuprof.signals.telemetry import TelemetrySignals


class TransferSignals(StepSignals, TelemetrySignals):
    """Copies and collectives; times in ms, per step."""

    @signal("transfers", needs=(STEPS, DEVICE_OPS))
    def offload(self) -> list[TransferRow]:
        """Copies to and from host memory, most exposed first."""
        return self._report.offload

    @signal("transfers", needs=(STEPS, DEVICE_OPS))
    def collectives(self) -> list[TransferRow]:
        """Communication between chips, most exposed first."""
        return self._report.collectives

    @signal("share", needs=(STEPS, DEVICE_OPS))
    def offload_share(self) -> float:
        """Share of all step time in which the device waits on copies to and from host memory."""
        return self._share(part.OFFLOAD)

    @signal("share", needs=(STEPS, DEVICE_OPS))
    def collective_share(self) -> float:
        """Share of all step time in which the device waits on communication."""
        return self._share(part.COLLECTIVE)

    @signal("transfers", needs=(STEPS, DEVICE_OPS))
    def parameter_gathers(self) -> list[TransferRow]:
        """All-gathers of parameters; where programs do not tell, all of an FSDPv2 run's all-gathers of unknown role."""
        return [
            row
            for row in self.collectives
            if row.role == PARAMETER_GATHER or (not row.role and "all-gather" in row.kind and self._fsdp)
        ]

    @property
    def _fsdp(self) -> bool:
        loaded = self._run.info.get("features_loaded")
        return isinstance(loaded, list) and "fsdpv2" in loaded and self.spmd
