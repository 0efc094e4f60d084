"""Redacts text inside serialized protobuf messages, known fields and unknown ones.

Works on the wire format, guided by the message's descriptor where there is one: our descriptors declare only the
fields tpuprof reads, and what XProf or a maintainer reads must survive, redacted as well. In a field nobody
declares, a private text is replaced where its bytes are a text or a message without doubt; else it is blotted out
with as many `x`, which no parser minds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# Field numbers beyond this do not occur in the formats we see; text read as a message gives such at once.
_MAX_FIELD = 4096
# Messages inside each other beyond this are opaque bytes, as for protobuf's own parsers.
_MAX_DEPTH = 100
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")

Text = Callable[[str], str]


class Replacing(Protocol):
    """What replaces private values in texts, and counts them: `tpuprof.share.redact.Redactor`."""

    def text(self, text: str) -> str:
        """The text with every private value replaced."""

    def texts(self, texts: Sequence[str]) -> list[str]:
        """The same of many."""

    def again(self, text: str, times: int) -> None:
        """Count what was replaced in a text that was met so many times more."""


class MessageRedaction:
    """One redaction of any number of messages: a text that several of them hold is replaced once.

    The native walk is used where it is built: a profile has millions of messages.
    """

    def __init__(self, replacing: Replacing) -> None:
        self._replacing = replacing
        self._tables: dict[str, dict[int, Any]] = {}
        self._walk = self._native()

    def xspace(self, data: bytes) -> bytes:
        """A serialized XSpace, its embedded HLO programs included, with every text replaced."""
        from tpuprof.decode import xplane_pb2

        return self._redacted(data, xplane_pb2.XSpace.DESCRIPTOR)

    def hlo(self, data: bytes) -> bytes:
        """A serialized HloProto with every text replaced."""
        from tpuprof.decode import hlo_pb2

        return self._redacted(data, hlo_pb2.HloProto.DESCRIPTOR)

    def _redacted(self, data: bytes, descriptor: Any) -> bytes:
        if self._walk is None:
            return _message(data, descriptor, self._replacing.text)
        found: bytes = self._walk.message(data, _table(descriptor, self._tables))
        for value, times in self._walk.met_again().items():
            self._replacing.again(_decoded(value), times)
        return found

    def _native(self) -> Any:
        try:
            from tpuprof.share import _wire
        except ImportError:  # not built, or for another Python or machine
            return None
        from tpuprof.decode import hlo_pb2

        return _wire.Redaction(self._texts, _is_program, _table(hlo_pb2.HloProto.DESCRIPTOR, self._tables))

    def _texts(self, values: list[bytes]) -> list[bytes | None]:
        """What replaces each text, None where it stays."""
        texts = [_decoded(each) for each in values]
        replaced = self._replacing.texts(texts)
        return [None if new == old else _encoded(new) for old, new in zip(texts, replaced, strict=True)]


def _table(descriptor: Any, tables: dict[str, dict[int, Any]]) -> dict[int, Any]:
    """What the native walk knows of a message: the kind of each field, or that field's own table."""
    from tpuprof.share import _wire

    if descriptor.full_name in tables:
        return tables[descriptor.full_name]
    # Known before its fields are: a message may hold its own kind.
    table = tables[descriptor.full_name] = {}
    for known in descriptor.fields:
        if known.message_type is not None:
            table[known.number] = _table(known.message_type, tables)
        elif known.full_name in _NESTED:
            table[known.number] = _wire.NESTED
        else:
            texts = (known.TYPE_BYTES, known.TYPE_STRING)
            table[known.number] = _wire.TEXT if known.type in texts else _wire.NUMBERS
    return table


def blot(data: bytes, literals: Iterable[str]) -> tuple[bytes, int]:
    """Bytes in which each literal that is still there is overwritten by `x`, and how many there were."""
    count = 0
    for literal in literals:
        raw = literal.encode("utf-8", "surrogateescape")
        found = data.count(raw)
        if found:
            count += found
            data = data.replace(raw, b"x" * len(raw))
    return data, count


