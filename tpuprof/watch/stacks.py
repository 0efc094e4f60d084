"""Python stacks of all threads, for a program that hangs. Another thread takes them: that one need not run."""

from __future__ import annotations

import threading
import traceback

from tpuprof.instrument.source_lines import line_of
from tpuprof.instrument.thread_frames import Place, frames_of_thread, threads_with_frames

# Frames of a stack at most, the innermost (frames): Python's own limit of recursion.
MOST_FRAMES = 1000


def all_stacks() -> str:
    """The stacks of all threads but this one, the main thread first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main, own = threading.main_thread().ident, threading.get_ident()
    parts = []
    for ident in sorted(threads_with_frames(), key=lambda each: each != main):
        places = frames_of_thread(ident, MOST_FRAMES) if ident != own else None
        if places is not None:
            parts.append(f"Thread {names.get(ident, ident)}:\n" + _text(places))
    return "\n".join(parts)


def innermost(thread: int | None) -> str:
    """`file:line (function)` of where a thread is, empty where it is unknown."""
    places = frames_of_thread(thread or threading.main_thread().ident or 0, 1)
    if not places:
        return ""
    code, at = places[0]
    return f"{code.co_filename}:{line_of(code, at)} ({code.co_name})"


def _text(places: list[Place]) -> str:
    """A stack as Python writes it, outermost frame first."""
    frames = [(code.co_filename, line_of(code, at), code.co_name) for code, at in reversed(places)]
    return "".join(traceback.format_list([traceback.FrameSummary(*each) for each in frames]))
