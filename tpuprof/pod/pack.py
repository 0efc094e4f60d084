"""A summary as bytes: numpy's own archive of integer columns, and JSON. Nothing in it is run when it is read."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import orjson

from tpuprof.analysis.sections.compute import HostDevices
from tpuprof.errors import Code, TpuprofError
from tpuprof.model.barriers import Barriers
from tpuprof.model.compile.recurrence import AfterCapture, CompilingLine, LongSteps, Stage
from tpuprof.model.device.cpu import Queue
from tpuprof.model.host.eager_mode import EagerOps
from tpuprof.model.host.handing_over import HandingOver
from tpuprof.model.host.reads import HostRead
from tpuprof.model.host.slice_messages import SliceMessages
from tpuprof.model.host.unnamed import Unnamed
from tpuprof.model.intervals import Int64
from tpuprof.pod.ops import SUMS, OpColumns, same
from tpuprof.pod.related import PART, apart, together
from tpuprof.pod.summary import COLUMNS, TRANSFERS, DeviceFacts, HostSummary, Told, steps_from

SCHEMA = "tpuprof.host/10"
SUFFIX = ".tpuprof-host"
# Larger is no summary (bytes): one of a 2-GB profile takes less than a megabyte.
MAX_BYTES = 64 << 20
# Bytes of one integer.
_SIZES = (1, 2, 4, 8)
_BARRIERS = ("step", "op", "occurrence", "spent", "end", "device", "ahead")
# Columns that grow along the rows: their differences are smaller numbers, which pack better.
_GROWING = frozenset({"barrier.end", "number", "barrier.step"})


def to_bytes(summary: HostSummary) -> bytes:
    """The summary as one file's bytes."""
    columns: dict[str, Int64] = {
        "number": summary.steps.number,
        "start": summary.steps.start,
        "end": summary.steps.end,
        **{PART + name: column for name, column in summary.parts.items()},
        **{f"column.{name}": column for name, column in summary.columns.items()},
        "again": summary.again,
        **{f"barrier.{name}": getattr(summary.barriers, name) for name in _BARRIERS},
        **{f"op.{name}": column for name, column in summary.ops.sums.items()},
    }
    columns, told = apart(columns, _room)
    packed = {name: _packed(name, column) for name, column in columns.items()}
    arrays: dict[str, Any] = {name: array for name, (array, _) in packed.items()}
    header = {
        **_header(summary),
        "scales": {name: scale for name, (_, scale) in packed.items()},
        "apart": told,
    }
    out = io.BytesIO()
    np.savez_compressed(
        out,
        header=np.frombuffer(orjson.dumps(header), np.uint8),
        report=np.frombuffer(summary.report, np.uint8),
        threads=np.frombuffer(summary.threads, np.uint8),
        ops=np.frombuffer(summary.ops.facts, np.uint8),
        **arrays,
    )
    return out.getvalue()


def _header(summary: HostSummary) -> dict[str, Any]:
    """What of a summary is no column."""
    return {
        "schema": SCHEMA,
        "name": summary.name,
        "path": summary.path,
        "size": summary.size,
        "origin_ns": summary.origin_ns,
        "framework": summary.framework,
        "program": summary.program,
        "devices": [asdict(each) for each in summary.devices],
        "steps": {
            "source": summary.steps.source.value,
            "confidence": summary.steps.confidence,
            "note": summary.steps.note,
        },
        "reads": [asdict(each) for each in summary.reads],
        "queue": asdict(summary.queue),
        "collectives": list(summary.barriers.names),
        "barriers_seen": summary.barriers_seen,
        "work": asdict(summary.work),
        "memory_peak": summary.memory_peak,
        "spans": summary.spans,
        "told": _told_row(summary.told),
        "slice_messages": [asdict(each) for each in summary.slice_messages],
    }


