"""A Report as JSON text."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from tpuprof.report.schema import Report

# Down to this depth every key of an object has a line of its own; what is deeper stays on its owner's line.
_LINES_TO_DEPTH = 2


def to_json(report: Report) -> str:
    """The report as JSON, a line a key or table row; numbers that are not finite do not occur."""
    return _text(report.sections(), 0) + "\n"


def _text(value: Any, depth: int) -> str:
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict) and value and depth < _LINES_TO_DEPTH:
        lines = [f"{_dumps(key)}: {_text(each, depth + 1)}" for key, each in value.items()]
        return _bracketed("{", lines, "}", depth)
    if isinstance(value, list) and value and (isinstance(value[0], dict) or is_dataclass(value[0])):
        return _bracketed("[", [_dumps(each) for each in value], "]", depth)
    return _dumps(value)


def _bracketed(opening: str, lines: list[str], closing: str, depth: int) -> str:
    inner = "\n" + " " * (depth + 1)
    return opening + inner + ("," + inner).join(lines) + "\n" + " " * depth + closing


# For what orjson does not do: integers beyond 64 bits, and escapes of all that is not ASCII. A name may hold what a
# terminal takes for a command.
_SLOWLY = json.JSONEncoder(allow_nan=False, default=vars, check_circular=False)


def _dumps(value: Any) -> str:
    """A value on one line, in ASCII; rows go in whole, since that is where the time goes."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        return _SLOWLY.encode(value)
    return text if text.isascii() else _SLOWLY.encode(value)
