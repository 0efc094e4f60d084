"""Does long work of ours where no profiler of Python's looks: a program's own would record each of our calls.

torch.profiler with `with_stack=True` records every call of Python in the threads that it found, as cProfile does in
one. What it has to write then takes longer than our work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tpuprof.instrument.hidden_thread import HiddenThread
from tpuprof.instrument.state import pass_on

_FOREVER = -1.0


def untraced(action: Callable[[], None]) -> None:
    """Do it here, or in a thread of our own while this one waits, where this one is profiled or traced.

    What it raises is raised here.
    """
    if sys.getprofile() is None and sys.gettrace() is None:
        action()
        return
    raised: list[Exception] = []

    def do() -> None:
        try:
            action()
        except Exception as error:
            pass_on(error)
            raised.append(error)

    thread = HiddenThread(do)
    try:
        thread.start()
    except RuntimeError as error:  # Python ends
        pass_on(error)
        action()
        return
    thread.join(_FOREVER)
    if raised:
        raise raised[0]
