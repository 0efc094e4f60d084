"""Open spans of each thread: an event on the host timeline and a scope in the ops traced meanwhile.

torch_xla insists that no scope is open when a graph is cut ("Expecting scope to be empty"). So the guard in
`sync_guard.py` closes this thread's scopes before a cut and opens them again after it, in order; the host
events stay open all the while.
"""

from __future__ import annotations

import threading
from typing import Any

from tpuprof.instrument.state import STATE, counter, note_failure, xlac
from tpuprof.own_events import GOES_ON

# Counts one for each tensor an op makes: tells how many ops a span traced.
_OPS_COUNTER = "CreateXlaTensor"
MARK = "tpuprof"


class _Threads(threading.local):
    """The open spans of this thread, outermost first."""

    def __init__(self) -> None:
        self.stack: list[Span] = []


# Of this thread.
OPEN = _Threads()


class Opened:
    """Whether any thread opened a span since this was last made false: one look at it costs less than at `OPEN`."""

    lately = False


OPENED = Opened()


class Span:
    """One open annotation: its host event, its scope while one is pushed, and the op count when it began."""

    __slots__ = ("event", "name", "ops", "scope", "scope_name", "stats")

    def __init__(
        self, name: str, event: Any, scope_name: str, ops: int | None, stats: dict[str, int | str]
    ) -> None:
        self.name = name
        self.stats = stats
        self.event = event
        self.scope_name = scope_name
        self.scope: Any = None
        self.ops = ops


def open_span(
    name: str, kind: str, /, *, scope: str = "", count_ops: bool = False, **stats: int | str
) -> Span | None:
    """Open a span in this thread; None where torch_xla is not loaded or something fails.

    `scope` is the scope that ops traced meanwhile get, none by default. `stats` go onto the host event.
    """
    extension = xlac()
    if extension is None:
        return None
    try:
        facts = {MARK: kind, **stats}
        event = extension.profiler.TraceMe(name, **facts)
        event.__enter__()
        span = Span(name, event, scope, counter(extension, _OPS_COUNTER) if count_ops else None, facts)
        if scope:
            span.scope = extension.profiler.scope_pusher(scope)
        hold(span)
    except Exception as error:
        note_failure(f"opening {name!r}", error)
        return None
    return span


def hold(span: Span) -> None:
    """Note that a span is open in this thread."""
    OPEN.stack.append(span)
    OPENED.lately = True


def close_span(span: Span | None) -> None:
    """Close a span and those left open inside it. One that this thread does not hold is left alone."""
    stack = OPEN.stack
    if span is None or span not in stack:
        return
    try:
        while stack:
            last = stack.pop()
            _finish(last)
            if last is span:
                return
    except Exception as error:
        note_failure(f"closing {span.name!r}", error)


def split_spans(span: Span | None) -> list[Span]:
    """Close a span; those open inside it end with it, and are returned for `resume_spans` to go on with."""
    stack = OPEN.stack
    if span is None or span not in stack:
        return []
    inner = stack[stack.index(span) + 1 :]
    close_span(span)
    return inner


def resume_spans(spans: list[Span]) -> None:
    """Open again, in order and in this thread, spans that `split_spans` ended: whoever holds them can close them."""
    extension = xlac()
    if extension is None or not STATE.armed:
        return
    try:
        for span in spans:
            span.event = extension.profiler.TraceMe(span.name, **span.stats, **{GOES_ON: 1})
            span.event.__enter__()
            span.ops = counter(extension, _OPS_COUNTER) if span.ops is not None else None
            if span.scope_name:
                span.scope = extension.profiler.scope_pusher(span.scope_name)
            hold(span)
    except Exception as error:
        note_failure("going on with spans after a step", error)


def suspend_scopes() -> None:
    """Pop this thread's scopes, innermost first, so that a graph can be cut."""
    for span in reversed(OPEN.stack):
        span.scope = None


def resume_scopes() -> None:
    """Push this thread's scopes again, outermost first."""
    extension = xlac()
    if extension is None or not STATE.armed:
        return
    for span in OPEN.stack:
        if span.scope_name:
            span.scope = extension.profiler.scope_pusher(span.scope_name)


def _finish(span: Span) -> None:
    span.scope = None
    extension = xlac()
    if span.ops is not None and extension is not None:
        span.event.set_metadata(traced_ops=counter(extension, _OPS_COUNTER) - span.ops)
    span.event.__exit__(None, None, None)
