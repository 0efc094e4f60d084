"""What a verdict may say of a host that keeps up: of the captured steps alone, where later ones took longer."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.model.outside_capture import SLOWER_FROM, Outside
from tpuprof.model.verdict_sentence import KEEPS_UP
from tpuprof.units import format_ms, ps_to_ms


def in_captured_steps(text: str, outside: Sequence[Outside | None]) -> str:
    """The verdict, which says that the host keeps up, as far as the steps behind the captured ones bear that out.

    Batches that a loader made before the first epoch's steps were captured are ready in these alone.
    """
    longer = [each for each in outside if each is not None and each.slower >= SLOWER_FROM]
    if not longer:
        return text
    later = format_ms(ps_to_ms(max(each.later for each in longer)))
    here = f"{KEEPS_UP} in these steps, while those after the capture took {later} on average"
    return text.replace(KEEPS_UP, here)
