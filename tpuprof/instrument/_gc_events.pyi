"""The garbage collections of the host timeline, as `_gc_events.pyx` compiles them."""

from collections.abc import Callable
from typing import Any

class GcEvents:
    """A callback for `gc.callbacks`; `error` is the first thing that failed, None if nothing did."""

    error: BaseException | None
    def __init__(self, make: Callable[[str], Any]) -> None: ...
    def __call__(self, phase: str, info: dict[str, int]) -> None: ...
