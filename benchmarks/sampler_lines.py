"""Compares where samples of a thread lie with where its time goes, with the prompt wait and with Python's own.

    python benchmarks/sampler_lines.py

Each program repeats two pieces of work, Python code and a call that lets go of Python's lock (GIL), and measures both
by its own clock. Prints the share of the Python code: measured, by samples with each wait, and how often samples came.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from types import CodeType

import numpy as np

from tpuprof.instrument import _prompt_wait, plain_wait
from tpuprof.instrument.host_sampler import spread
from tpuprof.instrument.stack_text import MAX_FRAMES

SECONDS, APART = 3.0, 0.005


def python_code(count: int) -> int:
    """Run Python code that keeps the lock."""
    total = 0
    for number in range(count):
        if number % 7:
            total += number
    return total


def sampled(
    wait: _prompt_wait.Wait | plain_wait.Wait, program: Callable[[], None]
) -> tuple[list[str], list[float]]:
    """The function that each sample of the main thread lies in, and the times between samples (s)."""
    main, names, times = threading.get_ident(), [], []
    known: dict[int, CodeType] = {}

    def look() -> None:
        if wait.works:
            _prompt_wait.wake_at_once()
        while not wait.wait(APART * spread(len(names))):
            times.append(time.perf_counter())
            places = wait.look(main, MAX_FRAMES, -1, None, known)[5]
            known.update((id(code), code) for code, _ in places)
            names.append(places[0][0].co_name)

    thread = threading.Thread(target=look)
    thread.start()
    program()
    wait.halt()
    thread.join()
    return names, [later - sooner for sooner, later in pairwise(times)]


def measure(name: str, count: int, call: Callable[[], object]) -> None:
    """Run one program with both waits, and print."""
    shares: dict[str, tuple[float, float, float, float]] = {}
    for kind, wait in (("plain", plain_wait.Wait()), ("prompt", _prompt_wait.Wait())):
        spent = [0.0, 0.0]

        def program(spent: list[float] = spent) -> None:
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                begin = time.perf_counter()
                python_code(count)
                middle = time.perf_counter()
                call()
                spent[0] += middle - begin
                spent[1] += time.perf_counter() - middle

        names, apart = sampled(wait, program)
        share = sum(each == "python_code" for each in names) / max(len(names), 1)
        longest = max(apart, default=SECONDS)
        shares[kind] = (
            spent[0] / sum(spent),
            share,
            statistics.median(apart or [SECONDS]),
            longest,
        )
    for wait_name, (truth, share, median, longest) in shares.items():
        print(
            f"{name:28} {wait_name:6}  measured {truth:6.1%}  by samples {share:6.1%}  "
            f"a sample per {median * 1e3:.1f} ms, longest gap {longest * 1e3:.0f} ms"
        )


def main() -> None:
    """Measure all programs."""
    generator, large = np.random.default_rng(), np.zeros(1_000_000)
    with tempfile.TemporaryFile() as file:
        measure("0.05 ms, then numpy, 1 us", 1_000, lambda: generator.random(100))
        measure("2 ms, then numpy, 20 us", 40_000, lambda: generator.random(5_000))
        measure("0.5 ms, then numpy, 20 us", 10_000, lambda: generator.random(5_000))
        measure("2 ms, then numpy, 1 ms", 40_000, lambda: large.sum() + large.max())
        measure("2 ms, then a write", 40_000, lambda: os.pwrite(file.fileno(), b"line", 0))
        measure("2 ms, then a sleep of 2 ms", 40_000, lambda: time.sleep(0.002))
        measure("20 ms, no call", 400_000, lambda: None)


if __name__ == "__main__":
    main()
