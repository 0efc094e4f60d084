"""Calls of JAX's profiler without what XLA prints where tensorflow is not installed.

When a session begins or ends, XLA imports a module of tensorflow's from the frame that calls it, to switch that
module's annotations. Where there is no tensorflow, each try is an error on the program's stderr. So the call comes from
a frame whose own import answers to that one name with an empty module, which is gone after the call.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from tpuprof.instrument.state import pass_on

NAME = "tensorflow.python.profiler.trace"


def called(function: Callable[..., Any], *values: object, **named: object) -> Any:
    """What the function returns. Where tensorflow is installed, and for all other imports, nothing is different."""
    empty = ModuleType(NAME)

    def answer(name: str, *rest: Any, **more: Any) -> Any:
        if name == NAME and _is_missing():
            # XLA takes from here what it imported.
            return sys.modules.setdefault(name, empty)
        return __import__(name, *rest, **more)

    own = {"__builtins__": {**vars(builtins), "__import__": answer}}
    try:
        # A function in Python has frames of its own: they are given the same import.
        if isinstance(function, FunctionType):
            return _with(function, {**function.__globals__, **own})(*values, **named)
        return _with(_call, own)(function, *values, **named)
    finally:
        if sys.modules.get(NAME) is empty:
            del sys.modules[NAME]


def _call(function: Callable[..., Any], *values: object, **named: object) -> Any:
    return function(*values, **named)


def _with(function: Any, names: dict[str, Any]) -> FunctionType:
    """The function with other globals."""
    same = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    same.__kwdefaults__ = function.__kwdefaults__
    return same


def _is_missing() -> bool:
    try:
        return "tensorflow" not in sys.modules and importlib.util.find_spec("tensorflow") is None
    except (ImportError, ValueError) as error:  # a finder of the program's own may raise either
        pass_on(error)
        return False
