"""What run.json says, as far as it is of the kinds that its writer writes: whoever reads it need not check again."""

from __future__ import annotations

from typing import Any

TEXTS, TEXT_LIST, TABLE, LIST, WHOLE, NUMBER, TEXT = (
    "texts by name",
    "list of texts",
    "table",
    "list",
    "whole number",
    "number",
    "text",
)
# What fields are, where anything is made of them; others are shown as they are.
FIELDS = {
    "versions": TEXTS,
    "environment": TEXTS,
    "graphs": TEXTS,
    "command_line": TEXT_LIST,
    "features_loaded": TEXT_LIST,
    "warnings": TEXT_LIST,
    "capture": TABLE,
    "device": TABLE,
    "spmd": TABLE,
    "preflight": TABLE,
    "compilation_cache": TABLE,
    "dynamo": TABLE,
    "library_calls": LIST,
    "graph_count": WHOLE,
    "process_count": WHOLE,
    "rank": WHOLE,
    "framework": TEXT,
    "host": TEXT,
    "python": TEXT,
    "platform": TEXT,
}
CAPTURE_FIELDS = {
    "name": TEXT,
    "backend": TEXT,
    "steps_captured": WHOLE,
    "steps_before": WHOLE,
    "steps_wanted": WHOLE,
    "ir_debug_off_in_steps": LIST,
    "cpu_wait_share": NUMBER,
    "native_seconds": NUMBER,
    "cpus_used": NUMBER,
    "cpus": NUMBER,
    "python_tools": TEXT_LIST,
    "unused_gradients": TABLE,
    "launched": TEXT_LIST,
    "overhead_seconds": TABLE,
}
_KINDS: dict[str, type | tuple[type, ...]] = {
    TEXTS: dict,
    TABLE: dict,
    TEXT_LIST: list,
    LIST: list,
    WHOLE: int,
    NUMBER: (int, float),
    TEXT: str,
}


def checked(info: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields that are what they should be, and the names of those left out. A null says nothing, and is kept."""
    if info.get("predicted") and isinstance(info.get("graphs"), int):
        # A count: predicted runs had it under this name before.
        info = {("graph_count" if name == "graphs" else name): value for name, value in info.items()}
    found, left_out = _of_kinds(info, FIELDS)
    if isinstance(found.get("capture"), dict):
        found["capture"], inner = _of_kinds(found["capture"], CAPTURE_FIELDS)
        left_out += [f"capture.{name}" for name in inner]
    return found, left_out


def _of_kinds(info: dict[str, Any], fields: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    found, left_out = {}, []
    for name, value in info.items():
        kind = fields.get(name)
        if kind is not None and value is not None and not isinstance(value, _KINDS[kind]):
            left_out.append(name)
            continue
        found[name] = _plain_within(kind, value) if value else value
    return found, left_out


def _plain_within(kind: str | None, value: Any) -> Any:
    """The value with plain ones alone in it, where texts are wanted."""
    if kind == TEXTS:
        return {name: text for name, text in value.items() if text is None or _is_plain(text)}
    return [str(each) for each in value if _is_plain(each)] if kind == TEXT_LIST else value


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float))
