"""The switch all instrumentation looks at, and the one door to torch_xla's internals.

Nothing in here raises into training code: a failure switches instrumentation off and is remembered as a
note for the run folder.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


class State:
    """`armed`: annotations push scopes and events. `notes`: what went wrong, for run.json."""

    __slots__ = ("armed", "listeners", "notes")

    def __init__(self) -> None:
        self.armed = False
        self.notes: list[str] = []
        # Called with the number of the step that begins, or None for "the next one".
        self.listeners: list[Callable[[int | None], None]] = []


STATE = State()


def xlac() -> Any | None:
    """torch_xla's extension module, None where torch_xla is not installed. Never imports it on its own."""
    if "torch_xla" not in sys.modules:
        return None
    return getattr(sys.modules["torch_xla"], "_XLAC", None)


def import_xlac() -> Any | None:
    """The same, importing torch_xla first; None where it cannot be imported."""
    try:
        importlib.import_module("torch_xla")
    except Exception:  # a broken installation raises more than ImportError
        return None
    return xlac()


def note_failure(where: str, error: BaseException) -> None:
    """Switch instrumentation off and remember why; training goes on."""
    STATE.armed = False
    note = f"{where} failed and instrumentation was switched off: {type(error).__name__}: {error}"
    if note not in STATE.notes:
        STATE.notes.append(note)


def counter(extension: Any, name: str) -> int:
    """The value of a torch_xla counter, 0 where it has not counted yet."""
    return int(extension._xla_counter_value(name) or 0)
