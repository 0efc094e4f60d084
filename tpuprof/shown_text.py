"""Text from outside (names in traces, paths, notes) as it may be shown: without characters that a terminal acts on."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text without control characters: each is shown as a replacement character."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay apart."""
    return "\n".join(printable(line) for line in text.split("\n"))
