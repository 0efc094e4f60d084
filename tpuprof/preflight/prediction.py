"""What preflight says of one graph on one target: memory, predicted step time and its parts, collectives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tpuprof.decode.hlo import HloModule
from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.model.device.collective_role import Roles, layer_of
from tpuprof.preflight.collectives import Collective
from tpuprof.preflight.compiler import Compiled
from tpuprof.preflight.flops import KERNEL, computation_flops
from tpuprof.preflight.memory import Memory, memory_dict, read_memory, read_refusal
from tpuprof.preflight.schedule import Schedule, Work, play
from tpuprof.units import PS_PER_S, ps_to_ms

# Share of a step from which on it is said that the compiler did not price it; below it no verdict turns on that.
GUESSED_SHARE = 0.1
TRUST = (
    "Predicted, not measured: each op's time is the compiler's own cycle estimate over the chip's clock, within 1.5x "
    "of FLOPs over peak for large matmuls, and up to three times too long for single ops, so the real step can be "
    "faster or slower; collectives and host copies are bytes over stated link speeds, alone on "
    "the link; what the host does between steps is not in it. Trust differences between two predictions more than "
    "either one."
)


@dataclass
class CollectiveRow:
    """Collectives of one kind that move the same weight or stem from the same line. Bytes and time per step."""

    kind: str
    count: int
    bytes: int
    group: int
    asynchronous: bool
    layer: str
    weight: str
    source: str
    op: str


@dataclass
class Prediction:
    """One graph on one target. `schedule` and `module` are None where the compiler gave no program."""

    compiled: Compiled
    memory: Memory | None
    module: HloModule | None = None
    schedule: Schedule | None = None
    flops: int | None = None
    collectives: list[CollectiveRow] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def step_ms(self) -> float | None:
        """Predicted device time of one step, None where there is no program."""
        return ps_to_ms(self.schedule.duration) if self.schedule else None

    @property
    def mfu_bound(self) -> float | None:
        """FLOPs over what the chip could do in the predicted step. It is as uncertain as that step's time."""
        if self.schedule is None or not self.schedule.duration or self.flops is None:
            return None
        peak = self.compiled.target.chip.peak_flops_per_s
        return self.flops / (self.schedule.duration / PS_PER_S) / peak


def predict(compiled: Compiled) -> Prediction:
    """Read a compile's result."""
    graph, target = compiled.graph, compiled.target
    if compiled.status == "out-of-memory":
        return Prediction(compiled, read_refusal(compiled.error, graph, target))
    if compiled.status != "compiled":
        return Prediction(compiled, None)
    return predict_module(compiled, parse_hlo_text(compiled.hlo_text))


def predict_module(compiled: Compiled, module: HloModule) -> Prediction:
    """Read a compiled program, `compiled.memory` being its memory by kind."""
    graph, target = compiled.graph, compiled.target
    module.kernel_flops = compiled.kernel_flops
    schedule = play(module, target)
    found = Prediction(compiled, read_memory(compiled.memory, module, graph, target), module, schedule)
    found.flops = computation_flops(module, module.entry)
    found.collectives = _collective_rows(schedule, module, graph.parameter_names)
    found.warnings = schedule_warnings([(schedule, 1)])
    return found


def prediction_dict(found: Prediction) -> dict[str, Any]:
    """Plain values for JSON; what is unavailable is None with a `why` beside it."""
    compiled = found.compiled
    chip = compiled.target.chip
    return {
        "target": compiled.target.name,
        "topology": compiled.target.topology,
        "devices": compiled.graph.devices(compiled.target.devices),
        "chips": compiled.target.chips,
        "graph": {"number": compiled.graph.number, "hash": compiled.graph.key, "spmd": compiled.graph.spmd},
        "status": compiled.status,
        "why": compiled.error if compiled.status not in ("compiled", "out-of-memory") else "",
        "compile_seconds": round(compiled.seconds, 3),
        "cached": compiled.cached,
        "versions": compiled.versions,
        "memory": memory_dict(found.memory) if found.memory else None,
        "predicted": _time_dict(found),
        "parameter_names": compiled.graph.parameter_names,
        "flops_per_device": found.flops,
        "mfu_bound": found.mfu_bound,
        "mfu_predicted": found.mfu_bound,
        "collectives": [_row_dict(row) for row in found.collectives],
        "offload_bytes": dict(found.schedule.offload) if found.schedule else {},
        "assumptions": {
            "clock_hz": chip.clock_hz, "clock_source": chip.clock_source, "peak_flops_per_s": chip.peak_flops_per_s,
            "hbm_bytes_per_s": chip.hbm_bytes_per_s, "ici_bytes_per_s_per_link": chip.ici_bytes_per_s,
            "ici_links": compiled.target.links, "host_bytes_per_s": chip.host_bytes_per_s,
            "host_source": chip.host_source,
        },
        "trust": TRUST,
        "warnings": found.warnings,
    }  # fmt: skip


