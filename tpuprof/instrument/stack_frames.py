"""The Python frames that led to a moment, the user's own before those of installed packages."""

from __future__ import annotations

import functools
import sys
from types import FrameType

from tpuprof.instrument.stack_text import is_framework, is_own, is_package, is_users
from tpuprof.read_places import ANY_OP

MAX_FRAMES = 8
_USERS, _PACKAGE, _FRAMEWORKS, _OTHER = range(4)


def user_frames(innermost: FrameType | None = None) -> list[str]:
    """The Python frames that led here, `function (file:line)`: the user's, other packages', frameworks'.

    Within each of these kinds the innermost comes first. Python's own frames come last.
    """
    frame: FrameType | None = innermost or sys._getframe(1)
    frames: list[tuple[int, str]] = []
    while frame is not None:
        path = frame.f_code.co_filename
        if not is_own(path):
            frames.append((_kind(path), f"{frame.f_code.co_name} ({path}:{frame.f_lineno})"))
        frame = frame.f_back
    frames.sort(key=lambda each: each[0])
    return [text for _, text in frames[:MAX_FRAMES]]


def user_line(innermost: FrameType | None = None) -> str:
    """`file:line` of the innermost frame of the user's own code, from a frame on or from here.

    Where the whole program is an installed package, that of the innermost frame outside of frameworks; empty where
    there is none.
    """
    users, package = _innermost_lines(innermost or sys._getframe(1))
    return users or package


def user_and_package_line() -> tuple[str, str]:
    """As `user_line`, and where the innermost frame of a package is, frameworks apart, that this line calls.

    That one is empty where the user's own code comes first, and where the program is an installed package.
    """
    users, package = _innermost_lines(sys._getframe(1))
    return (users, package) if users else (package, "")


def _innermost_lines(frame: FrameType | None) -> tuple[str, str]:
    """The innermost line of the user's own code, and that of a package within; each is empty where there is none."""
    package = ""
    while frame is not None:
        path = frame.f_code.co_filename
        kind = _kind(path)
        if kind == _USERS:
            return f"{path}:{frame.f_lineno}", package
        if kind == _PACKAGE and not package:
            package = f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return "", package


def library_line(innermost: FrameType | None = None) -> str:
    """`file:line` of the innermost frame of a library that the user's code calls, from a frame on or from here.

    Frames that any op of a framework goes through are none. Empty where the user's own code comes first.
    """
    frame: FrameType | None = innermost or sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if _kind(path) == _USERS:
            return ""
        if _asks(path):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@functools.lru_cache(maxsize=4096)
def _asks(path: str) -> bool:
    """Whether code in this file may ask for a value: that of a library, and not what each op goes through."""
    return is_package(path) and not is_own(path) and ANY_OP.search(path) is None


@functools.lru_cache(maxsize=4096)
def _kind(path: str) -> int:
    if is_users(path):
        return _USERS
    if not is_package(path) or is_own(path):
        return _OTHER
    return _FRAMEWORKS if is_framework(path) else _PACKAGE
