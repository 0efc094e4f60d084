"""Every run compiles again what the run before it compiled.

## What it detects

A run that compiled for a while at its start without a persistent compilation cache.

## Why it costs time

Without the cache each start compiles every graph again, on every host.

## Evidence

Graphs compiled before training was steady and the time those graph cuts took; that no cache was asked for.

## How to fix

[loads] Ask for a cache before the first graph is compiled, on a path that survives the run. Then start twice and look
at the counters PersistentCacheHit and PersistentCacheMiss (`torch_xla.debug.metrics.metrics_report`): a cache that
cannot be loaded says so in a warning, "Failed to deserialize executable".

[cpu] On this device there is nothing to change: a cache saves nothing. Where the program is to run on an accelerator,
capture it there: with torch_xla 2.9, a TPU cannot load programs either, and whether a GPU can is unknown.

## How to fix in TorchTPU

Set TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT to a folder that survives the run, before torch_tpu is imported. Every
program is kept there, those of torch.compile too, and later starts load them. On the CPU plugin a second start took
about half of the first one's CPU time; on a device this was not tried.

## How to fix in JAX

Set the folder before the first compile: `jax.config.update("jax_compilation_cache_dir", path)`. Programs that
compiled in less than a second are not kept unless jax_persistent_cache_min_compile_time_secs is lowered.

## Limits and false positives

On TPU, torch_xla 2.9 writes programs into the cache and cannot load them (issue 9094), so that the rule does not
apply to it and to earlier releases there. For later releases it is unknown: the price then begins at zero. On CPU the
client cannot load from the cache either: there is no price there, and the finding comes last. The price spreads the
compile time over ten thousand steps and holds from the second run on. In JAX it begins at what took a second and more:
the rest is not kept by default. TorchTPU counts no hits: whether a folder that is set was of use is unknown there. Its
price begins at 70 % of the compile time on the CPU plugin, where the cache was tried, and elsewhere at zero.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/recompilation.html
- https://github.com/pytorch/xla/issues/9094
- https://github.com/pytorch/xla/pull/9759
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.shared.startup import (
    OF_NO_USE_ON_CPU,
    at_stake,
    compile_evidence,
    known_of_cache,
    saved_at_start,
    slow_start,
)
from tpuprof.rules.thresholds import SLOW_COMPILE_FROM_SECONDS
from tpuprof.signals import Signals

# Share of the compile time a cached start saves: loading a program takes a part of what compiling it did. Where it is
# unknown whether the cache can be loaded, it may save nothing.
SAVED_AT_LEAST = 0.7
SAVED_AT_MOST = 1.0


@rule(
    about="compiled programs kept between runs",
    good="Compiled programs are kept, or take no time",
    bad="Every run compiles again",
    reads=(
        "step_ms",
        "startup_compile_seconds",
        "startup_compile_source",
        "startup_compiles",
        "startup_short_compile_seconds",
        "compilation_cache",
        "predicted",
        "torch_xla_version",
        "framework",
        "is_cpu_plugin",
        "is_tpu",
        "device_type",
        "preflight",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where there is no cache, start-up compiles are worth one, and it is not known to be of no use."""
    if signals.compilation_cache.status != "off":
        return not_applicable("a persistent cache is on")
    useless, doubt = known_of_cache(signals)
    if useless:
        return not_applicable(useless)
    evidence = [*compile_evidence(signals), *([Evidence(doubt)] if doubt else [])]
    short = 0.0
    if "jax" in signals.framework and not signals.predicted:
        short = signals.startup_short_compile_seconds
        evidence += [Evidence("of that in compiles of less than a second, which are not kept", short, "s")]
    if not slow_start(signals):
        return passed(
            evidence,
            reason=f"compiling took less than {SLOW_COMPILE_FROM_SECONDS:g} s before the captured steps",
        )
    if doubt == OF_NO_USE_ON_CPU:
        title = (
            f"Every run compiles for {signals.startup_compile_seconds:.0f} s again, and keeps nothing of it"
        )
        cases = frozenset({"cpu"})
        return failed(0.0, evidence, title=title, reason=doubt, confidence="low", cases=cases)
    title = f"Every run compiles for {signals.startup_compile_seconds:.0f} s again: no persistent cache is on"
    # A doubt about devices says nothing against the plugin that the cache was tried on.
    least = (
        0.0
        if doubt and not signals.is_cpu_plugin
        else SAVED_AT_LEAST * (1 - short / signals.startup_compile_seconds)
    )
    return failed(
        at_stake(signals),
        evidence,
        title=title,
        price=saved_at_start(signals, least, SAVED_AT_MOST, doubt),
        confidence="low" if doubt else "medium",
        cases=frozenset({"loads"}),
    )
