"""Reads a Report back from the JSON that `tpuprof analyze --json` or `tpuprof report` wrote."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.json_notes import parse_json, read_bytes
from tpuprof.report.run_info import checked
from tpuprof.report.schema import DEPRECATED, DEPRECATED_OF_ROWS, SCHEMA, Report
from tpuprof.run_folder import REPORT

# A report of a long run has some tens of MB; more than this is not a report (bytes).
MAX_REPORT_BYTES = 1 << 30
# What is unpacked at a time (bytes).
_CHUNK = 1 << 20
# How tpuprof packs a bundle. Python unpacks other methods without a bound.
_PACKED_AS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What a damaged bundle raises, and one that is no bundle of ours.
UNREADABLE_BUNDLE = (OSError, ValueError, KeyError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error)
_ENVIRONMENT: dict[str, type] = {
    "device_type": str,
    "device_count": int,
    "devices_in_trace": int,
    "host_count": int,
    "machine_count": int,
    "framework": str,
    "unread_hosts": dict,
}
_ALWAYS = ("device_type", "device_count", "host_count", "framework")
# What JSON has for a plain type: a whole number may stand for a real one.
_PLAIN: dict[Any, type | tuple[type, ...]] = {
    **{kind: kind for kind in (str, int, bool, list, dict)},
    float: (int, float),
}


def read_report(path: Path) -> Report:
    """The Report in a JSON file or in a ticket bundle.

    Raises `TpuprofError`: `input-not-found`, `input-corrupt` for no report, `input-schema-too-new`.
    """
    try:
        plain = parse_json(_bytes(path))
    except FileNotFoundError as error:
        raise TpuprofError(Code.NOT_FOUND, f"{path}: no such file.", "Check the path.") from error
    except UNREADABLE_BUNDLE as error:
        raise TpuprofError(
            Code.CORRUPT,
            f"{path}: holds no readable report ({error}).",
            "Write it again with `tpuprof report`.",
        ) from error
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if schema is None:
        raise TpuprofError(
            Code.CORRUPT,
            f"{path}: this is not a report of tpuprof: it names no schema.",
            "Give what `tpuprof report` or `tpuprof analyze --json` wrote.",
        )
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
    known: dict[str, Any] = {
        "source": _source(plain["source"]),
        "environment": _environment(plain["environment"]),
    }
    # A report of an older tpuprof has the deprecated names alone.
    older = {name: plain[old] for old, name in DEPRECATED.items() if old in plain}
    for section, columns in DEPRECATED_OF_ROWS.items():
        if section in plain:
            found = plain[section]
            many = isinstance(found, list)
            known[section] = [_with(each, columns) for each in found] if many else _with(found, columns)
    return typing.cast(Report, _build(Report, {**older, **plain, **known, "offload": offload}))


def _with(row: dict[str, Any] | None, columns: dict[str, str]) -> dict[str, Any] | None:
    """A row with the names of today, where an older report has the deprecated ones alone."""
    return row and {**{name: row[old] for old, name in columns.items() if old in row}, **row}


def _source(stated: dict[str, Any]) -> dict[str, Any]:
    """The files that the report is of. Raises `TypeError` where they are no list of names and sizes."""
    _build(list[str], stated["files"])
    _build(list[int], stated.get("sizes", []))
    return stated


def _environment(stated: dict[str, Any]) -> dict[str, Any]:
    """What the report says of the machine. Raises `TypeError` where a field of it is of another kind."""
    for name, kind in _ENVIRONMENT.items():
        if stated.get(name) is not None and not isinstance(stated[name], kind):
            raise TypeError(f"environment.{name}")
    if isinstance(stated.get("run"), dict):
        stated = {**stated, "run": checked(stated["run"])[0]}
    elif stated.get("run") is not None:
        raise TypeError("environment.run")
    return {**dict.fromkeys(_ALWAYS), **stated}


def _bytes(path: Path) -> bytes:
    if path.suffix != ".zip":
        return read_bytes(path)
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
        info = bundle.getinfo(REPORT)
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
    """A value of a type from plain JSON: dataclasses, lists and dictionaries of them, optional ones.

    Raises `TypeError` where the JSON is of another kind.
    """
    return _builder(kind)(value)


@functools.cache
def _builder(kind: Any) -> Callable[[Any], Any]:
    """What makes values of a type: a report of 12,500 ops has 400,000 values of a few dozen types."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        inner = _builder(next(each for each in arguments if each is not type(None)))
        if type(None) not in arguments:
            return inner
        return lambda value: None if value is None else inner(value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return functools.partial(_build_record, kind)
    wanted = _PLAIN.get(origin or kind)
    if origin in (list, dict):
        return functools.partial(_build_many, kind, wanted, _builder(arguments[-1]))
    return functools.partial(_of_kind, kind, wanted) if wanted is not None else lambda value: value


def _build_record(kind: Any, value: Any) -> Any:
    fields = _field_builders(kind)
    return kind(
        **{name: fields[name](each) for name, each in _of_kind(kind, dict, value).items() if name in fields}
    )


@functools.cache
def _field_builders(kind: Any) -> dict[str, Callable[[Any], Any]]:
    return {name: _builder(type_of) for name, type_of in _field_types(kind).items()}


def _build_many(kind: Any, wanted: Any, build: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(_of_kind(kind, wanted, value), dict):
        return {key: build(each) for key, each in value.items()}
    return [build(each) for each in value]


def _of_kind(kind: Any, wanted: Any, value: Any) -> Any:
    if not isinstance(value, wanted):
        raise TypeError(f"{type(value).__name__} instead of {getattr(kind, '__name__', kind)}")
    return value
