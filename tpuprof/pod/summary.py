"""What of one host the report of a pod needs: some exact columns, and the host's own report.

A summary is small, so that a thousand of them fit into one process, and exact: times stay integers of picoseconds, so
that sums over hosts do not depend on their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import orjson

from tpuprof.analysis.sections.compute import HostDevices, host_devices
from tpuprof.analysis.sections.transfers import spans_known
from tpuprof.model.barriers import NO_BARRIERS, Barriers, find_barriers
from tpuprof.model.compile.recurrence import AfterCapture
from tpuprof.model.device.cpu import Queue
from tpuprof.model.device.main_program import main_program
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_table import op_totals
from tpuprof.model.host.eager_mode import EagerOps
from tpuprof.model.host.handing_over import HandingOver
from tpuprof.model.host.reads import HostRead
from tpuprof.model.host.slice_messages import SliceMessages
from tpuprof.model.host.unnamed import Unnamed
from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import Int64
from tpuprof.model.read_graphs import again_by_step
from tpuprof.model.steps import Steps, StepSource
from tpuprof.pod.host_work import packed, work_of
from tpuprof.pod.ops import OpColumns, columns_of
from tpuprof.pod.squeeze import by_column, by_row, squeezed, unsqueezed
from tpuprof.records import record
from tpuprof.report.schema import Report
from tpuprof.report.sections import Tracing

# Collectives that a summary keeps (rows); of more, the same ones on every host that runs the program.
BARRIERS_KEPT = 6_000
# Odd numbers that spread consecutive ones evenly over 32 bits: 2**32 over the golden ratio, and over its square root.
_SPREAD_OPS, _SPREAD_OCCURRENCES = 0x9E3779B1, 0xC96C5795


@record(frozen=True)
class DeviceFacts:
    """What a summary keeps of a device."""

    name: str
    type: str
    count: int
    peak_flops_per_s: float | None
    peak_hbm_bytes_per_s: float | None
    megacore: bool | None


@record(frozen=True)
class Told:
    """What a verdict's sentence says of a host beyond its times; each None where there is nothing to say."""

    after: AfterCapture | None = None
    handing_over: HandingOver | None = None
    eager_ops: EagerOps | None = None
    program_ops: int | None = None
    unnamed: Unnamed | None = None
    blind: bool = False


@record(frozen=True)
class HostSummary:
    """One host. `parts`, `again` and the other columns have a row per step; times in ps. `report` is packed JSON.

    `program` is the program that took most of the devices' time, without its fingerprint. `barriers_seen` counts
    the collectives before some were left out. `work` is what its devices did, `memory_peak` the HBM (bytes) of its
    largest program, None where it is unknown. `again` is what devices do again for reads in mid-step. `spans` has
    by kind of transfer how many of them the host tells most of, None where it has none. `threads` is what its threads
    did, packed (`HostWork`). `told` is for the verdict.
    """

    name: str
    path: str
    size: int
    origin_ns: int
    framework: str
    program: str
    devices: tuple[DeviceFacts, ...]
    steps: Steps
    parts: dict[str, Int64]
    columns: dict[str, Int64]
    again: Int64
    reads: tuple[HostRead, ...]
    queue: Queue
    barriers: Barriers
    barriers_seen: int
    ops: OpColumns
    work: HostDevices
    memory_peak: int | None
    spans: dict[str, int | None]
    report: bytes
    threads: bytes
    told: Told = Told()
    slice_messages: tuple[SliceMessages, ...] = ()

    def own_report(self) -> dict[str, Any]:
        """The host's own report as it would be read from JSON, its long tables cut."""
        found = orjson.loads(unsqueezed(self.report))
        assert isinstance(found, dict)
        for name in TRANSFERS:
            names, columns = found[name]
            found[name] = [dict(zip(names, row, strict=True)) for row in by_row(columns)]
        return found


