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
# Share of the time between the looks for which a thread that is never inside of the framework must run to be the one
# that trains (share). A main thread may join the threads of a save for 0.3 s, as Orbax's does, and then goes on: all
# others wait meanwhile. A judgement.
WORKS_FROM_SHARE = 0.2


def training_thread() -> int:
    """The thread that compiled last if it still runs, else the main one; where that one waits for threads, another.

    A program that compiles in its main thread, and then starts threads and joins them, trains in one of those. One that
    waits for threads which do not train, as those of a save, goes on afterwards.
    """
    found: int | None = STATE.framework.compiled_in if STATE.framework is not None else None
    if found is None or places_of_thread(found) is None:
        found = threading.main_thread().ident or 0
    if found == threading.get_ident() or not joins(places_of_thread(found)):
        return found
    return _busiest_but(found) or found


def _busiest_but(waiting: int) -> int | None:
    """The thread of the program that is most often inside of the framework, then the one that ran longest.

    None where none is inside of it or works, or where the one that waits went on.
    """
    inside: Counter[int] = Counter()
    apart = {waiting, threading.get_ident()}
    before, began = cpu_of_threads(), time.perf_counter_ns()
    ran = before
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
    if not joins(places_of_thread(waiting)):
        return None
    enough = WORKS_FROM_SHARE * (time.perf_counter_ns() - began)
    works = [each for each in ran.keys() - apart if inside[each] or ran[each] - before.get(each, 0) >= enough]
    return max(works, key=lambda each: (inside[each], ran[each]), default=None)
