"""Tells whether a thread is in tpuprof's own work: at a step's end, or around a call that it puts an event around.

A sample stands for all that the thread did since the one before it. One taken in our own work would give the program's
time to the line that happened to call us: to `torch_xla.sync()`, where steps end.
"""

from __future__ import annotations

import sys

from tpuprof.instrument.known_codes import KnownCodes
from tpuprof.instrument.stack_text import (
    expression,
    is_own,
    is_package,
    is_stdlib,
    is_users,
)
from tpuprof.instrument.thread_frames import Place
from tpuprof.own_events import is_generated

# How our functions call what they stand in for, or decorate: meanwhile the program's own work is done.
PASSES_ON = ("original(", "function(")


class OwnWork:
    """Tells it of stacks of (code, instruction), innermost first, as they are: with our own frames."""

    def __init__(self) -> None:
        # Whether one of our frames calls what it stands in for, by the address of its code, which lives on in a module.
        self._passes_on: dict[Place, bool] = {}

    def does(self, places: list[Place]) -> bool:
        """Whether the innermost frame that is not a library's is ours, and does not pass a call on.

        Our own launcher runs whole programs: what nothing but Python called is none of our work.
        """
        for number, place in enumerate(places):
            path = place[0].co_filename
            if is_own(path):
                outside = (each[0].co_filename for each in places[number + 1 :])
                return not self._calls_original(place) and any(map(_is_of_a_program, outside))
            if is_users(path):
                return False
        return False

    def _calls_original(self, place: Place) -> bool:
        known = self._passes_on.get(place)
        if known is None:
            known = self._passes_on[place] = any(call in expression(*place) for call in PASSES_ON)
        return known


def learn_own(codes: KnownCodes) -> None:
    """Know the functions of tpuprof that a program's thread may be in: they are short, and end before they are seen."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tpuprof.") and type(module) is type(sys):
            codes.learn_module(module)


def _is_of_a_program(path: str) -> bool:
    return not (is_own(path) or is_generated(path) or (is_stdlib(path) and not is_package(path)))
