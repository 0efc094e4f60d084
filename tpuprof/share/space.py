"""Takes the planes of a serialized XSpace apart and puts them together, each still serialized."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tpuprof.share.redact_proto import field, fields_of

Data = bytes | bytearray | memoryview
_PLANES = 1


class Space(NamedTuple):
    """The planes of a profile in their order, and all other fields of it as they are."""

    planes: list[Data]
    rest: bytes


def split(data: bytes | memoryview) -> Space:
    """The planes of a serialized XSpace. Raises `google.protobuf.message.DecodeError` where it is damaged."""
    from google.protobuf.message import DecodeError

    view = memoryview(data)
    fields = fields_of(view)
    if fields is None:
        raise DecodeError("the space is damaged")
    planes: list[Data] = [view[begin:end] for number, _, _, begin, end in fields if number == _PLANES]
    rest = b"".join(view[start:end] for number, _, start, _, end in fields if number != _PLANES)
    return Space(planes, rest)


def joined(planes: Iterable[Data], rest: bytes = b"") -> bytes:
    """The serialized XSpace of these planes."""
    return b"".join(field(_PLANES, plane) for plane in planes) + rest
