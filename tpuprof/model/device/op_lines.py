"""The HLO lines of a table of ops, each read once: ops that differ in the numbers of names alone have one line.

A program repeats its layers: of ten thousand ops a few hundred lines are left once `%fusion.17` and `%fusion.18` are
the same. What a line says (its opcode, the arrays it reads and writes) does not depend on those numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tpuprof.records import record

Int64 = npt.NDArray[np.int64]
# The number of a name within a line, and at the end of a name. Both stand in texts joined by line breaks.
_IN_LINE = re.compile(r"\.\d+(?=[ ,).\n]|\Z)")
_AT_END = re.compile(r"\.\d+(?=\n|\Z)")


@record(frozen=True)
class OpLines:
    """Which line each op has (`of`), and of each line the first op that has it (`first`), in order."""

    of: Int64
    first: list[int]


def op_lines(long_names: Sequence[str], short_names: Sequence[str], categories: Sequence[str]) -> OpLines:
    """The lines of ops, by their HLO lines, their names and the profiler's categories."""
    number: dict[tuple[str, str, str], int] = {}
    first: list[int] = []
    of = np.empty(len(long_names), np.int64)
    keys = zip(_without(_IN_LINE, long_names), _without(_AT_END, short_names), categories, strict=True)
    for row, key in enumerate(keys):
        of[row] = found = number.setdefault(key, len(first))
        if found == len(first):
            first.append(row)
    return OpLines(of, first)


def _without(numbers: re.Pattern[str], texts: Sequence[str]) -> list[str]:
    """The texts without numbers; all at once, which takes a tenth of the time."""
    joined = "\n".join(texts)
    if joined.count("\n") != len(texts) - 1:  # a text has a line break itself, or there is none
        return [numbers.sub("", text) for text in texts]
    return numbers.sub("", joined).split("\n")
