"""Reads the small files that runs leave beside profiles: JSON whose text and numbers anybody can hold and show.

Whoever wrote them may have been killed, or may mean harm. A pipe is not waited for, and depth is bounded.
"""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any

# Longest file that is read (bytes): telemetry of a million steps has some 200 MB.
MAX_BYTES = 1 << 30
# Largest integer that is one (absolute): columns hold 64 bits.
LARGEST = 2**63 - 1


def parse_json(data: str | bytes) -> Any:
    """The value of a JSON text. A number that is not finite, or has more than 64 bits, is None: it is unknown.

    Raises `ValueError` where it is not JSON, or nested too deeply.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value = json.loads(text, parse_constant=_unknown, parse_float=_real, parse_int=_whole)
        # Half of a surrogate pair cannot be written to a file or a terminal.
        if "\\ud" in text or "\\uD" in text:
            whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
            value = json.loads(whole)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


def read_json(path: Path) -> Any:
    """The value of a JSON file, as `parse_json`. Raises `OSError` as `read_bytes` does, and `ValueError`."""
    return parse_json(read_bytes(path))


def read_text(path: Path) -> str:
    """The text of a file; what is no UTF-8 is replaced. Raises `OSError` as `read_bytes` does."""
    return read_bytes(path).decode("utf-8", "replace")


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file. Raises `OSError`, also for a pipe, a device, and what is longer than `MAX_BYTES`."""
    # Without O_NONBLOCK, opening a pipe waits for its writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError("not a regular file")
        if found.st_size > MAX_BYTES:
            raise OSError(f"larger than {MAX_BYTES:,} bytes")
        return file.read()


def _unknown(_name: str) -> None:
    return None


def _real(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _whole(text: str) -> int | None:
    value = int(text)
    return value if -LARGEST <= value <= LARGEST else None
