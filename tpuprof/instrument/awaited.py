"""The coroutine that the thread of an event loop waits for.

It is suspended, so the thread's own stack ends in the loop: `asyncio.run(main())`, whatever `main` awaits.
"""

from __future__ import annotations

import gc
import os
import sys
import weakref
from itertools import dropwhile
from operator import attrgetter
from types import AsyncGeneratorType
from typing import Any

from tpuprof.instrument.stack_text import MAX_FRAMES
from tpuprof.instrument.state import pass_on
from tpuprof.instrument.thread_frames import Place

_STDLIB = os.path.dirname(os.__file__) + os.sep
_LOOP = f"{_STDLIB}asyncio{os.sep}"
_SELECT = f"{_STDLIB}selectors.py"
# Code and instruction of a suspended coroutine, read in one call of C code: nothing holds its frame.
_PLACE = attrgetter("cr_code", "cr_frame.f_lasti")
_PLACE_IN_GENERATOR = attrgetter("ag_code", "ag_frame.f_lasti")


# What `async for` awaits, `anext` with a default around it left out, and what ends or throws into a generator.
_OF_GENERATORS = ("async_generator_asend", "async_generator_athrow")


class Awaited:
    """The task that the calling thread runs now, followed while its loop waits. It may end at any time."""

    def __init__(self) -> None:
        self._task = _current_task()

    def added_to(self, places: list[Place]) -> list[Place]:
        """A stack of the thread, innermost first; with the awaited coroutines on top where it waits in the loop."""
        task = self._task() if self._task is not None else None
        if task is None or not places or not _waits(places[0]):
            return places
        coroutine = task.get_coro()
        running = getattr(coroutine, "cr_code", None)
        if any(code is running for code, _ in places):
            return places
        awaited = _suspended(coroutine)
        return [*awaited, *dropwhile(_selects, places)] if awaited else places


def _current_task() -> weakref.ref[Any] | None:
    """A program that has not imported asyncio runs no loop of it: it is not imported for this."""
    try:
        task = sys.modules["asyncio"].current_task()
        return weakref.ref(task) if task is not None else None
    except (KeyError, RuntimeError, TypeError, AttributeError) as error:
        pass_on(error)
        return None  # no loop runs here, or its tasks cannot be watched


def _suspended(coroutine: Any) -> list[Place]:
    """The places of a suspended coroutine and of those it awaits, innermost first, without asyncio's own."""
    places: list[Place] = []
    while coroutine is not None and len(places) < MAX_FRAMES:
        try:
            generator = _generator(coroutine)
            if generator is not None:
                places.append(_PLACE_IN_GENERATOR(generator))
                coroutine = generator.ag_await
            else:
                places.append(_PLACE(coroutine))
                coroutine = coroutine.cr_await
        except AttributeError:  # a future, or a coroutine that has ended
            break
    return list(dropwhile(_of_loop, reversed(places)))


def _generator(awaited: Any) -> AsyncGeneratorType[Any, Any] | None:
    """The asynchronous generator whose next value is awaited (`async for`), which Python gives no attribute for."""
    if type(awaited).__name__ not in _OF_GENERATORS:
        return None
    return next((each for each in gc.get_referents(awaited) if isinstance(each, AsyncGeneratorType)), None)


def _waits(place: Place) -> bool:
    return _selects(place) or _of_loop(place)


def _of_loop(place: Place) -> bool:
    return place[0].co_filename.startswith(_LOOP)


def _selects(place: Place) -> bool:
    return place[0].co_filename == _SELECT
