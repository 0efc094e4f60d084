"""Which thread trains, where no step tells: a recording by the clock begins in a thread of our own."""

from __future__ import annotations

import threading
import time
from collections import Counter

from tpuprof.instrument.stack_text import is_framework, places_of_thread
from tpuprof.instrument.state import STATE
from tpuprof.instrument.thread_clocks import cpu_of_threads, joins

# Looks at the other threads, and the time between two (looks, s): one that trains is inside of the framework in some
# of them. All of them together take less than a tenth of what is recorded. Only a program whose thread waits for
# others is looked at so.
LOOKS, BETWEEN_SECONDS = 20, 0.005


def training_thread() -> int:
    """The thread that compiled last if it still runs, else the main one; where that one waits for threads, another.

    A program that compiles in its main thread, and then starts threads and joins them, trains in one of those.
    """
    found: int | None = STATE.framework.compiled_in if STATE.framework is not None else None
    if found is None or places_of_thread(found) is None:
        found = threading.main_thread().ident or 0
    if found == threading.get_ident() or not joins(places_of_thread(found)):
        return found
    return _busiest_but(found) or found


def _busiest_but(waiting: int) -> int | None:
    """The thread of the program that is most often inside of the framework, then the one that ran longest."""
    inside: Counter[int] = Counter()
    apart = {waiting, threading.get_ident()}
    ran: dict[int, int] = {}
    for _ in range(LOOKS):
        ran = cpu_of_threads()
        for thread in ran.keys() - apart:
            places = places_of_thread(thread)
            # Other threads of our own have no frames but ours.
            if not places or joins(places):
                apart.add(thread)
            else:
                inside[thread] += any(is_framework(code.co_filename) for code, _ in places)
        time.sleep(BETWEEN_SECONDS)
    return max(ran.keys() - apart, key=lambda each: (inside[each], ran[each]), default=None)
