"""Times what the training thread waits for: loaders, checkpoints, waits for the device.

Functions are replaced by ones that time them and call them unchanged. Methods of tensors are left alone, because
torch.compile traces through those. Only the outermost call counts, and only in the thread that trains.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.saves import SAVES
from tpuprof.instrument.state import note_failure
from tpuprof.ledger.clock import Clock

INPUT, WAIT, SAVE, RESTORE = "input", "wait", "save", "restore"
# (module, class or empty, function, what its time is). What is not imported is left out until it is.
FUNCTIONS = (
    ("torch.utils.data.dataloader", "_BaseDataLoaderIter", "__next__", INPUT),
    ("torch_xla.distributed.parallel_loader", "PerDeviceLoader", "next", INPUT),
    ("_XLAC", "", "_xla_wait_device_ops", WAIT),
    *((*save, SAVE) for save in SAVES),
    ("torch", "", "load", RESTORE),
    ("torch.distributed.checkpoint", "", "load", RESTORE),
)


class Timers:
    """Nanoseconds of the training thread by what it did, since the last `take`."""

    def __init__(
        self, clock: Clock, thread: Callable[[], int | None], ended: Callable[[str, int, int], None]
    ) -> None:
        self.spent = dict.fromkeys((INPUT, WAIT, SAVE, RESTORE), 0)
        self._clock = clock
        self._thread = thread
        self._ended = ended
        self._busy = False
        self._done: set[tuple[str, str, str]] = set()
        self._undo: list[Callable[[], None]] = []

    def install(self) -> None:
        """Time what is imported by now. May be called again when more is."""
        for module, owner, name, what in FUNCTIONS:
            if (module, owner, name) in self._done or module not in sys.modules:
                continue
            try:
                found: Any = sys.modules[module]
                found = getattr(found, owner, None) if owner else found
                if hasattr(found, name):
                    self._replace(found, name, what)
                    self._done.add((module, owner, name))
            except Exception as error:
                note_failure("timing what training waits for", error)

    def remove(self) -> None:
        """Put everything back, last first."""
        while self._undo:
            self._undo.pop()()
        self._done.clear()

    def take(self) -> dict[str, int]:
        """What was counted since the last call."""
        found = self.spent
        self.spent = dict.fromkeys(found, 0)
        return found

    def _replace(self, owner: Any, name: str, what: str) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._busy or threading.get_ident() != (self._thread() or threading.main_thread().ident):
                return original(*args, **kwargs)
            self._busy = True
            began = self._clock.now_ns()
            try:
                return original(*args, **kwargs)
            finally:
                self._busy = False
                until = self._clock.now_ns()
                self.spent[what] += until - began
                if what in (SAVE, RESTORE):
                    self._ended(what, began, until)

        setattr(owner, name, timed)

        def put_back() -> None:
            # Where someone else has replaced it since, theirs stays.
            if getattr(owner, name, None) is timed:
                setattr(owner, name, original)

        self._undo.append(put_back)
