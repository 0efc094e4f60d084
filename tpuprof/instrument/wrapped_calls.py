"""Replaces functions by ones that put an event around each call, and puts them back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.optimizer_steps import gradients_on
from tpuprof.instrument.skipped_by_dynamo import skip
from tpuprof.instrument.spans import Span, close_span, open_span
from tpuprof.instrument.stack_frames import library_line, user_line
from tpuprof.instrument.state import STATE, note_failure
from tpuprof.own_events import HOST_READ
from tpuprof.read_places import IN_NONE, INSIDE

Function = Callable[..., Any]
# Opens an event for a call with these arguments; None where it is none that counts.
Before = Callable[[tuple[Any, ...], dict[str, Any]], Span | None]


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
        facts: dict[str, Any] = dict(more)
        if event == HOST_READ:
            facts = {"grad": int(gradients_on()), INSIDE: library_line() or IN_NONE}
        return open_span(event, event.partition(".")[2], call=call, source=user_line(), **facts)
    except Exception as error:
        note_failure(f"noting {call}", error)
        return None


def with_event(event: str, call: str, original: Function) -> Function:
    """A function that does what `original` does, inside an event while something is recorded."""
    return around(original, lambda _args, _kwargs: call_span(event, call) if STATE.armed else None)


def around(original: Function, before: Before) -> Function:
    """A function that does what `original` does, inside the event that `before` opens: of none it gives None.

    Where the native module is built, there is no Python frame of ours around the original: a warning names the line of
    the program. `before` must not raise.
    """
    for each in (before, close_span):
        skip(each)
    made = frameless(original, before, close_span)
    # Methods of compiled classes may have no name that Python accepts.
    named = [each for each in functools.WRAPPER_ASSIGNMENTS if isinstance(getattr(original, each, None), str)]
    return functools.update_wrapper(made, original, assigned=named)


def with_frame(
    original: Function,
    before: Callable[[tuple[Any, ...], dict[str, Any]], object],
    after: Callable[[Any], object],
) -> Function:
    """The same as `_frameless.around`, where that is not built."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        kept = before(args, kwargs)
        if kept is None:
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            after(kept)

    return wrapped


try:
    from tpuprof.instrument import _frameless

    frameless = _frameless.around
except ImportError:  # not built, or for another Python or machine
    frameless = with_frame
