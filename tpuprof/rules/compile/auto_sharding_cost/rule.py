"""SPMD auto-sharding makes compiles slow.

## What it detects

Programs compiled with SPMD auto-sharding in a run that waited long for its compiles.

## Why it costs time

Auto-sharding searches for a sharding of every tensor while it compiles, which takes minutes for large models; each
start pays for it.

## Evidence

Compiles with auto-sharding by torch_xla's counter, and the time start-up compiles took.

## How to fix

Shard by hand, with FSDPv2 or `xs.mark_sharding`, once auto-sharding has shown a way. A persistent cache spares the
search from the second start on, where the release can load from it: torch_xla up to 2.9 cannot on TPU (see
persistent-cache-off). The evidence says what is known of the release that ran.

## Limits and false positives

How much of the compile time the search takes is not known; the price is an upper bound.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/spmd_advanced.html
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.shared.startup import (
    at_stake,
    cache_evidence,
    compile_evidence,
    saved_at_start,
    slow_start,
)
from tpuprof.signals import Signals


@rule(
    about="cost of auto-sharding",
    good="Auto-sharding costs little",
    bad="Auto-sharding makes compiles slow",
    torch_only=True,
    reads=(
        "step_ms",
        "all_counters",
        "startup_compile_seconds",
        "startup_compile_source",
        "startup_compiles",
        "predicted",
        "torch_xla_version",
        "framework",
        "is_tpu",
        "device_type",
        "preflight",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where programs were auto-sharded and the start waited for its compiles."""
    count = signals.all_counters.get("CompileWithAutoSharding", 0)
    if not count:
        return not_applicable("no program was compiled with auto-sharding")
    evidence = [
        Evidence("programs compiled with auto-sharding", count, "programs"),
        *compile_evidence(signals),
        *cache_evidence(signals),
    ]
    if not slow_start(signals):
        return passed(evidence)
    return failed(at_stake(signals), evidence, price=saved_at_start(signals, 0.0, 1.0), confidence="low")
