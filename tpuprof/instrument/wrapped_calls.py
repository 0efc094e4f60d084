"""Replaces functions by ones that put an event around each call, and puts them back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.optimizer_steps import gradients_on
from tpuprof.instrument.skipped_by_dynamo import skip
from tpuprof.instrument.spans import Span, close_span, open_span
from tpuprof.instrument.stack_frames import user_line
from tpuprof.instrument.state import STATE, note_failure
from tpuprof.own_events import HOST_READ

Function = Callable[..., Any]


class Replaced:
    """Attributes of modules and classes that were replaced, until `put_back`."""

    def __init__(self) -> None:
        # Empty once all is put back.
        self.undo: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self.undo)

    def replace(
        self, owner: Any, name: str, make: Callable[[Function], Function], *, calls_program: bool = False
    ) -> None:
        """Put `make(original)` in the place of an attribute, which may be inherited.

        `calls_program` says that the original calls functions of the program, which torch.compile may compile.
        Raises `AttributeError` or `TypeError` where there is none or it cannot be replaced.
        """
        own = vars(owner).get(name)
        ours = make(getattr(owner, name))
        skip(ours, calls_program=calls_program)
        setattr(owner, name, ours)

        def undo() -> None:
            if vars(owner).get(name) is not ours:
                return  # the program has put one of its own in its place since
            if own is not None:
                setattr(owner, name, own)
            else:
                delattr(owner, name)

        self.undo.append(undo)

    def at_end(self, undo: Callable[[], None]) -> None:
        """Have this called as well when all is put back. It raises nothing."""
        self.undo.append(undo)

    def put_back(self) -> None:
        """Put everything back, last first."""
        while self.undo:
            self.undo.pop()()


def call_span(event: str, call: str, **more: int | str) -> Span | None:
    """Open an event for a call that the user's line makes, None where that fails. Raises nothing."""
    try:
        facts: dict[str, Any] = {"grad": int(gradients_on())} if event == HOST_READ else dict(more)
        return open_span(event, event.partition(".")[2], call=call, source=user_line(), **facts)
    except Exception as error:
        note_failure(f"noting {call}", error)
        return None


def with_event(event: str, call: str, original: Function) -> Function:
    """A function that does what `original` does, inside an event while something is recorded."""
    # Methods of compiled classes may have no name that Python accepts.
    named = [each for each in functools.WRAPPER_ASSIGNMENTS if isinstance(getattr(original, each, None), str)]

    @functools.wraps(original, assigned=named)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not STATE.armed:
            return original(*args, **kwargs)
        span = call_span(event, call)
        try:
            return original(*args, **kwargs)
        finally:
            close_span(span)

    return wrapped
