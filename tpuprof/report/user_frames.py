"""Frames of sampled stacks: which are the user's, a library's, or a framework's."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tpuprof.own_events import CALLED_BY_ANYONE, CELL, NAMELESS

# A function: its name, its file, and of code without a name what tells it from other such code of that file.
Function = tuple[str, str, str]
_FRAME = re.compile(r"^(.*) \((.*):(\d+)\)$")
# Code without a file, but for the cells of a notebook.
_GENERATED = f"^(?!{CELL})<"
_NOT_USERS = re.compile(rf"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3\.\d+[/\\]|{_GENERATED}")
_PACKAGES = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_NOT_LIBRARIES = re.compile(
    r"[/\\](?:torch|torch_xla|functorch|torchax|jax|jaxlib|tpuprof)[/\\]"
    rf"|[/\\]lib[/\\]python3\.\d+[/\\](?!(?:site|dist)-packages)|{_GENERATED}"
)


def user_functions(
    frames: Iterable[str], left_out: re.Pattern[str] = _NOT_USERS
) -> dict[Function, tuple[int, str]]:
    """The user's functions of a stack, each with how deep it is among them and its innermost line.

    A comprehension is part of the function that it stands in, as is a lambda or a generator at the line that function
    is at. Other ones are functions of their own: who calls them may be anyone. A function that is entered again is as
    deep as its last entry: what a decorator wraps is inside it there, too.
    """
    found: dict[Function, tuple[int, str]] = {}
    inside: Function | None = None
    entered = 0
    for name, path, line in _frames(frames, left_out):
        within = _stands_in(name, path, line, inside, found)
        if within is None or within != inside:
            entered += 1
        inside = within or (name, path, line if name in NAMELESS else "")
        found[inside] = (entered - 1, line)
    return found


def _stands_in(
    name: str, path: str, line: str, inside: Function | None, found: dict[Function, tuple[int, str]]
) -> Function | None:
    """The function of a stack that code without a name stands in, as far as its lines tell; None where unknown."""
    if name not in NAMELESS or inside is None:
        return None
    if name not in CALLED_BY_ANYONE:
        return inside if path == inside[1] else None
    return next(
        (each for each, (_, at) in reversed(found.items()) if each[1] == path and at == line),
        None,
    )


def _frames(frames: Iterable[str], left_out: re.Pattern[str]) -> list[tuple[str, str, str]]:
    """Name, file and line of a stack's frames but for those that are left out."""
    found = (_FRAME.match(frame) for frame in frames)
    return [
        (match.group(1), match.group(2), match.group(3))
        for match in found
        if match and not left_out.search(match.group(2))
    ]


def frames_of_users(frames: Iterable[str]) -> list[str]:
    """The frames of a stack that are the user's, in their order."""
    return [f"{name} ({path}:{line})" for name, path, line in _frames(frames, _NOT_USERS)]


def is_users_line(source: str) -> bool:
    """Whether a line (`file:line`) is known, and in a file of the user's own."""
    return bool(source) and not _NOT_USERS.search(source)


def last_users_line(frames: Iterable[str]) -> str:
    """The user's innermost line (`file:line`) of a stack, outermost frame first; empty without any."""
    own = _frames(frames, _NOT_USERS)
    return f"{own[-1][1]}:{own[-1][2]}" if own else ""


def library_functions(frames: Iterable[str]) -> dict[Function, tuple[int, str]]:
    """Functions of a stack that are neither Python's own nor of a framework that traces: libraries' and the user's."""
    return user_functions(frames, _NOT_LIBRARIES)


def places_of_users(frames: Iterable[str]) -> dict[str, int]:
    """The lines (`file:line`) of the user's frames of a stack, with how deep each is among them."""
    return {f"{path}:{line}": depth for depth, (_, path, line) in enumerate(_frames(frames, _NOT_USERS))}


def in_package(source: str) -> str:
    """A line of an installed package by its path in there: `transformers/models/gpt2/modeling_gpt2.py:420`."""
    return _PACKAGES.split(source)[-1]


def others_names(frames: list[str]) -> set[str]:
    """The functions of a stack that are not the user's."""
    found = (_FRAME.match(frame) for frame in frames)
    return {match.group(1) for match in found if match and _NOT_USERS.search(match.group(2))}
