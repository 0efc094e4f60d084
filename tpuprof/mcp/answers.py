"""Answers as short JSON: a reader with little room gets whole rows, and how many were left out."""

from __future__ import annotations

import json
from typing import Any

from tpuprof.tables.values import plain

# An answer, so that three of them are below 4,000 tokens (characters; three to a token is on the safe side).
MAX_CHARACTERS = 3_900
# One text in it: a Python frame or an HLO line can take thousands (characters).
MAX_TEXT = 240
# Significant digits of times and shares: what a person would quote (digits).
DIGITS = 6


def answer(rows_at: str = "", **fields: Any) -> str:
    """Fields as JSON, without those that are empty; of the list `rows_at` as many rows as there is room for."""
    told = {name: short(value) for name, value in fields.items() if value not in (None, "", [], {})}
    rows = told.get(rows_at, [])
    text = _json(told)
    while len(text) > MAX_CHARACTERS and rows:
        left = int(told.get("rows_left_out", 0))
        # Drop about as many as are too much, at least one.
        drop = max(1, int(len(rows) * (1 - MAX_CHARACTERS / len(text))))
        rows = told[rows_at] = rows[:-drop]
        told["rows_left_out"] = left + drop
        text = _json(told)
    return text


def exact(value: Any) -> Any:
    """A value with all its digits, texts cut."""
    return _cut(plain(value))


def short(value: Any) -> Any:
    """A value with numbers rounded and texts cut."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: short(each) for key, each in value.items() if each not in (None, "", [])}
    if isinstance(value, (list, tuple)):
        return [short(each) for each in value]
    return _cut(value)


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return value[: MAX_TEXT - 1] + "…"
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
