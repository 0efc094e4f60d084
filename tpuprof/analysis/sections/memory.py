"""HBM of the program that takes most of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tpuprof.bounds import checked
from tpuprof.model.compile.hlo_metadata import scope_label
from tpuprof.model.run import Run
from tpuprof.report.memory import AllocatorRow, BufferRow, InputCopy, Memory, MemoryMoment
from tpuprof.units import format_bytes

ASSIGNMENT = "compiler's buffer assignment"
DEBUG_TEXT = "PT_XLA_DEBUG's post-compilation analysis"
PREDICTED = "compiler's memory report (preflight)"


def memory_section(run: Run) -> Memory:
    """The host whose program needs most; of a predicted run, what the compiler said when it compiled it."""
    found = replace(_section(run), allocator=allocator_rows(run))
    if found.peak_bytes is None or found.capacity_bytes is None:
        return found
    if found.method != PREDICTED:
        # A program that does not fit can be predicted, but it cannot have run.
        fits = checked(
            found.peak_bytes,
            "peak HBM",
            at_most=found.capacity_bytes,
            bound=_capacity(found),
            show=format_bytes,
        )
        if fits.value is None:
            return replace(found, peak_bytes=None, unavailable=fits.note)
    return replace(found, headroom_bytes=found.capacity_bytes - found.peak_bytes)


def allocator_rows(run: Run) -> list[AllocatorRow]:
    """What the runtime's allocator says of each device of each host."""
    return [
        AllocatorRow(
            host=host.name,
            device=each.device,
            events=each.events,
            most_bytes=each.most,
            last_bytes=each.last,
            least_free_bytes=each.least_free if each.least_free >= 0 else None,
        )
        for host in run.hosts
        for each in host.allocated
    ]


def _capacity(memory: Memory) -> str:
    return f"the {format_bytes(memory.capacity_bytes or 0)} that a program can use"


def _section(run: Run) -> Memory:
    predicted = _predicted(run.info)
    if predicted is not None:
        return predicted
    if all(host.memory.peak is None for host in run.hosts):
        told = _told(run)
        if told is not None:
            return told
    host = max(run.hosts, key=lambda each: each.memory.peak or 0)
    found = host.memory
    return Memory(
        peak_bytes=found.peak,
        capacity_bytes=found.capacity,
        method=ASSIGNMENT if found.peak is not None else "",
        unavailable=found.unavailable,
        by_kind=found.by_kind,
        buffers=[
            BufferRow(each.name, each.bytes, each.shape, each.kind, each.source, scope_label(each.scope))
            for each in found.buffers
        ],
        program=found.program,
        fragmented_bytes=found.holes,
        over_program=[MemoryMoment(each.order, each.op, each.bytes) for each in found.course],
        undonated_bytes=found.undonated,
        input_copies=[
            InputCopy(*each)
            for each in dict.fromkeys(each for host in run.hosts for each in host.memory.input_copies)
        ],
        micro_batches=found.batches,
        host=host.name if len(run.hosts) > 1 and found.peak is not None else "",
    )


def _told(run: Run) -> Memory | None:
    """What PT_XLA_DEBUG printed of the graph that needs most."""
    best: tuple[int, dict[str, int]] | None = None
    for each in run.notes.compiles.values():
        total = sum(size for kind, size in each.sizes.items() if kind != "aliased")
        total -= each.sizes.get("aliased", 0)
        if each.sizes and (best is None or total > best[0]):
            best = (total, each.sizes)
    if best is None:
        return None
    capacity = next((host.memory.capacity for host in run.hosts), None)
    return Memory(best[0], capacity, DEBUG_TEXT, "", by_kind=dict(best[1]))


def _predicted(info: dict[str, Any]) -> Memory | None:
    noted = info.get("preflight")
    told = noted.get("memory") if isinstance(noted, dict) else None
    if not isinstance(told, dict) or told.get("total_bytes") is None:
        return None
    try:
        return _memory_of(told)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # another version's, or damaged


def _memory_of(told: dict[str, Any]) -> Memory:
    return Memory(
        peak_bytes=int(told["total_bytes"]),
        capacity_bytes=int(told["capacity_bytes"]),
        method=PREDICTED,
        unavailable="",
        by_kind={str(kind): int(size) for kind, size in told.get("kinds_bytes", {}).items()},
        buffers=[
            BufferRow(
                name=str(each["name"]),
                bytes=int(each["bytes"]),
                shape=str(each["shape"]),
                kind=str(each["kind"]),
                source=str(each["source"]),
                annotation=scope_label(str(each["op"])),
            )
            for each in told.get("largest_buffers", [])
        ],
    )
