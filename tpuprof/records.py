"""`dataclass` made quickly: stands in for the standard one in the modules that an analysis imports.

The standard decorator compiles up to six methods a class. An analysis imports a hundred such classes, and those
methods took more than half of the time that all its modules take (55 of 97 ms). This one has `__init__` compiled and
shares the others. Type checkers see the standard decorator: that nobody writes to a frozen class is theirs to say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False) -> type | Callable[[type], type]:
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
