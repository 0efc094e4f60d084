"""`record`: a dataclass that is made quickly, for the modules that an analysis imports.

The standard decorator compiles up to six methods per class. An analysis imports a hundred such classes, and those
methods took more than half of the time that all its modules take (55 of 97 ms). This one compiles `__init__` and
shares the others. At run time a record is never frozen. Type checkers see the standard decorator, and they report
who writes to a record marked `frozen`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(cls: type | None = None, /, *, frozen: bool = False) -> type | Callable[[type], type]:
        """Make a dataclass; two of a class are equal where all fields are, and hashed by them where `frozen`."""
        if cls is None:
            return lambda cls: _made(cls, frozen)
        return _made(cls, frozen)


def _made(cls: type, frozen: bool) -> type:
    methods: dict[str, Any] = {"__repr__": _text, "__eq__": _equal, "__hash__": _hash if frozen else None}
    for name, method in methods.items():
        # As with the standard decorator, what a class defines itself stays; defining `__eq__` alone sets `__hash__`.
        if cls.__dict__.get(name) is None:
            setattr(cls, name, method)
    return dataclasses.dataclass(repr=False, eq=False)(cls)


def _text(self: Any) -> str:
    values = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _equal(self: object, other: object) -> bool:
    return type(self) is type(other) and _compared(self) == _compared(other)


def _hash(self: object) -> int:
    return hash(_compared(self))


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, each.name) for each in dataclasses.fields(self) if each.compare)
