"""What autograd's thread runs in Python while `backward()` waits: a custom function, a hook, a checkpointed layer.

The training thread's own stack ends in that wait.
"""

from __future__ import annotations

from collections.abc import Iterable

from tpuprof.instrument.hidden_thread import is_ours
from tpuprof.instrument.stack_text import MAX_FRAMES, places_of_thread
from tpuprof.instrument.thread_frames import Place

_WAITS, _FILE = "_engine_run_backward", "graph.py"
# How the outermost frame of a thread is called that Python itself began; autograd's threads are C++'s.
_BEGUN_BY_PYTHON = ("_bootstrap", "<module>", "_run_module_as_main")


def autograd_thread(places: list[Place], others: Iterable[int]) -> tuple[int, list[Place]]:
    """The thread that runs Python for a `backward()` that waits, and its stack, innermost first; 0 and none else.

    `places` is the stack of the thread that may wait, `others` are the other threads that run Python.
    """
    if not places or not _waits(places[0]):
        return 0, []
    for ident in others:
        if is_ours(ident):
            continue  # it waits for what the capture does next
        found = places_of_thread(ident)
        # Where a stack is cut off, how its thread began is unknown.
        if found and len(found) < MAX_FRAMES and found[-1][0].co_name not in _BEGUN_BY_PYTHON:
            return ident, found
    return 0, []


def _waits(place: Place) -> bool:
    return place[0].co_name == _WAITS and place[0].co_filename.endswith(_FILE)
