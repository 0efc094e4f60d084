"""A persistent cache is on, and programs are compiled all the same.

## What it detects

A persistent compilation cache whose lookups mostly miss although the run compiled for a while.

## Why it costs time

Each start compiles as if there were no cache, and writes it anew on top.

## Evidence

Hits, misses and loads that failed, by torch_xla's counters, and the time start-up compiles took.

## How to fix

Point every run and every host to the same writable path; keep flags and library versions the same, since they are part
of the key. On TPU with torch_xla up to 2.9 programs cannot be loaded: upgrade once a fix is released.

Before:

    XLA_PERSISTENT_CACHE_PATH=/tmp/cache-$RUN_ID python train.py

After:

    XLA_PERSISTENT_CACHE_PATH=/persistent/xla_cache python train.py

## Limits and false positives

The first run with a cache misses by nature. A changed model misses too.

## References

- https://github.com/pytorch/xla/issues/9094
- https://github.com/pytorch/xla/issues/9349
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.startup import at_stake, cache_was_on, compile_evidence, saved_at_start, slow_start
from tpuprof.rules.thresholds import CACHE_HITS_FROM_SHARE
from tpuprof.signals import Signals

COUNTERS = ("PersistentCacheHit", "PersistentCacheMiss", "PersistentCacheDeserializeFailure")


@rule(good="The persistent cache answers", bad="The persistent cache does not answer")
def check(signals: Signals) -> Outcome:
    """Fail where lookups mostly miss and start-up compiles matter."""
    if not cache_was_on(signals):
        return not_applicable("no persistent cache is on")
    counts = {name: signals.all_counters.get(name, 0) for name in COUNTERS}
    evidence = [Evidence(name, count, "times") for name, count in counts.items()]
    hits, misses, failures = counts.values()
    lookups = hits + misses
    if not lookups:
        return passed(evidence, reason="nothing was looked up in the cache")
    useful = max(hits - failures, 0) / lookups
    if useful >= CACHE_HITS_FROM_SHARE or not slow_start(signals):
        return passed(evidence)
    return failed(
        at_stake(signals),
        evidence + compile_evidence(signals),
        title=f"The persistent cache answered {max(hits - failures, 0)} of {lookups} lookups",
        price=saved_at_start(signals, 0.0, 1.0),
        confidence="low",
    )
