"""Changes bytes of a file, or values inside its own structure, so that it still reads and what it says is absurd."""

from __future__ import annotations

import copy
import gzip
import json
import random
import struct
import zipfile
import zlib
from io import BytesIO
from pathlib import PurePath
from typing import Any

from google.protobuf.message import DecodeError

# Places of one input that are changed at most.
CHANGES = 8
_NUMBERS = (
    0,
    1,
    -1,
    2,
    127,
    128,
    255,
    2**31 - 1,
    -(2**31),
    2**31,
    2**62,
    -(2**62),
    2**63 - 1,
    -(2**63),
    10**15,
)
_REALS = (0.0, -0.0, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"))
_TEXTS = (
    "",
    "\0",
    "é" * 9,
    "{",
    "%while.1 = (",
    "f32[",
    "s64[99999999999]{0}",
    "/device:TPU:0",
    "Stream #1",
    "_r",
    "(1)",
)
_VALUES = (
    *(None, True, -1, 1.5, 1e300, 10**30, float("inf"), float("nan")),
    *("", "x" * 300, "Infinity", "\ud800", "[/bold]", "\x1b[31m<b>", "../../x"),
    *([], {}, [[]], {"a": {}}, [1, 2]),
)
# A document that is nested deeper than a reader may follow (levels).
_DEEP = 200_000


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """A file with some of its bytes changed, moved, lost or doubled."""
    out = bytearray(data)
    for _ in range(rng.randint(1, CHANGES)):
        at = rng.randrange(len(out) + 1)
        size = min(rng.choice((1, 2, 4, 16, 200, 5000)), len(out) - at)
        match rng.randrange(7):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(out):
                out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del out[at : at + size]
            case 3:
                out[at:at] = out[at : at + size]
            case 4:
                out[at:at] = rng.randbytes(min(size, 16))
            case 5:
                to = rng.randrange(len(out) + 1)
                out[to : to + size] = out[at : at + size]
            case 6 if rng.random() < 0.3:
                del out[at:]
            case _:
                pass
    return bytes(out)


def changed_message(message: Any, rng: random.Random) -> None:
    """Change some fields of a protobuf message, at any depth."""
    for _ in range(rng.randint(1, CHANGES)):
        _change_field(_any_message(message, rng), rng)


def _any_message(message: Any, rng: random.Random) -> Any:
    """A message somewhere below: deeper ones are likelier, since there are more of them."""
    while True:
        below = []
        for field, value in message.ListFields():
            if field.type != field.TYPE_MESSAGE:
                continue
            if field.message_type.GetOptions().map_entry:
                below += [value[key] for key in value if hasattr(value[key], "ListFields")]
            else:
                below += list(value) if _repeated(field) else [value]
        if not below or rng.random() < 0.15:
            return message
        message = rng.choice(below)


def _change_field(message: Any, rng: random.Random) -> None:
    fields = [field for field in message.DESCRIPTOR.fields if field.type != field.TYPE_MESSAGE]
    groups = [field for field, _ in message.ListFields() if field.type == field.TYPE_MESSAGE]
    if groups and (not fields or rng.random() < 0.3):
        _change_group(message, rng.choice(groups), rng)
        return
    if not fields:
        return
    field = rng.choice(fields)
    if rng.random() < 0.15:
        message.ClearField(field.name)
        return
    try:
        value = _value(field, rng)
        if _repeated(field):
            held = getattr(message, field.name)
            if held and rng.random() < 0.7:
                held[rng.randrange(len(held))] = value
            else:
                held.append(value)
        else:
            setattr(message, field.name, value)
    except (ValueError, TypeError):
        message.ClearField(field.name)


def _change_group(message: Any, field: Any, rng: random.Random) -> None:
    """Drop or double one of several messages, or the only one."""
    held = getattr(message, field.name)
    if field.message_type.GetOptions().map_entry or not _repeated(field):
        message.ClearField(field.name)
    elif rng.random() < 0.5:
        del held[rng.randrange(len(held))]
    else:
        held.append(held[rng.randrange(len(held))])


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _value(field: Any, rng: random.Random) -> Any:
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return rng.choice(_REALS)
    if field.cpp_type == field.CPPTYPE_STRING:
        text = rng.choice(_TEXTS)
        return text.encode() if field.type == field.TYPE_BYTES else text
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    return rng.choice(_NUMBERS)


def changed_json(value: Any, rng: random.Random) -> Any:
    """Change some values of a JSON document, at any depth."""
    for _ in range(rng.randint(1, CHANGES)):
        at = value
        while isinstance(at, (dict, list)) and at:
            key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
            if not isinstance(at[key], (dict, list)) or not at[key] or rng.random() < 0.05:
                if rng.random() < 0.15:
                    del at[key]
                else:
                    at[key] = copy.deepcopy(rng.choice((*_VALUES, *_NUMBERS, *_TEXTS)))
                break
            at = at[key]
    return value


def changed_file(name: str, data: bytes, rng: random.Random) -> bytes:
    """The content of a file of that name, changed: its bytes, or what its format says."""
    if rng.random() < 0.4:
        return changed_bytes(data, rng)
    suffix = PurePath(name).suffix
    try:
        match suffix:
            case ".gz":
                inner = changed_file(name.removesuffix(".gz"), gzip.decompress(data), rng)
                return gzip.compress(inner, 1, mtime=0)
            case ".pb":
                return _changed_protobuf(name, data, rng)
            case _ if suffix in _CHANGERS:
                return _CHANGERS[suffix](data, rng)
    except (ValueError, KeyError, EOFError, OSError, zlib.error, zipfile.BadZipFile, DecodeError):
        pass  # a seed of another format than its name says
    return changed_bytes(data, rng)


def changed_json_lines(data: bytes, rng: random.Random) -> bytes:
    """JSON lines of which one is another, or says something else."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = changed_bytes(lines[at], rng) if rng.random() < 0.3 else _changed_document(lines[at], rng)
    return b"\n".join(lines)


def changed_ledger(data: bytes, rng: random.Random) -> bytes:
    """A ledger with one block that says something else, under a checksum that is right."""
    from tpuprof.ledger import blocks
    from tpuprof.ledger.blocks import Kind

    whole, _ = blocks.decode(data)
    if not whole:
        return changed_bytes(data, rng)
    at = rng.randrange(len(whole))
    kind, payload = whole[at]
    if kind in (Kind.META, Kind.EVENTS):
        payload = _changed_document(payload, rng)
    elif kind == Kind.STEPS and rng.random() < 0.7:
        payload = _changed_rows(payload, rng)
    elif kind == Kind.LIFE and rng.random() < 0.7:
        payload = struct.pack("<qq", *(rng.choice(_NUMBERS) for _ in range(2)))
    else:
        payload = changed_bytes(payload, rng)
    parts = [blocks.encode(Kind(each), held) for each, held in whole]
    parts[at] = blocks.encode(Kind(kind), payload)
    if rng.random() < 0.2:
        parts.insert(rng.randrange(len(parts)), rng.choice(parts))
    return b"".join(parts)


def _changed_rows(payload: bytes, rng: random.Random) -> bytes:
    """Rows of a ledger, some values of them changed."""
    from tpuprof.ledger import rows

    first, columns = rows.decode(payload)
    table = [columns[name].tolist() for name in rows.COLUMNS]
    if not table[0]:
        return payload
    for _ in range(rng.randint(1, CHANGES)):
        column = rng.choice(table)
        column[rng.randrange(len(column))] = rng.choice(_NUMBERS)
    first = rng.choice((0, 1, 2**40, 2**63)) if rng.random() < 0.1 else first
    return rows.encode(first, [rows.Row(*each) for each in zip(*table, strict=True)])


def changed_zip(data: bytes, rng: random.Random) -> bytes:
    """A zip with one member that is changed or gone."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        members = {each.filename: archive.read(each) for each in archive.infolist()}
    name = rng.choice(list(members))
    members[name] = changed_file(name, members[name], rng)
    if rng.random() < 0.1:
        del members[name]
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    return out.getvalue()


def _changed_protobuf(name: str, data: bytes, rng: random.Random) -> bytes:
    from tpuprof.decode import xplane_pb2
    from tpuprof.decode.hlo_proto import parse_module_proto

    if ".xplane" in name:
        message: Any = xplane_pb2.XSpace.FromString(data)
    elif ".hlo" in name:
        message = parse_module_proto(data)
    else:
        return changed_bytes(data, rng)
    changed_message(message, rng)
    return bytes(message.SerializeToString())


def _changed_document(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.02:
        return b"[" * _DEEP
    changed = changed_json(json.loads(data), rng)
    return json.dumps(changed).encode("utf-8", "surrogatepass")


_CHANGERS = {
    ".ledger": changed_ledger,
    ".tail": changed_ledger,
    ".zip": changed_zip,
    ".json": _changed_document,
    ".jsonl": changed_json_lines,
}
