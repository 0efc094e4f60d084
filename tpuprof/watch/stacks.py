"""Python stacks of all threads, for a program that hangs. Another thread takes them: that one need not run."""

from __future__ import annotations

import sys
import threading
import traceback


def all_stacks() -> str:
    """The stacks of all threads but this one, the main thread first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    own = threading.get_ident()
    frames = sorted(sys._current_frames().items(), key=lambda each: each[0] != main)
    parts = []
    for ident, frame in frames:
        if ident != own:
            parts.append(f"Thread {names.get(ident, ident)}:\n" + "".join(traceback.format_stack(frame)))
    return "\n".join(parts)


def innermost(thread: int | None) -> str:
    """`file:line (function)` of where a thread is, empty where it is unknown."""
    frame = sys._current_frames().get(thread or threading.main_thread().ident or 0)
    return (
        f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})" if frame is not None else ""
    )