def from_bytes(data: bytes) -> HostSummary:
    """The summary in a file's bytes. Raises `TpuprofError` (`input-corrupt`, `input-schema-too-new`)."""
    try:
        if len(data) > MAX_BYTES:
            raise ValueError("it is too large")
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = orjson.loads(arrays.pop("header").tobytes())
        report, threads, ops = (arrays.pop(name).tobytes() for name in ("report", "threads", "ops"))
        if header["schema"] != SCHEMA:
            raise TpuprofError(
                Code.TOO_NEW,
                f"a summary has schema {str(header['schema'])[:40]!r}, and this tpuprof reads {SCHEMA!r}.",
                "Upgrade tpuprof.",
            )
        scales = header["scales"]
        columns = {name: _unpacked(name, each, scales[name]) for name, each in arrays.items()}
        return _summary(header, report, threads, ops, together(columns, header["apart"]))
    except (ValueError, KeyError, TypeError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise TpuprofError(
            Code.CORRUPT, f"a host's summary cannot be read ({error}).", "Summarise the host again."
        ) from error


def _summary(
    header: dict[str, Any], report: bytes, threads: bytes, ops: bytes, columns: dict[str, Int64]
) -> HostSummary:
    return HostSummary(
        name=str(header["name"]),
        path=str(header["path"]),
        size=int(header["size"]),
        origin_ns=int(header["origin_ns"]),
        framework=str(header["framework"]),
        program=str(header["program"]),
        devices=tuple(DeviceFacts(**each) for each in header["devices"]),
        steps=steps_from(header["steps"], columns),
        parts=_with_prefix(PART, columns),
        columns={name: columns[f"column.{name}"] for name in COLUMNS},
        again=columns["again"],
        reads=tuple(HostRead(**each) for each in header["reads"]),
        queue=Queue(**header["queue"]),
        barriers=Barriers(
            tuple(map(str, header["collectives"])), *(columns[f"barrier.{name}"] for name in _BARRIERS)
        ),
        barriers_seen=int(header["barriers_seen"]),
        ops=OpColumns(same(ops), {name: columns[f"op.{name}"] for name in SUMS}),
        work=HostDevices(**header["work"]),
        memory_peak=header["memory_peak"],
        spans={name: header["spans"][name] for name in TRANSFERS},
        report=report,
        threads=threads,
        told=_told(header["told"]),
        slice_messages=tuple(SliceMessages(**each) for each in header["slice_messages"]),
    )


def _told_row(told: Told) -> dict[str, Any]:
    """What the verdict says of a host, as JSON can hold it: keys are text there."""
    row = asdict(told)
    if told.after is not None:
        row["after"]["lengths"] = list(told.after.lengths.items())
    return row


def _told(row: dict[str, Any]) -> Told:
    kinds: dict[str, Callable[..., Any]] = {
        "after": _after,
        "handing_over": HandingOver,
        "eager_ops": EagerOps,
        "unnamed": Unnamed,
    }
    found = {name: kind(**row[name]) for name, kind in kinds.items() if row[name] is not None}
    return Told(program_ops=row["program_ops"], blind=row["blind"], **found)


def _after(**row: Any) -> AfterCapture:
    row["lines"] = {name: CompilingLine(**each) for name, each in row["lines"].items()}
    row["stages"] = [Stage(**each) for each in row["stages"]]
    row["long"] = LongSteps(**row["long"])
    row["lengths"] = {int(length): int(steps) for length, steps in row["lengths"]}
    return AfterCapture(**row)


def _with_prefix(prefix: str, columns: dict[str, Int64]) -> dict[str, Int64]:
    return {name.removeprefix(prefix): each for name, each in columns.items() if name.startswith(prefix)}


def _packed(name: str, column: Int64) -> tuple[Any, int]:
    """The column as the bytes of the smallest integers that hold it, and what each is to be multiplied by.

    Times are whole nanoseconds mostly. The first bytes of all come first, then the second ones: their high bytes are
    alike, which packs better.
    """
    if name in _GROWING and len(column):
        column = np.diff(column, prepend=column.dtype.type(0))
    scale = int(np.gcd.reduce(column)) if len(column) else 1
    column = column // max(scale, 1)
    low, high = int(column.min(initial=0)), int(column.max(initial=0))
    size = next(size for size in _SIZES if -(1 << 8 * size - 1) <= low and high < 1 << 8 * size - 1)
    whole = column.astype(f"<i{size}")
    return np.ascontiguousarray(whole.view(np.uint8).reshape(len(column), size).T), max(scale, 1)


def _room(name: str, column: Int64) -> int:
    """What the column takes in a summary, about (bytes)."""
    return len(zlib.compress(_packed(name, column)[0].tobytes(), 1))


def _unpacked(name: str, packed: Any, scale: int) -> Int64:
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[0] not in _SIZES:
        raise ValueError(f"{name} is no column of integers")
    whole = np.ascontiguousarray(packed.T).view(f"<i{packed.shape[0]}").reshape(-1).astype(np.int64)
    whole = whole * int(scale)
    return np.cumsum(whole) if name in _GROWING else whole
