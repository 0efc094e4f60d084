"""How long training waits while JAX's profiler ends, with JAX's own stop and with tpuprof's, by how much was recorded.

    python benchmarks/jax_stop.py [--runs 10 50 200] [--repeats 3]

A scanned program of many small ops is recorded on the CPU for so many runs. Both ways keep Python's lock: JAX's own
writes a Chrome trace beside the profile, which nobody reads here. Prints the longest time that another thread waited
for the lock (s), the medians of the repeats, taken in turns, and their ratio.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

from tpuprof.capture import jax_session

OWN, OURS = "jax.profiler.stop_trace", "tpuprof"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, nargs="+", default=[10, 50, 200])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    program = jax.jit(
        lambda x: jax.lax.scan(lambda h, _: (jnp.tanh(h @ h) * 0.5 + h, None), x, length=500)[0]
    )
    inputs = jnp.eye(16)
    program(inputs).block_until_ready()
    print("| runs recorded | JAX's own stop, s | tpuprof's, s | ratio |\n|---|---|---|---|")
    for runs in options.runs:
        waits: dict[str, list[float]] = {OWN: [], OURS: []}
        for repeat in range(options.repeats):
            for way in (OWN, OURS) if repeat % 2 else (OURS, OWN):
                waits[way].append(longest_wait(way, lambda: program(inputs).block_until_ready(), runs))
        own, ours = (statistics.median(waits[way]) for way in (OWN, OURS))
        print(f"| {runs} | {own:.2f} | {ours:.2f} | {ours / own:.2f} |", flush=True)


def longest_wait(way: str, step, runs: int) -> float:  # type: ignore[no-untyped-def]  # of the program above
    """Record so many steps, end it that way, and return how long another thread waited at most (s)."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = jax.profiler.ProfileOptions()
        chosen.host_tracer_level, chosen.python_tracer_level = 2, 0
        jax.profiler.start_trace(folder, profiler_options=chosen)
        for _ in range(runs):
            step()
        gaps, over = [0.0], threading.Event()
        other = threading.Thread(target=look, args=(gaps, over))
        other.start()
        if way == OURS:
            assert jax_session.stop_into(folder)
        else:
            jax.profiler.stop_trace()
        over.set()
        other.join()
        return max(gaps)


def look(gaps: list[float], over: threading.Event) -> None:
    """Note the time between two looks, which should be a millisecond."""
    last = time.perf_counter()
    while not over.is_set():
        time.sleep(0.001)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now


if __name__ == "__main__":
    main()
