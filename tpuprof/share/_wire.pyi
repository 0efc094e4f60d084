from collections.abc import Callable
from typing import Any

TEXT: int
NESTED: int
NUMBERS: int

class Redaction:
    def __init__(
        self,
        text: Callable[[bytes], bytes | None],
        mask: Callable[[bytes], bytes],
        is_program: Callable[[bytes], bool],
        program: dict[int, Any],
    ) -> None: ...
    def message(self, data: bytes, known: dict[int, Any]) -> bytes: ...
