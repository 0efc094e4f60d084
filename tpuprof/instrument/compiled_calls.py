"""Tells when a function of `torch.compile(backend="openxla")` runs a graph: a step may be nothing but such calls.

torch_xla's bridge looks the function up by name at each call, so one replacement covers all; it is put back afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpuprof.instrument.state import note_failure, xlac
from tpuprof.instrument.wrapped_calls import Function, Replaced

_RUN = "_run_cached_graph"
_WHAT = "following calls of torch.compile"
# Called with the hash of the graph that ran, in the thread that ran it.
Observer = Callable[[bytes], None]


class CompiledCalls:
    """Has `observer` called after each such run between `install` and `remove`. Nothing of it raises."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._replaced = Replaced()

    def install(self) -> None:
        """Begin to follow; nothing happens where torch_xla is not loaded or has no such function."""
        extension = xlac()
        if extension is None or self._replaced or not hasattr(extension, _RUN):
            return
        try:
            self._replaced.replace(extension, _RUN, self._followed)
        except Exception as error:
            note_failure(_WHAT, error)

    def remove(self) -> None:
        """Follow no more."""
        self._replaced.put_back()

    def _followed(self, original: Function) -> Function:
        def run(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self._replaced:
                self._tell(args[0] if args else kwargs.get("hash"))
            return result

        return run

    def _tell(self, graph: object) -> None:
        try:
            self._observer(graph if isinstance(graph, bytes) else str(graph).encode())
        except Exception as error:
            note_failure(_WHAT, error)
