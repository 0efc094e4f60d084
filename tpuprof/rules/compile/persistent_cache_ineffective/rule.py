"""A persistent cache is on, and programs are compiled all the same.

## What it detects

A persistent compilation cache that holds programs, but misses more often than it answers, or whose programs cannot be
loaded, in a run that compiled for a while.

## Why it costs time

Each start compiles as if there were no cache, and writes it again on top.

## Evidence

Hits, misses and loads that failed, by torch_xla's counters or JAX's own events, and the time start-up compiles took.

## How to fix

Point every run and every host to the same writable path; keep flags and library versions the same, since they are
part of the key. torch_xla 2.9 cannot load programs on TPU: a cache there answers nothing, and costs the time to write
it. A fix was proposed (pull request 9759), and no release has it: 2.9 was the last when this was written.

## How to fix in JAX

Point every run and every host to the same writable folder (`jax_compilation_cache_dir`), and keep flags, versions and
the number of devices the same: they are part of the key. `JAX_EXPLAIN_CACHE_MISSES=1` makes JAX log each program that
was not found, and `JAX_DEBUG_LOG_MODULES=jax._src.cache_key` a hash of each part of the keys: compare two starts.

## Limits and false positives

JAX counts a miss only for a program that it then writes: one that compiles in less than
jax_persistent_cache_min_compile_time_secs is neither.

The first run with a cache misses everything by nature, so a cache that answered nothing passes with a remark. A changed
model misses too.

## References

- https://github.com/pytorch/xla/issues/9094
- https://github.com/pytorch/xla/pull/9759
- https://github.com/pytorch/xla/issues/9349
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.shared.startup import at_stake, compile_evidence, saved_at_start, slow_start
from tpuprof.rules.thresholds import CACHE_HITS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import counted


@rule(
    about="use of the persistent cache",
    good="The persistent cache answers, or compiling takes little",
    bad="The persistent cache does not answer",
    reads=(
        "step_ms",
        "startup_compile_seconds",
        "startup_compile_source",
        "startup_compiles",
        "compilation_cache",
        "predicted",
        "preflight",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where a cache that holds programs mostly misses, or cannot load them, and start-up compiles matter."""
    cache = signals.compilation_cache
    if cache.status == "off":
        return not_applicable("no persistent cache is on")
    evidence = [Evidence(cache.detail)] if cache.detail else []
    hits, lookups = cache.hits or 0, (cache.hits or 0) + (cache.misses or 0)
    if not lookups:
        return not_applicable("nothing was looked up in the cache", evidence)
    if cache.status == "cold":
        return passed(
            evidence,
            title="The persistent cache was empty before this run",
            reason="the cache held none of the programs: expected of the first run with it. If the next one "
            "misses too, its path or key changes from run to run",
        )
    useful = 0 if cache.status == "never_loads" else hits
    if useful / lookups >= CACHE_HITS_FROM_SHARE or not slow_start(signals):
        return passed(evidence)
    return failed(
        at_stake(signals),
        evidence + compile_evidence(signals),
        title=f"The persistent cache answered {useful} of {counted(lookups, 'lookup')}",
        price=saved_at_start(signals, 0.0, 1.0),
        confidence="low",
    )
