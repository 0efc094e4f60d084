from collections.abc import Callable
from typing import Any

TEXT: int
NESTED: int
NUMBERS: int

class Redaction:
    def __init__(
        self,
        texts: Callable[[list[bytes]], list[bytes | None]],
        is_program: Callable[[bytes], bool],
        program: dict[int, Any],
    ) -> None: ...
    def message(self, data: bytes, known: dict[int, Any]) -> bytes: ...
    def met_again(self) -> dict[bytes, int]: ...
