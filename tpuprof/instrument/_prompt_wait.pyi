"""Waits that end with Python's lock, as `_prompt_wait.pyx` compiles them."""

from collections.abc import Callable, Mapping
from types import CodeType

def put_back() -> None: ...
def wake_at_once() -> None: ...
def location(code: CodeType, at: int) -> tuple[int, int, int, int]: ...

class Wait:
    """The waits of a thread that looks at others."""

    works: bool
    def wait(self, seconds: float, prompt: bool = True, stat: int = -1) -> bool: ...
    def halt(self) -> None: ...
    def look(
        self,
        thread: int,
        frames: int,
        schedstat: int,
        ops: Callable[[], int | None] | None,
        known: Mapping[int, CodeType],
    ) -> tuple[int, int, int, int, int, list[tuple[CodeType, int]], str] | None: ...
