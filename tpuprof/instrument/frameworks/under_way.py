"""Which programs JAX makes right now: it tells when it begins to trace, to lower and to compile one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

TRACED = "/jax/core/compile/jaxpr_trace_duration"
LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"
_MAKES = frozenset({TRACED, LOWERED, COMPILED})
# Time from which tracing or lowering counts (s): that of one op takes some thousandths, that of a step may take longer
# than its compile.
COUNTS_FROM_SECONDS = 0.1
# Names of functions kept (functions): those of a program are some hundreds.
MAX_NAMES = 10_000


class UnderWay:
    """What threads trace, lower and compile, as JAX tells when each begins and ends.

    A function that was traced before does not count while it is traced again: some programs trace in each step, to ask
    about their own program, and a step is no time of preparation.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Whether JAX tells what begins: older versions tell what has ended only.
        self.heard = False
        # By thread what it has begun and not ended, outermost first: (event, function, time).
        self._open: dict[int, list[tuple[str, str, float]]] = {}
        self._made: set[tuple[str, str]] = set()

    def begun(self, event: str, function: str) -> None:
        """The calling thread begins to trace, lower or compile a function. Other events are left alone."""
        if event in _MAKES:
            self.heard = True
            self._open.setdefault(threading.get_ident(), []).append((event, function, self._clock()))

    def ended(self, event: str) -> None:
        """The calling thread has ended what it began last of this kind."""
        stack = self._open.get(threading.get_ident())
        while stack:
            kind, function, _ = stack.pop()
            if not stack and len(self._made) < MAX_NAMES:
                self._made.add((kind, function))
            if kind == event:
                return

    def now(self) -> bool:
        """Whether a compile is under way, or something that was never traced before is traced for a while."""
        return any(self._counts(stack) for stack in tuple(self._open.values()))

    def _counts(self, stack: list[tuple[str, str, float]]) -> bool:
        opened = tuple(stack)
        if any(event == COMPILED for event, _, _ in opened):
            return True
        if not opened or opened[0][:2] in self._made:
            return False
        return self._clock() - opened[0][2] >= COUNTS_FROM_SECONDS