def split_ms(schedule: Schedule) -> dict[str, float]:
    """A predicted step's time by part, in ms; the parts sum to the step.

    `idle` is the core waiting for its own prefetches from HBM; idleness between steps is the host's and unknown.
    """
    return {
        "compute": ps_to_ms(schedule.totals[Work.COMPUTE]),
        "collective_exposed": ps_to_ms(schedule.totals[Work.COLLECTIVE]),
        "offload_exposed": ps_to_ms(schedule.totals[Work.OFFLOAD]),
        "idle": ps_to_ms(schedule.totals[Work.PREFETCH]),
    }


def _time_dict(found: Prediction) -> dict[str, Any] | None:
    schedule = found.schedule
    if schedule is None:
        return None
    return {
        "step_ms": found.step_ms,
        "split_ms": split_ms(schedule),
        "hidden_ms": {
            "collective": ps_to_ms(schedule.hidden[Work.COLLECTIVE]),
            "offload": ps_to_ms(schedule.hidden[Work.OFFLOAD]),
        },
        "priced_without_compiler": {"ms": ps_to_ms(schedule.guessed_ps), "times_by_op": schedule.guessed},
    }


def _row_dict(row: CollectiveRow) -> dict[str, Any]:
    return {
        "kind": row.kind, "count": row.count, "bytes": row.bytes, "devices": row.group, "async": row.asynchronous,
        "layer": row.layer, "weight": row.weight, "source": row.source, "op": row.op,
    }  # fmt: skip


def _collective_rows(schedule: Schedule, module: HloModule, names: list[str]) -> list[CollectiveRow]:
    rows: dict[tuple[str, ...], CollectiveRow] = {}
    roles = Roles(module, names)
    for collective, count in schedule.collectives.items():
        _, instruction = schedule.collective_at[collective]
        weight = roles.of(instruction.name, collective.kind, "").parameter if names else ""
        row = _row(collective, count, weight)
        key = (row.kind, row.weight, row.source, row.op, str(row.group), str(row.asynchronous))
        if key in rows:
            rows[key].count += row.count
            rows[key].bytes += row.bytes
        else:
            rows[key] = row
    return sorted(rows.values(), key=lambda row: -row.bytes)


def _row(collective: Collective, count: int, weight: str) -> CollectiveRow:
    return CollectiveRow(
        collective.kind, count, collective.bytes * count, collective.group, collective.role == "start",
        layer_of(weight), weight, collective.source, collective.op_name,
    )  # fmt: skip


def collectives_by_kind(rows: list[CollectiveRow]) -> dict[str, tuple[int, int]]:
    """(count, bytes) a step by kind, most bytes first."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for row in rows:
        counts[row.kind] += row.count
        sizes[row.kind] += row.bytes
    return {kind: (counts[kind], size) for kind, size in sizes.most_common()}


def schedule_warnings(runs: list[tuple[Schedule, int]]) -> list[str]:
    """What of a step's time is uncertain; `runs` are its programs' schedules with how often each runs."""
    found = []
    loops = [name for schedule, _ in runs for name in schedule.unknown_loops]
    if loops:
        names = ", ".join(loops[:3])
        found.append(f"{len(loops)} loops have no known trip count and are counted once: {names}")
    guessed = sum(schedule.guessed_ps * count for schedule, count in runs)
    duration = sum(schedule.duration * count for schedule, count in runs)
    if guessed > GUESSED_SHARE * duration:
        found.append(
            f"{guessed / duration:.0%} of the step is ops without a compiler estimate, priced by FLOPs at the chip's "
            "peak or by bytes at its HBM's speed, whichever takes longer: no op is faster, so the step takes longer, "
            "as far as its custom calls state their work"
        )
    kernels = sum(schedule.guessed.get(KERNEL, 0) * count for schedule, count in runs)
    if kernels:
        found.append(
            f"the compiler has no estimate for {kernels} Pallas kernel(s): their time is what the work they state "
            "takes at the chip's peak, or the products in their code where they state none (blocks that a mask skips "
            "are counted), or writing their results where there are none"
        )
    return found
