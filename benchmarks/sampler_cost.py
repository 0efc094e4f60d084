"""Measures what the stack sampler costs: blocks of steps with and without it, in turns, in one process.

    PJRT_DEVICE=CPU python benchmarks/sampler_cost.py

Prints the change of CPU time and of wall time (median and quartiles over pairs), and the sampler's own CPU time.
"""

from __future__ import annotations

import statistics
import threading
import time

import torch
import torch_xla

from tpuprof.instrument.host_sampler import HostSampler

PAIRS, STEPS = 24, 6


def main() -> None:
    """Measure and print."""
    device = torch_xla.device()
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(24)]).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(16, 64).to(device)

    def block() -> tuple[float, float]:
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
            torch_xla.sync()
        torch_xla.sync(wait=True)
        return time.process_time() - cpu, time.perf_counter() - wall

    for _ in range(3):
        _, wall = block()
    pairs, told = [], []
    for number in range(PAIRS):
        times = {}
        for on in (True, False) if number % 2 else (False, True):
            sampler = HostSampler(torch_xla._XLAC, threading.get_ident(), wall / STEPS)
            if on:
                sampler.start()
            times[on] = block()
            if on:
                told.append(sampler.stop())
        pairs.append((times[True], times[False]))
    for row, name in enumerate(("CPU time", "wall time")):
        changes = [100 * (on[row] / off[row] - 1) for on, off in pairs]
        low, middle, high = statistics.quantiles(changes, n=4)
        step = statistics.median(off[row] for _, off in pairs) / STEPS * 1e3
        print(f"{name}: {middle:+.1f} % ({low:+.1f} to {high:+.1f}) of {step:.1f} ms per step")
    samples, cpu = sum(each["samples"] for each in told), sum(each["cpu_seconds"] for each in told)
    apart = statistics.median(each["interval_ms"] for each in told)
    print(
        f"{samples} samples, {cpu / samples * 1e3:.2f} ms of CPU time each, {apart:.1f} ms apart at the end"
    )


if __name__ == "__main__":
    main()
