"""`tpuprof.annotate`: names a piece of training code, on the host timeline and in the ops it traces."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from tpuprof.instrument.spans import Span, close_span, open_span
from tpuprof.instrument.state import STATE

Params = ParamSpec("Params")
Result = TypeVar("Result")


class annotate:  # noqa: N801  # used like a function, as contextlib's context managers are
    """Name what happens inside, as a context manager or a decorator.

    While nothing captures, it does nothing but look at a flag. It forces no sync, may span
    `torch_xla.sync()`, and raises nothing of its own. Not for generators and coroutines: as a decorator it
    names the call that makes them, not their running.
    """

    __slots__ = ("_outer", "_span", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._span: Span | None = None
        self._outer: list[Span | None] | None = None

    def __enter__(self) -> annotate:
        if STATE.armed:
            if self._span is not None:  # the same object entered again, inside itself
                self._outer = [*(self._outer or ()), self._span]
            name = str(self.name)
            self._span = open_span(name, "annotation", scope=name, count_ops=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._span is not None:
            close_span(self._span)
            self._span = self._outer.pop() if self._outer else None

    def __call__(self, function: Callable[Params, Result]) -> Callable[Params, Result]:
        """Decorate a function: each call is one span."""
        name = self.name

        @functools.wraps(function)
        def named(*args: Params.args, **kwargs: Params.kwargs) -> Result:
            if not STATE.armed:
                return function(*args, **kwargs)
            with annotate(name):
                return function(*args, **kwargs)

        return named