def _message(data: bytes, descriptor: Any, text: Text, depth: int = 0) -> bytes:
    fields = fields_of(data) if depth <= _MAX_DEPTH else None
    if fields is None:
        return mask_opaque(data, text)
    out = bytearray()
    for number, wire, start, value_start, end in fields:
        known = descriptor.fields_by_number.get(number) if descriptor is not None else None
        if wire != _BYTES:
            out += data[start:end]
            continue
        value = data[value_start:end]
        changed = _value(value, known, text, depth + 1)
        if changed == value:
            out += data[start:end]
        else:
            out += field(number, changed)
    return bytes(out)


def _value(value: bytes, known: FieldDescriptor | None, text: Text, depth: int) -> bytes:
    if known is None:
        return _unknown(value, text, depth)
    if known.message_type is not None:
        return _message(value, known.message_type, text, depth)
    if known.full_name in _NESTED:
        return _nested(value, text, depth)
    if known.type in (known.TYPE_BYTES, known.TYPE_STRING):
        return _as_text(value, text)
    return value  # packed numbers


# Declared as bytes, and hold a serialized message, mostly a program.
_NESTED = frozenset({"tpuprof.decode.XStat.bytes_value", "tpuprof.decode.XEventMetadata.metadata"})


def _nested(value: bytes, text: Text, depth: int) -> bytes:
    from tpuprof.decode import hlo_pb2

    if _is_program(value):
        return _message(value, hlo_pb2.HloProto.DESCRIPTOR, text, depth)
    return _unknown(value, text, depth)


def _is_program(value: bytes) -> bool:
    from google.protobuf.message import DecodeError

    from tpuprof.decode import hlo_pb2

    try:
        return bool(hlo_pb2.HloProto.FromString(value).hlo_module.computations)
    except DecodeError:
        return False


def _unknown(value: bytes, text: Text, depth: int) -> bytes:
    """A field of unknown type: a text if nothing in it is a control character, else a message if it reads as one."""
    if not value:
        return value
    printable = not _CONTROL.search(value)
    fields = fields_of(value)
    if printable and fields is None:
        return _as_text(value, text)
    if printable:
        return mask_opaque(value, text)  # may be either, so its length must stay
    if fields is not None:
        return _message(value, None, text, depth)
    return mask_opaque(value, text)


def _as_text(value: bytes, text: Text) -> bytes:
    if len(value) < 2:
        return value
    decoded = _decoded(value)
    changed = text(decoded)
    return value if changed == decoded else _encoded(changed)


def _decoded(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# Runs of bytes that could be a text within an opaque value.
_RUN = re.compile(rb"[\t\n\r\x20-\x7e\x80-\xff]{4,}")


def mask_opaque(value: bytes, text: Text) -> bytes:
    """Bytes of no known structure: a run of text that holds something private is overwritten, length kept."""

    def run(match: re.Match[bytes]) -> bytes:
        raw = match.group()
        decoded = _decoded(raw)
        return raw if text(decoded) == decoded else b"x" * len(raw)

    return _RUN.sub(run, value)


def fields_of(data: bytes | memoryview) -> list[tuple[int, int, int, int, int]] | None:
    """(number, wire type, start, value's start, end) of each field, None where the bytes are no message."""
    found = []
    position, size = 0, len(data)
    while position < size:
        start = position
        key, position = _read(data, position)
        number, wire = key >> 3, key & 7
        if position < 0 or not 0 < number <= _MAX_FIELD:
            return None
        value_start = position
        if wire == _VARINT:
            _, position = _read(data, position)
        elif wire == _BYTES:
            length, value_start = _read(data, position)
            position = value_start + length if value_start >= 0 else -1
        elif wire in (_FIXED64, _FIXED32):
            position += 8 if wire == _FIXED64 else 4
        else:
            return None
        if position < 0 or position > size:
            return None
        found.append((number, wire, start, value_start, position))
    return found


def _read(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """(value, position after it) of a varint, position -1 where it does not end."""
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return 0, -1


def field(number: int, value: bytes | bytearray | memoryview) -> bytes:
    """A field that holds bytes, serialized."""
    return varint(number << 3 | _BYTES) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """A whole number, serialized; a negative one as its 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
