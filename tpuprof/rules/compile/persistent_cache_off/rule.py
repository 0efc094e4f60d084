"""Every run compiles anew what the run before it compiled.

## What it detects

A run that compiled for a while at its start without a persistent compilation cache.

## Why it costs time

Without the cache each start compiles every graph anew, on every host.

## Evidence

Graphs compiled before training was steady and the time those graph cuts took; that no cache was asked for.

## How to fix

Ask for a cache before the first graph is compiled, on a path that survives the run.

Before:

    device = torch_xla.device()

After:

    import torch_xla.runtime as xr

    xr.initialize_cache("/persistent/xla_cache", readonly=False)
    device = torch_xla.device()

## Limits and false positives

On TPU, torch_xla up to 2.9 writes programs into the cache but cannot load them (issue 9094); measure before you count
on it. The price spreads the compile time over ten thousand steps and holds from the second run on.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/recompilation.html
- https://github.com/pytorch/xla/issues/9094
"""

from __future__ import annotations

from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.startup import at_stake, compile_evidence, saved_at_start, slow_start
from tpuprof.signals import Signals

# Share of the compile time a cached start saves: loading a program takes a part of what compiling it did.
SAVED_AT_LEAST = 0.7
SAVED_AT_MOST = 1.0


@rule(
    about="compiled programs kept between runs",
    good="Compiled programs are kept, or take no time",
    bad="Every run compiles anew",
)
def check(signals: Signals) -> Outcome:
    """Fail where there is no cache and start-up compiles are worth one."""
    if signals.compilation_cache.status != "off":
        return not_applicable("a persistent cache is on")
    evidence = compile_evidence(signals)
    if not slow_start(signals):
        return passed(evidence, reason="compiling took too little of the run to matter")
    title = f"Every run compiles {signals.startup_compile_seconds:.0f} s anew: no persistent cache is on"
    return failed(
        at_stake(signals), evidence, title=title, price=saved_at_start(signals, SAVED_AT_LEAST, SAVED_AT_MOST)
    )
