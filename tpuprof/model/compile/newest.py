"""Which programs the compiles of a capture made, where no program's name is seen to run: the newest ones, in order.

JAX's CPU client names programs on their ops only, and a program of few small ops leaves no event of them. Its programs
are numbered as they are made, and a profile embeds them all: the newest are those that the capture saw compiled.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.model.compile.compiles import Compile

_NUMBER = re.compile(r"\((\d+)\)$")
# Below it a program's number counts programs; torch_xla and TPUs write a fingerprint of 64 bits there. A process makes
# fewer programs.
COUNTS_BELOW = 1_000_000


def with_newest(compiles: list[Compile], ran: Collection[str], embedded: Collection[str]) -> list[Compile]:
    """The compiles in time order, those without an embedded program with the newest programs that did not run.

    Programs are numbered as they are compiled: one between two compiles whose programs are known has a number between
    theirs. Compiles are left as they were where programs carry no running number, or are too few.
    """
    numbers = {name: number for name in embedded if (number := number_of(name)) is not None}
    taken = {each.program for each in compiles} | set(ran)
    free = sorted((number, name) for name, number in numbers.items() if name not in taken)
    if not free or len(numbers) < len(embedded):
        return compiles
    named = list(compiles)
    for unknown, group in groupby(range(len(compiles)), lambda row: compiles[row].program not in numbers):
        if not unknown:
            continue
        rows = list(group)
        above = numbers[compiles[rows[0] - 1].program] if rows[0] else -1
        below = numbers[compiles[rows[-1] + 1].program] if rows[-1] + 1 < len(compiles) else COUNTS_BELOW
        between = [name for number, name in free if above < number < below][-len(rows) :]
        if len(between) == len(rows):
            for row, name in zip(rows, between, strict=True):
                named[row] = replace(compiles[row], program=name)
    return named


def number_of(program: str) -> int | None:
    """The running number in a program's name; None where it has none, or a fingerprint."""
    found = _NUMBER.search(program)
    number = int(found.group(1)) if found else COUNTS_BELOW
    return number if number < COUNTS_BELOW else None
