"""What describing a sampled stack takes: tpuprof's way beside `code.co_positions()` and `linecache`, in microseconds.

    python benchmarks/stack_text_cost.py

The sampler describes each new stack while it holds Python's lock, so this time is the training thread's too. Shapes:
stacks of few and of many frames, in short and in long functions, with their source files known or seen for the first
time.
"""

from __future__ import annotations

import argparse
import linecache
import sys
import time
from collections.abc import Callable
from itertools import islice
from types import CodeType
from unittest import mock

from tpuprof.instrument import source_lines, stack_text

REPEATS = 200


def main() -> None:
    """Measure each shape both ways, and print the ratio."""
    print(f"{'frames':>6} {'byte code':>10} {'source':>6} {'ours us':>9} {'plain us':>9} {'ratio':>6}")
    for frames in (4, 40):
        for name in ("short", "long"):
            code = _function(200 if name == "long" else 4)
            places = [(code, len(code.co_code) - 4)] * frames
            for cold in (False, True):
                ours = _time(places, cold)
                with (
                    mock.patch.object(stack_text, "position", _plain_position),
                    mock.patch.object(stack_text, "source_lines", _plain_lines),
                ):
                    plain = _time(places, cold)
                kind = "new" if cold else "known"
                print(
                    f"{frames:6} {len(code.co_code):10} {kind:>6} {ours:9.1f} {plain:9.1f} {plain / ours:6.1f}"
                )


def _function(branches: int) -> CodeType:
    """A function with so many branches, as if it stood at the end of a large file of the standard library."""
    text = (
        "\n" * 2400
        + "def f(x):\n"
        + "    x = x.a(1, 2) if x.b(3) else x.c(4)\n" * branches
        + "    return x\n"
    )
    scope: dict[str, Callable[..., object]] = {}
    exec(compile(text, argparse.__file__, "exec"), scope)
    return scope["f"].__code__


def _time(places: list[stack_text.Place], cold: bool) -> float:
    times = []
    for _ in range(REPEATS):
        if cold:
            source_lines._file_lines.cache_clear()
            linecache.clearcache()
        begin = time.perf_counter_ns()
        stack_text.describe(places)
        times.append(time.perf_counter_ns() - begin)
    return sorted(times)[len(times) // 2] / 1e3


def _plain_position(code: CodeType, instruction: int) -> source_lines.Position:
    found = next(islice(code.co_positions(), max(instruction, 0) // 2, None), None)
    return found or (None, None, None, None)


def _plain_lines(path: str, first: int, last: int) -> list[bytes]:
    return [linecache.getline(path, number).encode() for number in range(first, last + 1)]


if __name__ == "__main__":
    sys.exit(main())
