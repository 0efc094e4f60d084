"""Frames of sampled stacks: which are the user's, a library's, or a framework's."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tpuprof.own_events import CELL, NAMELESS

# A function: its name and its file.
Function = tuple[str, str]
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

    A comprehension, a generator or a lambda is part of the function that it stands in. A function that is entered again
    is as deep as its last entry: what a decorator wraps is inside it there, too.
    """
    found: dict[Function, tuple[int, str]] = {}
    inside: Function | None = None
    entered = 0
    for frame in frames:
        match = _FRAME.match(frame)
        if not match or left_out.search(match.group(2)):
            continue
        name, path, line = match.groups()
        if inside is None or not (name in NAMELESS and path == inside[1]):
            inside = (name, path)
            found[inside] = (entered, line)
            entered += 1
        else:
            found[inside] = (found[inside][0], line)
    return found


def library_functions(frames: Iterable[str]) -> dict[Function, tuple[int, str]]:
    """Functions of a stack that are neither Python's own nor of a framework that traces: libraries' and the user's."""
    return user_functions(frames, _NOT_LIBRARIES)


def places_of_users(frames: Iterable[str]) -> dict[str, int]:
    """The innermost line (`file:line`) of each of the user's functions of a stack, with how deep that is among them."""
    return {f"{path}:{line}": depth for (_, path), (depth, line) in user_functions(frames).items()}


def in_package(source: str) -> str:
    """A line of an installed package by its path in there: `transformers/models/gpt2/modeling_gpt2.py:420`."""
    return _PACKAGES.split(source)[-1]


def others_names(frames: list[str]) -> set[str]:
    """The functions of a stack that are not the user's."""
    found = (_FRAME.match(frame) for frame in frames)
    return {match.group(1) for match in found if match and _NOT_USERS.search(match.group(2))}
