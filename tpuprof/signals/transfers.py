"""Copies to and from host memory, and communication between chips."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof import parts as part
from tpuprof.model.device.collective_role import PARAMETER_GATHER
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.undisturbed import undisturbed_share
from tpuprof.model.host_run import HostRun
from tpuprof.report.late_chip import waited_in_collectives
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import TransferRow
from tpuprof.report.sections import ChipWaitRow, Hosts
from tpuprof.signals.base import signal
from tpuprof.signals.inputs import DEVICE_OPS, STEPS
from tpuprof.signals.steps import StepSignals
from tpuprof.signals.telemetry import TelemetrySignals
from tpuprof.units import ps_to_ms

_COLLECTIVE = OpKind.COLLECTIVE.name.lower()


def late_share(rows: Sequence[ChipWaitRow], hosts: Sequence[HostRun]) -> float:
    """How much of the time in which the hosts' devices wait on communication is for a chip that comes last; else 0."""
    waits = sum(len(host.devices) * _communication_ms(host) for host in hosts)
    return min(waited_in_collectives(rows) / waits, 1.0) if waits else 0.0


def late_hosts_share(found: Hosts, hosts: Sequence[HostRun]) -> float:
    """How much of that time is for another host that comes last to a collective; else 0."""
    steps = sum(len(host.steps) for host in hosts)
    spent = sum(map(_communication_ms, hosts))
    waited = sum(row.mean_waited_ms or 0.0 for row in found.late_steps)
    return min(waited / len(found.late_steps) * steps / spent, 1.0) if waited and spent else 0.0


def _communication_ms(host: HostRun) -> float:
    """How long one device of a host waits on communication in all steps (ms)."""
    return ps_to_ms(int(host.breakdown.parts[part.COLLECTIVE].sum()))


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

    @signal("share", needs=(STEPS, DEVICE_OPS))
    def late_chip_share(self) -> float:
        """How much of the time in which devices wait on communication is for the chip or host that comes last."""
        found, hosts = self._report.hosts, self._run.hosts
        return min(late_share(found.chip_waits, hosts) + late_hosts_share(found, hosts), 1.0)

    def beside_late_hosts(self) -> float:
        """What is left of waits on communication without those for another host, beside those for a chip of the same.

        A host's own report knows of its chips alone.
        """
        within = 1 - late_share(self._report.hosts.chip_waits, self._run.hosts)
        return (1 - self.late_chip_share) / within if within > 0 else 1.0

    @signal("names", needs=(STEPS, DEVICE_OPS))
    def gathered_whole(self) -> frozenset[str]:
        """All-gathers that make activations whole on every device; empty where the programs do not tell."""
        rows = OpRows.of(self._report.ops)
        names = zip(rows.column("name"), rows.column("kind"), rows.column("repeated"), strict=True)
        return frozenset(name for name, kind, repeated in names if repeated and kind == _COLLECTIVE)

    @signal("transfers", needs=(STEPS, DEVICE_OPS))
    def parameter_gathers(self) -> list[TransferRow]:
        """All-gathers of parameters; where programs do not tell, all of an FSDPv2 run's all-gathers of unknown role."""
        return [
            row
            for row in self.collectives
            if row.role == PARAMETER_GATHER or (not row.role and "all-gather" in row.kind and self._fsdp)
        ]

    @signal("share", needs=(STEPS, DEVICE_OPS))
    def beside_gathers_share(self) -> float:
        """How much of the computing may go with gathers of parameters, where devices share this machine's CPUs.

        Copies of what was gathered do, and what runs of an op take longer than its shortest ones: gathers of the
        other devices have the CPUs meanwhile. 0 where each device has processors of its own.
        """
        devices = [each for host in self._run.hosts for each in host.devices]
        if self.device_type != "CPU" or all(each.count == 1 for each in devices):
            return 0.0
        sources = {row.source for row in self.parameter_gathers if row.source}
        ops = self._report.ops
        computing = sum(each.self_ms for each in ops if each.kind == "compute")
        copied = sum(each.self_ms for each in ops if each.layout_copy and each.source in sources)
        left = 1 - copied / computing if computing else 1.0
        return 1 - left * min(map(undisturbed_share, devices), default=1.0)

    @property
    def _fsdp(self) -> bool:
        loaded = self._run.info.get("features_loaded")
        return isinstance(loaded, list) and "fsdpv2" in loaded and self.spmd
