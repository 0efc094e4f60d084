"""Warnings of numbers that broke their bound, so that none is dropped silently."""

from __future__ import annotations

from tpuprof.bounds import INCONSISTENT, is_inconsistent
from tpuprof.report.schema import Memory, OpRow, TransferRow
from tpuprof.report.sections import Compute

# Ops and transfers named in a warning (names).
NAMED = 3


def inconsistencies(
    compute: Compute | None, ops: list[OpRow], transfers: list[TransferRow], memory: Memory
) -> list[str]:
    """One sentence per kind of number that broke its bound."""
    found = [compute.mfu_note] if compute is not None and is_inconsistent(compute.mfu_note) else []
    if is_inconsistent(memory.unavailable):
        found.append(memory.unavailable)
    for what, rows in (("ops", ops), ("transfers", transfers)):
        wrong = [row for row in rows if is_inconsistent(row.note)]
        if wrong:
            named = "; ".join(f"{row.name}: {row.note.removeprefix(INCONSISTENT)}" for row in wrong[:NAMED])
            found.append(f"{INCONSISTENT}figures of {len(wrong)} {what} are not shown ({named})")
    return found
