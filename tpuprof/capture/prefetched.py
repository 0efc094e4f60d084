"""Batches that loaders made ahead: while they last, training does not wait for data, and a capture would not show it.

The first steps compile for seconds, and loaders fill their queues meanwhile. A slow loader then looks fast until the
queue is empty. Two kinds of loaders are looked at: torch_xla's `ParallelLoader` (in `MpDeviceLoader`), which its own
threads lead to as long as they make batches, and iterators of a `DataLoader` with workers, which are noted when they
are made.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any

from tpuprof.instrument.spans import close_span, open_span
from tpuprof.instrument.state import STATE, pass_on
from tpuprof.instrument.wrapped_calls import Function, Replaced
from tpuprof.own_events import NEW_WORKERS

# How much lower than at any of the last steps the queues must be to count as shrinking (batches): a loader that keeps
# up is one batch behind at times.
SHRUNK_BY = 2
# Ends of steps looked back at (steps). torch_xla's loader takes as many batches at once as the device's queue holds, 8
# unless changed: what it has in hand is in no queue, so a queue that shrinks shows only after so many steps.
LOOKED_BACK = 20
_LOADERS = "torch.utils.data.dataloader"
_WITH_WORKERS = "_MultiProcessingDataLoaderIter"


@dataclass(frozen=True)
class _Waiting:
    """Batches of one loader: those the next step can take, those queued in all, the most that are in no queue."""

    ready: int
    queued: int
    in_hand: int = 0


class Prefetched:
    """Follows how many batches wait in loaders, from `install` to `remove`. Nothing of it raises."""

    def __init__(self) -> None:
        self._levels: deque[int] = deque(maxlen=LOOKED_BACK + 1)
        self._emptied = False
        self._shows_after = 0
        self._loaders: weakref.WeakSet[Any] = weakref.WeakSet()
        self._iterators: weakref.WeakSet[Any] = weakref.WeakSet()
        self._feed_loaders: weakref.WeakSet[Any] = weakref.WeakSet()
        self._replaced = Replaced()

    def install(self) -> None:
        """Note iterators with workers from now on."""
        owner = getattr(sys.modules.get(_LOADERS), _WITH_WORKERS, None)
        if owner is not None:
            self._replaced.replace(owner, "__init__", self._noted, calls_program=True)

    def remove(self) -> None:
        """Put everything back."""
        self._replaced.put_back()
        self._loaders.clear()
        self._iterators.clear()
        self._feed_loaders.clear()

    def step_ended(self, *, compiling: bool = False) -> None:
        """Look at the queues.

        Loaders fill them while XLA compiles: that one was empty at the end of a step that compiles says nothing later.
        Workers that a loader of torch_xla takes from have no batch ready while it fills its own queues, and training
        still does not wait.
        """
        loaders = self._parallel_loaders()
        workers = {each: _of_workers(each) for each in tuple(self._iterators)}
        if not loaders and not workers:
            self._levels.clear()
            return
        waiting = [*loaders, *workers.values()]
        self._levels.append(sum(each.queued for each in waiting))
        fed = [state for each, state in workers.items() if not (loaders and each in self._feed_loaders)]
        empty = min(each.ready for each in [*loaders, *fed]) == 0
        self._emptied = not compiling and (self._emptied or empty)
        self._shows_after = max(each.in_hand for each in waiting)

    def _noted(self, original: Function) -> Function:
        @functools.wraps(original)
        def made(iterator: Any, *args: Any, **kwargs: Any) -> None:
            feeds = _in_loaders_thread()
            # Samples of the training thread show what it starts itself.
            span = open_span(NEW_WORKERS, "input") if feeds and STATE.armed else None
            try:
                original(iterator, *args, **kwargs)
            finally:
                close_span(span)
            try:
                self._iterators.add(iterator)
                if feeds:
                    self._feed_loaders.add(iterator)
            except Exception as error:  # a subclass that cannot be hashed or referred to weakly
                pass_on(error)

        return made

    def _parallel_loaders(self) -> list[_Waiting]:
        """Batches that wait in each of torch_xla's loaders.

        The threads of one end when they have made the epoch's last batch: in a short epoch, before the first compile
        ends. What it made is still there to be taken, until it is closed.
        """
        owners = [_owner_of(each) for each in threading.enumerate()]
        works = {id(each) for each in owners if _is_parallel_loader(each)}
        found: list[_Waiting] = []
        try:
            self._loaders.update(each for each in owners if id(each) in works)
            loaders = tuple(self._loaders)
        except (RuntimeError, TypeError) as error:
            # Another class of that name, which cannot be hashed, say.
            pass_on(error)
            return found
        for each in loaders:
            waiting = _of_parallel_loader(each)
            if waiting is not None and (
                id(each) in works or (waiting.ready and not getattr(each, "_done", False))
            ):
                found.append(waiting)
        return found

    @property
    def used_up(self) -> bool:
        """Whether no more is handed out than is made: a queue was empty, or the queues do not shrink."""
        if self._emptied or not self._levels:
            return True
        long_enough = len(self._levels) > min(self._shows_after, LOOKED_BACK // 2)
        return long_enough and self._levels[-1] > max(self._levels) - SHRUNK_BY

    @property
    def burst(self) -> int:
        """Batches that a loader hands over at once where training may wait for them: a queue was empty. 0 elsewhere."""
        return self._shows_after if self._emptied else 0


def _of_parallel_loader(owner: Any) -> _Waiting | None:
    """Batches that wait in one of torch_xla's loaders; None where it is another version's."""
    try:
        queues = list(owner._queues.values())
        ready = min(len(each.queue._items) for each in queues)
        queued = ready + min(len(each.cpu_loader_queue._items) for each in queues)
        return _Waiting(ready, queued, max(each.queue.max_size() for each in queues))
    except (AttributeError, TypeError, ValueError) as error:
        pass_on(error)
        return None


def _owner_of(thread: threading.Thread) -> Any:
    """The object whose method a thread runs; None where it runs something else."""
    return getattr(getattr(thread, "_target", None), "__self__", None)


def _in_loaders_thread() -> bool:
    """Whether a thread of torch_xla's loader runs this. Raises nothing: the program's own loader is being made."""
    try:
        return _is_parallel_loader(_owner_of(threading.current_thread()))
    except Exception as error:  # an object of the program's own, whose method the thread runs
        pass_on(error)
        return False


def _is_parallel_loader(owner: Any) -> bool:
    return type(owner).__name__ == "ParallelLoader"


def _of_workers(iterator: Any) -> _Waiting:
    """The same of an iterator with workers: what has arrived, of which some came out of turn."""
    try:
        early = sum(len(each) == 2 for each in tuple(iterator._task_info.values()))
        ready = early + iterator._data_queue.qsize()
    except (AttributeError, NotImplementedError, OSError, TypeError) as error:
        pass_on(error)
        return _Waiting(0, 0)
    return _Waiting(ready, ready)
