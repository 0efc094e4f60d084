"""Memory in the Report: what a program takes, its buffers, and what the runtime's allocator says."""

from __future__ import annotations

from dataclasses import field

from tpuprof.records import record


@record(frozen=True)
class BufferRow:
    """One of the largest buffers at the peak: size in bytes, the op that defines it, its shape and source."""

    name: str
    bytes: int
    shape: str
    kind: str
    source: str
    annotation: str


@record(frozen=True)
class MemoryMoment:
    """HBM in use when the program has come to `op` (bytes); `order` counts the compiler's allocations and frees."""

    order: int
    op: str
    bytes: int


@record(frozen=True)
class InputCopy:
    """An op that copies an input whole, since the result that replaces the input must not overwrite it."""

    program: str
    op: str


@record(frozen=True)
class AllocatorRow:
    """What the runtime's allocator said of one device (bytes): held at most and at the end, and free at least.

    Temporaries of running programs are not among these bytes.
    """

    host: str
    device: int
    events: int
    most_bytes: int
    last_bytes: int
    least_free_bytes: int | None


@record(frozen=True)
class Memory:
    """HBM of one device, in bytes. None is unavailable, for the reason in `unavailable`.

    `fragmented_bytes` is what of the temporaries' arena no live buffer fills at its peak. `headroom_bytes` is what of
    the capacity is left at the peak, negative where it does not fit. `over_program` is what is in use as the program
    goes on, arguments, constants and results included: the highest moment of each stretch of it.
    """

    peak_bytes: int | None
    capacity_bytes: int | None
    method: str
    unavailable: str
    by_kind: dict[str, int] = field(default_factory=dict)
    buffers: list[BufferRow] = field(default_factory=list)
    program: str = ""
    fragmented_bytes: int | None = None
    headroom_bytes: int | None = None
    over_program: list[MemoryMoment] = field(default_factory=list)
    # What results take beside inputs that they replace, whose memory they could have had; None where it is unknown.
    undonated_bytes: int | None = None
    # Ops that copy an input whole, because the result that replaces it must not overwrite it; each once.
    input_copies: list[InputCopy] = field(default_factory=list)
    # Independent batches whose gradients the program adds up, 1 where it sees one; None where it is unknown.
    micro_batches: int | None = None
    # What the runtime's allocator held, by device; empty where the trace has no events of it.
    allocator: list[AllocatorRow] = field(default_factory=list)
    # Of several hosts, the one whose program it is.
    host: str = ""
