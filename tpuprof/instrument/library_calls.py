"""Which line of the program's own calls each function of a library, noted call by call during one step.

TorchTPU's log of programs (TORCH_TRACE) names the innermost Python line of an op, mostly one of torch's own; a sample
seldom falls into a call of some microseconds. So where the user asked for that log, Python tells us of each call in one
step before the captured ones. That step takes longer; values and programs stay the same.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import Any

from tpuprof.instrument.stack_frames import user_line
from tpuprof.instrument.stack_text import is_own, is_package
from tpuprof.instrument.state import pass_on

# The user asks for source lines by setting this.
VARIABLE = "TORCH_TRACE"
# Calls of library functions looked at, and functions noted: a step that compiles makes millions of calls.
MOST_CALLS, MOST_ROWS = 200_000, 500


class LibraryCalls:
    """Notes calls of this thread from `start` to `stop`; `rows` are the functions that one line alone calls."""

    def __init__(self) -> None:
        self._callers: dict[CodeType, set[str] | None] = {}
        self._left = MOST_CALLS
        # The bound method, made once: it is compared by identity.
        self._hook = self._called
        self.asked = bool(os.environ.get(VARIABLE))
        self._ended = False

    def start(self) -> None:
        """Begin, once, unless the program watches its calls itself."""
        if self.asked and sys.getprofile() is None:
            self.asked = self._ended = False
            sys.setprofile(self._hook)

    def stop(self) -> None:
        """End; harmless where it did not begin.

        Each thread has a hook of its own: where another one calls, as recording by the clock does, the next call ends.
        """
        self._ended = True
        if sys.getprofile() is self._hook:
            sys.setprofile(None)

    def rows(self) -> list[dict[str, Any]]:
        """File, first and last line of each such function, and the line that calls it (`source`)."""
        found = [
            {
                "file": code.co_filename,
                "first": code.co_firstlineno,
                "last": _last(code),
                "source": next(iter(lines)),
            }
            for code, lines in self._callers.items()
            if lines is not None and len(lines) == 1
        ]
        return found[:MOST_ROWS]

    def _called(self, frame: FrameType, event: str, _what: object) -> None:
        if self._ended and sys.getprofile() is self._hook:
            sys.setprofile(None)
        if event != "call" or self._ended:
            return
        try:
            self._note(frame)
        except Exception as error:  # it would reach the program
            sys.setprofile(None)
            pass_on(error)

    def _note(self, frame: FrameType) -> None:
        code = frame.f_code
        if code not in self._callers:
            path = code.co_filename
            self._callers[code] = set() if is_package(path) and not is_own(path) else None
        lines = self._callers[code]
        if lines is None or len(lines) > 1:
            return
        self._left -= 1
        if self._left < 0:
            sys.setprofile(None)
            return
        line = user_line(frame.f_back)
        if line:
            lines.add(line)


def _last(code: CodeType) -> int:
    return max((line for _, _, line in code.co_lines() if line is not None), default=code.co_firstlineno)
