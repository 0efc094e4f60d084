"""Waits where the native module `_prompt_wait` is missing: Python's lock comes when the thread that has it lets go."""

from __future__ import annotations

import threading


def put_back() -> None:
    """Nothing was changed."""


def wake_at_once() -> None:
    """Nothing is changed: samples are late in any case."""


class Wait:
    """The waits of one thread that looks at others, as `_prompt_wait` has them, without promptness."""

    works = False

    def __init__(self) -> None:
        self._halt = threading.Lock()
        self._halt.acquire()

    def wait(self, seconds: float, _prompt: bool = True) -> bool:
        """Wait so long; True as soon as `halt` was called."""
        return self._halt.acquire(timeout=seconds)

    def halt(self) -> None:
        """End the wait."""
        self._halt.release()
