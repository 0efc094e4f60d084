"""Where other threads are, read in one call of C code: Python may switch threads after any instruction of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, chain, islice, repeat, takewhile
from operator import attrgetter, itemgetter, truth
from types import CodeType

from tpuprof.instrument.no_collections import without_collections

# (code object, instruction) of a frame; the instruction is an offset in bytes.
Place = tuple[CodeType, int]

_PLACE = attrgetter("f_code", "f_lasti")


def frames_of_thread(ident: int, most: int) -> list[Place] | None:
    """(code, instruction) of a running thread's `most` innermost frames, innermost first; None where it has ended.

    Whoever holds a frame while the thread goes on holds its variables: a tensor that lives on into the graph cut
    changes the graph. So frames are made, read and dropped inside one call.
    """
    frames = map(itemgetter(ident), iter(sys._current_frames, None))
    chain_of_frames = accumulate(chain(islice(frames, 1), repeat("f_back")), getattr)
    places = map(_PLACE, islice(takewhile(truth, chain_of_frames), most))
    try:
        return without_collections(partial(list, places))
    except KeyError:
        return None


def numbers_of_threads() -> Iterator[int]:
    """Numbers (`threading.get_ident`) of the threads that run Python, also of those that Python did not start.

    Nothing is read before the first number is asked for: that belongs into one call without collections.
    """
    return chain.from_iterable(map(tuple, islice(iter(sys._current_frames, None), 1)))


def threads_with_frames() -> list[int]:
    """The numbers of these threads, as a list."""
    return without_collections(partial(list, numbers_of_threads()))