# Tables of transfers in the report.
TRANSFERS = {"collectives": OpKind.COLLECTIVE, "offload": OpKind.OFFLOAD}
# Columns of the breakdown, beside its parts.
COLUMNS = (
    "tracing_hidden",
    "busy",
    "host_work",
    "host_reads",
    "waited",
    "unfinished",
    "feeding",
    "for_reads",
    "ready",
    "blocked",
)


def summarise(host: HostRun, report: Report, path: str) -> HostSummary:
    """The summary of one host whose own report is at hand; `path` is how reports name its file."""
    barriers = find_barriers(host.devices, host.steps)
    return HostSummary(
        name=host.name,
        path=path,
        size=host.size,
        origin_ns=host.origin_ns,
        framework=host.framework,
        program=main_program(host.devices),
        devices=tuple(
            DeviceFacts(
                each.name,
                each.type,
                each.count,
                each.peak_flops_per_s,
                each.peak_hbm_bytes_per_s,
                each.megacore,
            )
            for each in host.devices
        ),
        steps=replace(host.steps, phases=()),
        parts=dict(host.breakdown.parts),
        columns={name: getattr(host.breakdown, name) for name in COLUMNS},
        again=again_by_step(host.read_graphs, len(host.steps)),
        reads=tuple(replace(each, by_step=()) for each in host.host_reads),
        queue=host.queue,
        barriers=_thinned(barriers),
        barriers_seen=len(barriers),
        ops=columns_of(op_totals([(host.name, host.devices, host.steps)])),
        work=host_devices(host),
        memory_peak=host.memory.peak,
        spans={name: spans_known(host, kind) for name, kind in TRANSFERS.items()},
        report=squeezed(orjson.dumps(_cut(report))),
        threads=packed(work_of(host)),
        told=Told(
            # What compiled there is in the host's own report.
            replace(host.after, lines={}) if host.after else None,
            host.handing_over,
            host.eager_ops,
            host.program_ops,
            host.unnamed,
            host.blind,
        ),
        slice_messages=tuple(host.slice_messages),
    )


def _thinned(found: Barriers) -> Barriers:
    """Half of the kinds of collectives (op and occurrence), a quarter, and so on, until they are few enough.

    They are chosen by their numbers alone, so that hosts keep the same; a host that keeps fewer keeps some of those.
    """
    if len(found) <= BARRIERS_KEPT:
        return found
    place = (found.op * _SPREAD_OPS + found.occurrence * _SPREAD_OCCURRENCES) % 2**32
    kept = np.arange(len(found))
    for halved in range(1, 32):
        if len(kept) <= BARRIERS_KEPT:
            break
        kept = np.flatnonzero(place < 2**32 >> halved)
    return Barriers(
        found.names,
        *(
            getattr(found, name)[kept]
            for name in ("step", "op", "occurrence", "spent", "end", "device", "ahead")
        ),
    )


def _cut(report: Report) -> dict[str, Any]:
    """The report without what the columns and the packed work of the threads have.

    Transfers stay whole: only when all hosts are there is it known whose are shown. They are as names and columns.
    """
    cut = replace(
        report,
        steps=replace(report.steps, per_step=[], slowest=[]),
        ops=[],
        sources=[],
        op_groups=[],
        host_reads=[],
        collective_layers=[],
        host_stacks=[],
        annotations=[],
        tracing=Tracing(),
        input=[],
        threads=[],
        environment={**report.environment, "run": None},
    )
    found = orjson.loads(_json(cut))
    assert isinstance(found, dict)
    for name in TRANSFERS:
        rows = found[name]
        names = list(rows[0]) if rows else []
        found[name] = [names, by_column([[row[each] for each in names] for row in rows])]
    return found


def _json(report: Report) -> str:
    from tpuprof.report.as_json import to_json

    return to_json(report)


def no_barriers() -> Barriers:
    """No collectives."""
    return NO_BARRIERS


def steps_from(header: dict[str, Any], columns: dict[str, Int64]) -> Steps:
    """Steps as a summary has them."""
    return Steps(
        StepSource(header["source"]),
        str(header["confidence"]),
        columns["number"],
        columns["start"],
        columns["end"],
        str(header["note"]),
    )
