"""Keeps messages of a profile readable: few, short, and without characters that a terminal would obey."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.shown_text import printable

# A profiler that fails may note the same error for every event (messages; characters of each).
MAX_MESSAGES = 20
MAX_CHARACTERS = 300
# Programs of which what was read is remembered: hosts of a run embed the same ones (programs).
PROGRAMS_KEPT = 8


def limited(messages: Sequence[str]) -> list[str]:
    """The first messages, each once, each cut to a readable length; the last says how many were left out."""
    distinct = list(dict.fromkeys(_readable(each) for each in messages))
    kept = distinct[:MAX_MESSAGES]
    left_out = len(distinct) - len(kept)
    return [*kept, f"{left_out} more messages were left out"] if left_out else kept


def _readable(message: str) -> str:
    text = printable(message)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
