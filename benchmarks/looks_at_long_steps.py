"""What looking for long steps costs a program after its capture, per step: the thread that looks, on and off in turn.

    python benchmarks/looks_at_long_steps.py [--seconds 40]

One process runs steps, in blocks with and without the thread. Steps are of Python alone, which keeps Python's lock for
the whole step (the worst case: the thread that looks has to wait for it, and the step to get it back), and of NumPy,
which lets go of it. In each shape the usual step is known, and no step is long but for what the machine does. Prints
the median of how a block's mean step differs from that of the block before, without the slowest twentieth of each.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tpuprof.capture.long_steps import LongSteps, LongStepWatch

# Time of a block (s).
BLOCK = 1.0
_MATRIX = np.random.default_rng(0).random((256, 256))


def python(rounds: int) -> None:
    """Python alone."""
    total = 0
    for number in range(rounds):
        total += number % 7


def numpy(rounds: int) -> None:
    """NumPy, which lets go of Python's lock."""
    for _ in range(rounds):
        np.sin(_MATRIX)


SHAPES: tuple[tuple[str, Callable[[int], None], int], ...] = (
    ("Python, small step", python, 20_000),
    ("Python, larger step", python, 400_000),
    ("NumPy, small step", numpy, 2),
    ("NumPy, larger step", numpy, 40),
)


def block(step: Callable[[int], None], rounds: int, usual: float, *, looks: bool) -> float:
    """The mean step of a block (s), without the slowest twentieth."""
    began = time.monotonic()
    watch = LongStepWatch(LongSteps(usual_seconds=usual), lambda: began)
    if looks:
        watch.start()
    took: list[float] = []
    end, number = began + BLOCK, 0
    while began < end:
        step(rounds)
        now = time.monotonic()
        watch.step_ended(number, began, now, compiled=False)
        took.append(now - began)
        began, number = now, number + 1
    if looks:
        watch.stop()
    return statistics.mean(sorted(took)[: max(len(took) * 19 // 20, 1)])


def main() -> None:
    """Measure each shape and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40.0)
    seconds = parser.parse_args().seconds
    for name, step, rounds in SHAPES:
        usual = block(step, rounds, 0.0, looks=False)
        means = [block(step, rounds, usual, looks=bool(at % 2)) for at in range(int(seconds / BLOCK))]
        ratios = [
            (later / before) ** (1 if at % 2 == 0 else -1)
            for at, (before, later) in enumerate(pairwise(means))
        ]
        ratio = statistics.median(ratios)
        print(
            f"{name} of {1e3 * usual:.2f} ms: {ratio:.4f} times as long with looks ({100 * (ratio - 1):+.2f} %)"
        )


if __name__ == "__main__":
    main()
