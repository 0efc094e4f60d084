"""Code objects that are alive, by their addresses: a stack that is read without Python's lock has addresses alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tpuprof.instrument.stack_text import is_users


class KnownCodes(dict[int, CodeType]):
    """Keeps code objects alive, and knows what else of the user's is likely to run: a short function is never seen
    with the lock, because it has ended by then.
    """

    def __init__(self) -> None:
        super().__init__()
        self._files: set[str] = set()

    def learn(self, code: CodeType) -> None:
        """Know this one; of the user's own also what is defined in it, and in the module that it is in."""
        if id(code) in self:
            return
        self[id(code)] = code
        file = code.co_filename
        if not is_users(file):
            return
        found = [code]
        if file not in self._files:
            self._files.add(file)
            found += _codes_of_file(file)
        self._learn_all(found)

    def learn_module(self, module: ModuleType) -> None:
        """Know what a module defines."""
        self._learn_all(_codes_in([vars(module)]))

    def _learn_all(self, found: list[CodeType]) -> None:
        while found:
            code = found.pop()
            self[id(code)] = code
            found += [each for each in code.co_consts if type(each) is CodeType and id(each) not in self]


def _codes_of_file(file: str) -> list[CodeType]:
    """Of the functions of each module of that file. No object is asked itself: it may answer with an import."""
    modules = [vars(each) for each in list(sys.modules.values()) if type(each) is type(sys)]
    return _codes_in([names for names in modules if names.get("__file__") == file])


def _codes_in(modules: list[dict[str, Any]]) -> list[CodeType]:
    """Of the functions of modules, given by their names."""
    values = [value for names in modules for value in list(names.values())]
    classes = [value for value in values if issubclass(type(value), type)]
    members = [value for each in classes for value in list(type.__dict__["__dict__"].__get__(each).values())]
    return [function.__code__ for value in values + members for function in _functions(value)]


def _functions(value: Any) -> Iterator[FunctionType]:
    """A function, what it wraps, and that of a method."""
    if type(value) in (staticmethod, classmethod):
        value = value.__func__
    elif type(value) is property:
        value = value.fget
    while type(value) is FunctionType:
        yield value
        value = vars(value).get("__wrapped__")
