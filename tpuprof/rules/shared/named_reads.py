"""How the rules name a read: its call, its line, and the place in a library that the line leads to."""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.host.reads import spoken_read
from tpuprof.report.host_lines import library_place, noted_place
from tpuprof.report.schema import Evidence
from tpuprof.signals import Signals


def in_library(signals: Signals, call: str, source: str) -> str:
    """Where in a library a line of the program reads so; empty where it reads itself."""
    noted = [row.inside for row in signals.host_reads if (row.call, row.source) == (call, source)]
    known = next((each for each in noted if each is not None), None)
    if known is not None:
        return noted_place(known)
    return library_place(signals.stacks_if_sampled, part.HOST_SYNC, source) if source else ""


def at_place(signals: Signals, call: str, source: str) -> str:
    """Where a value is read, as the end of its name: the line, and the place in a library that it leads to."""
    inside = in_library(signals, call, source)
    return (f" at {source}" if source else "") + (f" (in {inside})" if inside else "")


def spoken(signals: Signals, call: str) -> str:
    """A read at the start of a sentence, in the framework's words."""
    said = spoken_read(call, signals.framework)
    return said[:1].upper() + said[1:] if " " in said else said


def blocked_evidence(signals: Signals) -> list[Evidence]:
    """What the reads of each line block of a step."""
    return [
        Evidence(f"{row.call}, blocked per step", row.blocked_ms_per_step, "ms", source=row.source)
        for row in signals.host_reads
    ]


def blocked_by_reads(signals: Signals) -> float:
    """What all reads block of a step (ms)."""
    return sum(row.blocked_ms_per_step for row in signals.host_reads)
