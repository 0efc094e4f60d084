"""Reads the command after `--`: whether it is a Python that ignores the environment, and how to reach it then.

`python -I` and `python -E` do not look at PYTHONPATH, and `-S` leaves sitecustomize out. Where the command
itself is such a call, a small program of ours is put between: it installs the hook and runs the script.
"""

from __future__ import annotations

import re
from pathlib import Path

_PYTHON = re.compile(r"^python(\d+(\.\d+)*)?t?$")
_START = Path(__file__).resolve().parent / "hook" / "start.py"
# Options of Python that take the next word as their value.
_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
_ISOLATING = frozenset("IES")
_VALUE_FOLLOWS = re.compile("[XW]")


def with_bootstrap(command: list[str]) -> list[str]:
    """The command as it reaches the hook: unchanged, unless it is a Python that would not look for it."""
    words = isolating_python(command)
    return [*command[:words], str(_START), *command[words:]] if words else command


def isolating_python(command: list[str]) -> int:
    """How many words of a command are a Python and its options, if one of them hides the hook; else 0."""
    if not _PYTHON.match(Path(command[0]).name):
        return 0
    isolating = False
    index = 1
    while index < len(command) and command[index].startswith("-"):
        word = command[index]
        if word in ("-c", "-m"):
            return index if isolating else 0
        letters = frozenset("" if word.startswith("--") else _VALUE_FOLLOWS.split(word[1:])[0])
        if word == "-" or letters & frozenset("cm"):
            return 0  # a script on stdin, or letters joined as in -Im: rare, and not ours to take apart
        isolating |= bool(letters & _ISOLATING)
        index += 2 if word in _WITH_VALUE else 1
    return index if isolating and index < len(command) else 0
