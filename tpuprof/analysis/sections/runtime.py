"""What torch_xla's own counters add: ops that fell back to the CPU, and the persistent compilation cache."""

from __future__ import annotations

from typing import Any

from tpuprof.model.host.vocabulary import PYTORCH
from tpuprof.model.host_run import HostRun
from tpuprof.model.notes import Notes
from tpuprof.model.telemetry import CACHE_COUNTERS, FALLBACK_PREFIX, VALUE_READ, Counted
from tpuprof.report.labels import OTHER_CUT
from tpuprof.report.sections import CompilationCache, FallbackRow, GraphCutRow
from tpuprof.units import PS_PER_MS

# Variables that name the folder of a persistent cache: torch_xla's, and TorchTPU's (its third tier).
_PATHS = ("XLA_PERSISTENT_CACHE_PATH", "TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT")
# How near the counts of cuts and of fallbacks are that are the same (share): the capture may begin within a step.
SAME_WITHIN_SHARE = 0.1
# Frameworks without torch_xla's counters, as their vocabularies call them.
_NOT_TORCH_XLA = ("jax", "torch_tpu", PYTORCH)


def fallback_rows(hosts: list[Counted], notes: Notes, fetching_ms: float | None) -> list[FallbackRow]:
    """Ops that ran on the CPU in captured steps, most often first; `fetching_ms` of a step fetched their inputs."""
    captured = sum(each.captured for each in hosts)
    lines: dict[str, str] = {}
    also: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    gradients = {op for each in hosts for op in each.gradients}
    inside = {op: place for each in hosts for op, place in each.inside.items()}
    for each in hosts:
        lines.update(each.lines)
        also.update({op: each.lines_also.get(op, []) for op in each.lines})
        for op, count in each.fallbacks.items():
            counts[op] = counts.get(op, 0) + count
    cost = fetching_ms if len(counts) == 1 else None
    rows = [
        FallbackRow(
            op,
            count / captured,
            lines.get(op, ""),
            cost,
            op in gradients,
            also.get(op, []),
            inside.get(op, ""),
        )
        for op, count in counts.items()
    ]
    # What torch_xla's own text says covers the whole run, so it gives no number per step.
    told = [name for name in notes.counters if name.startswith(FALLBACK_PREFIX)] + notes.not_lowered
    seen = {row.op for row in rows} | {VALUE_READ}
    if not any(each.records for each in hosts):
        rows += [FallbackRow(op, None, "") for op in dict.fromkeys(told) if op not in seen]
    return sorted(rows, key=lambda row: -(row.per_step or 0.0))


def fetching_ms(reads: list[tuple[int, int]]) -> float | None:
    """What of a step is spent in reads that no call explains, from (their time in ps, steps) of each host."""
    steps = sum(count for _, count in reads)
    return sum(ps for ps, count in reads if count) / steps / PS_PER_MS if steps else None


def graph_cut_rows(hosts: list[HostRun], counts: list[Counted]) -> list[GraphCutRow]:
    """Who hands graphs over, how often per step, over all hosts; `counts` has what each of them counted."""
    steps = sum(len(host.steps) for host in hosts)
    totals: dict[tuple[str, str], int] = {}
    for host, count in zip(hosts, counts, strict=True):
        fell_back = _op_of_other_cuts(host, count)
        for each in host.graph_cuts:
            key = fell_back if each.call == OTHER_CUT and fell_back else (each.call, each.source)
            totals[key] = totals.get(key, 0) + each.occurrences
    rows = [GraphCutRow(*key, count / steps) for key, count in totals.items()]
    return sorted(rows, key=lambda row: -row.per_step)


def _op_of_other_cuts(host: HostRun, count: Counted) -> tuple[str, str] | None:
    """The op, with its line, that explains the cuts which no sync and no read does: an op on the host cuts once."""
    cuts = sum(each.occurrences for each in host.graph_cuts if each.call == OTHER_CUT)
    if len(count.fallbacks) != 1 or not count.captured:
        return None
    (op, times), *_ = count.fallbacks.items()
    same = abs(times / count.captured * len(host.steps) - cuts) <= SAME_WITHIN_SHARE * cuts
    return (op, count.lines.get(op, "")) if same else None


def cache_section(hosts: list[Counted], info: dict[str, Any], frameworks: set[str]) -> CompilationCache:
    """Whether compiled programs are kept on disk between runs, and whether that helped this one."""
    noted = info.get("compilation_cache")
    path = str(noted.get("path") or "") if isinstance(noted, dict) else ""
    environment = info.get("environment")
    if not path and isinstance(environment, dict):
        path = next((str(environment[name]) for name in _PATHS if environment.get(name)), "")
    if not any(each.records for each in hosts):
        return CompilationCache("unknown", path, detail=f"unavailable: {_without_counters(frameworks)}")
    hits, misses, loads, failures = (
        sum(each.cache.get(name, 0) for each in hosts) for name in CACHE_COUNTERS
    )
    on = path or hits or misses
    detail = f"{hits} hits, {misses} misses, {loads} loads, {failures} failed loads since the program began"
    return CompilationCache(
        _status(bool(on), hits, misses, loads, failures), path, hits, misses, loads, detail if on else ""
    )


def _without_counters(frameworks: set[str]) -> str:
    if frameworks & set(_NOT_TORCH_XLA):
        return "no run folder by tpuprof, which keeps what the program counted"
    return "no run folder with torch_xla's counters"


def _status(on: bool, hits: int, misses: int, loads: int, failures: int) -> str:
    if not on:
        return "off"
    if failures or (hits and not loads and misses):
        return "never_loads"
    if hits:
        return "ok"
    return "cold" if misses else "unknown"
