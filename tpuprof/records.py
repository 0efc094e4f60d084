"""`record`: a dataclass that is made quickly, for the modules that an analysis imports.

The standard decorator compiles up to six methods per class. An analysis imports more than a hundred such classes, and
those methods took more than half of the time that all its modules take (55 of 97 ms). This one compiles `__init__` when
the first object of a class is made, and shares the others. At run time a record is never frozen. Type checkers see the
standard decorator, and they report who writes to a record marked `frozen`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
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
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    if "__init__" not in cls.__dict__:
        made.__init__ = _made_when_called(cls)
    return cls


def _made_when_called(cls: type) -> Callable[..., None]:
    """An `__init__` that puts the class's own in its place when it is first called."""

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:  # noqa: N807
        own = _init_of(cls)
        cls.__init__ = own  # type: ignore[misc]
        own(self, *arguments, **named)

    return __init__


def _init_of(cls: type) -> Callable[..., None]:
    """The `__init__` of a dataclass: one argument per field, in order; what makes a default is called each time."""
    known: dict[str, Any] = {"_missing": dataclasses.MISSING}
    arguments, lines = ["self"], []
    for each in dataclasses.fields(cls):
        name, default = each.name, f"_default_{each.name}"
        value = name
        if each.default_factory is not dataclasses.MISSING:
            known[default] = each.default_factory
            arguments.append(f"{name}=_missing")
            value = f"{default}() if {name} is _missing else {name}"
        elif each.default is not dataclasses.MISSING:
            known[default] = each.default
            arguments.append(f"{name}={default}")
        else:
            arguments.append(name)
        lines.append(f" self.{name} = {value}")
    exec(f"def __init__({', '.join(arguments)}):\n" + ("\n".join(lines) or " pass"), known)
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _text(self: Any) -> str:
    values = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _equal(self: object, other: object) -> bool:
    return type(self) is type(other) and _compared(self) == _compared(other)


def _hash(self: object) -> int:
    return hash(_compared(self))


def _compared(self: Any) -> Any:
    cls = type(self)
    if cls not in _GETTERS:
        names = [each.name for each in dataclasses.fields(cls) if each.compare]
        _GETTERS[cls] = attrgetter(*names) if names else lambda _: ()
    return _GETTERS[cls](self)


# Gives the values of the fields of a class that are compared: one alone as it is, several in a tuple.
_GETTERS: dict[type, Callable[[Any], Any]] = {}
