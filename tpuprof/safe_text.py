"""Characters that the profiler's text format gives a meaning of its own, and what stands for them in a stat.

A TraceMe's name carries its stats as `name#key=value,key=value#`. A stack or an expression as a value needs other
characters in their place: those of Unicode's private use area.
"""

from __future__ import annotations

import re

_MEANT = ",#=\"'{}[]()\n\r"
_FIRST = 0xE000
TO_SAFE = {ord(char): _FIRST + number for number, char in enumerate(_MEANT)}
FROM_SAFE = {_FIRST + number: char for number, char in enumerate(_MEANT)}
_SAFE = re.compile(f"[{chr(_FIRST)}-{chr(_FIRST + len(_MEANT) - 1)}]")


def holds_safe(text: str) -> bool:
    """Whether a text has characters that stand for others."""
    return not text.isascii() and _SAFE.search(text) is not None
