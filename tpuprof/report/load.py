"""Reads a Report back from the JSON that `tpuprof analyze --json` or `tpuprof report` wrote."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.report.schema import SCHEMA, Report

REPORT_IN_BUNDLE = "report.json"
# A report of a long run has some tens of MB; more than this is not a report (bytes).
MAX_REPORT_BYTES = 1 << 30
# What is unpacked at a time (bytes).
_CHUNK = 1 << 20
# How tpuprof packs a bundle. Python unpacks other methods without a bound.
_PACKED_AS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What a damaged bundle raises, and one that is no bundle of ours.
UNREADABLE_BUNDLE = (OSError, ValueError, KeyError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error)
_AS_THEY_ARE = (Any, str, int, float, bool)


def read_report(path: Path) -> Report:
    """The Report in a JSON file or in a ticket bundle.

    Raises `TpuprofError`: `input-not-found`, `input-corrupt` for no report, `input-schema-too-new`.
    """
    try:
        plain = json.loads(_bytes(path))
    except FileNotFoundError as error:
        raise TpuprofError(Code.NOT_FOUND, f"{path}: no such file.", "Check the path.") from error
    except UNREADABLE_BUNDLE as error:
        raise TpuprofError(
            Code.CORRUPT,
            f"{path}: holds no readable report ({error}).",
            "Write it again with `tpuprof report`.",
        ) from error
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if schema != SCHEMA:
        raise TpuprofError(
            Code.TOO_NEW,
            f"{path}: its schema is {schema!r}, and this tpuprof reads {SCHEMA!r}.",
            "Upgrade tpuprof, or write the report again.",
        )
    try:
        return report_from(plain)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise TpuprofError(
            Code.CORRUPT,
            f"{path}: a field of the report is not as it should be ({error}).",
            "Write it again.",
        ) from error


def report_from(plain: dict[str, Any]) -> Report:
    """A Report from the dictionaries of `Report.to_dict`; unknown fields (of a newer tpuprof) are left out."""
    # Of an offload copy the JSON calls the kind its direction.
    offload = [{**row, "kind": row["direction"], "direction": ""} for row in plain["offload"]]
    return typing.cast(Report, _build(Report, {**plain, "offload": offload}))


def _bytes(path: Path) -> bytes:
    if path.suffix != ".zip":
        return path.read_bytes()
    parts, size = [], 0
    for part in parts_of_bundled_report(path):
        size += len(part)
        if size > MAX_REPORT_BYTES:
            raise ValueError("it is too large")
        parts.append(part)
    return b"".join(parts)


def parts_of_bundled_report(path: Path) -> Iterator[bytes]:
    """The report in a bundle, a piece at a time: the sizes that a bundle states need not be true.

    Raises what `zipfile` does: `UNREADABLE_BUNDLE` lists it.
    """
    with zipfile.ZipFile(path) as bundle:
        info = bundle.getinfo(REPORT_IN_BUNDLE)
        if info.compress_type not in _PACKED_AS:
            raise ValueError("it is packed in another way than tpuprof packs")
        with bundle.open(info) as member:
            while part := member.read(_CHUNK):
                yield part


@functools.cache
def _field_types(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind)}


def _build(kind: Any, value: Any) -> Any:
    """A value of a type from plain JSON: dataclasses, lists and dictionaries of them, optional ones."""
    if value is None or kind in _AS_THEY_ARE:
        return value
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        types_of = _field_types(kind)
        return kind(
            **{name: _build(types_of[name], each) for name, each in value.items() if name in types_of}
        )
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _build(next(each for each in arguments if each is not type(None)), value)
    if origin is list:
        return [_build(arguments[0], each) for each in value]
    if origin is dict:
        return {key: _build(arguments[1], each) for key, each in value.items()}
    return value
