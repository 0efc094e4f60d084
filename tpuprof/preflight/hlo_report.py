"""What a program's HLO says without a capture: memory, products, collectives, kernels and padding."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from tpuprof.decode.hlo import HloModule
from tpuprof.decode.hlo_shape import HBM, Shape
from tpuprof.preflight.collectives import Collectives
from tpuprof.preflight.compiler import CompileOptions
from tpuprof.preflight.flops import KERNEL, computation_flops
from tpuprof.preflight.given import module_memory
from tpuprof.preflight.program_files import Program, complete
from tpuprof.units import GIGA, format_bytes

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "tpuprof.hlo/1"
OPTIMIZED_TPU, OPTIMIZED, UNOPTIMIZED = "optimized for a TPU", "optimized for another device", "not optimized"


@dataclass
class HloReport:
    """One program. Bytes are of one device; None is what this form of the program does not hold.

    `flops` counts matrix products, loops multiplied out. `padding_bytes` is what layouts add to arguments and outputs.
    `collectives` has count and bytes by kind: as written, a loop's body once. `estimated_cycles` is the compiler's.
    """

    name: str
    source: str
    state: str
    instructions: int
    flops: int | None
    memory_bytes: dict[str, int] | None
    padding_bytes: int | None
    collectives: dict[str, dict[str, int]]
    kernels: dict[str, int]
    estimated_cycles: int | None
    unavailable: dict[str, str]


def hlo_report(program: Program, options: CompileOptions | None = None) -> HloReport:
    """Read one program."""
    known = complete(program, options or CompileOptions())
    module = program.module
    state = UNOPTIMIZED if not program.optimized else OPTIMIZED_TPU if program.tpu else OPTIMIZED
    unavailable = {"time": "HLO holds no time: tpuprof preflight predicts one for a slice (--tpu)"}
    memory = module_memory(module) if program.optimized else None
    if memory is None:
        unavailable["memory"] = (
            "the program is not scheduled: tpuprof preflight compiles it for a slice (--tpu)"
        )
        unavailable["padding"] = "the program has no layouts yet"
    else:
        unavailable["code"] = "a dump does not hold the machine code"
        del memory["generated_code"]
    if not known:
        unavailable["flops"] = (
            "jaxlib, which reads the windows of convolutions, is not installed or refuses them"
        )
    entry = [each.shape for each in module.entry.parameters()]
    root = module.entry.root
    return HloReport(
        program.name, program.source, state, sum(1 for _ in module.instructions()),
        computation_flops(module, module.entry) if known else None, memory,
        _padding([*entry, *([root.shape] if root is not None else [])]) if program.optimized else None,
        _collectives(module, program.partitions), _kernels(module), _cycles(module), unavailable,
    )  # fmt: skip


def report_dict(reports: list[HloReport]) -> dict[str, Any]:
    """Plain values for JSON."""
    return {"schema": SCHEMA, "programs": [asdict(each) for each in reports]}


def render_reports(reports: list[HloReport], console: Console) -> None:
    """The programs for a terminal, the largest first."""
    for each in reports:
        console.print(f"[bold]{escape(each.name)}[/] ({escape(each.source)}), {each.state}", soft_wrap=True)
        products = f", {each.flops / GIGA:,.3g} GFLOP in matrix products" if each.flops is not None else ""
        console.print(f"  {each.instructions} instructions{products}")
        if each.memory_bytes is not None:
            parts = ", ".join(
                f"{kind} {format_bytes(size)}" for kind, size in each.memory_bytes.items() if size
            )
            where = "HBM" if each.state == OPTIMIZED_TPU else "memory"
            console.print(
                f"  {where}: {parts or 'nothing'}; layouts pad {format_bytes(each.padding_bytes or 0)} of it"
            )
        for kind, row in each.collectives.items():
            console.print(f"  {row['count']} {kind} of {format_bytes(row['bytes'])} in all")
        for target, count in each.kernels.items():
            console.print(f"  {count} custom call(s) of {escape(target)}")
        if each.estimated_cycles is not None:
            console.print(f"  the compiler's estimate: {each.estimated_cycles:,} cycles, loops counted once")
        for what, why in each.unavailable.items():
            console.print(f"  {what} unavailable: {why}", soft_wrap=True)


def _padding(shapes: list[Shape]) -> int:
    leaves = [leaf for shape in shapes for leaf in shape.leaves() if leaf.memory_space == HBM]
    return sum(leaf.padded_bytes - leaf.bytes for leaf in leaves)


def _collectives(module: HloModule, devices: int) -> dict[str, dict[str, int]]:
    """Those that run, each once: the fusion or call that holds one counts, and not what is inside it."""
    finder = Collectives(module, devices)
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    inside = finder.within() | set(module.fused_names)
    for computation in module.computations.values():
        if computation.name in inside:
            continue
        for each in computation:
            found = finder.of(each)
            if found is not None and found.role in ("sync", "start"):
                counts[found.kind] += 1
                sizes[found.kind] += found.bytes
    return {kind: {"count": count, "bytes": sizes[kind]} for kind, count in counts.most_common()}


def _kernels(module: HloModule) -> dict[str, int]:
    targets = Counter(
        each.custom_call_target for each in module.instructions() if each.opcode == "custom-call"
    )
    named = {
        (f"{KERNEL} (Pallas)" if target == KERNEL else target): count for target, count in targets.items()
    }
    return {target: count for target, count in sorted(named.items()) if target}


def _cycles(module: HloModule) -> int | None:
    known = [
        cycles
        for computation in module.computations.values()
        if computation.name not in module.fused_names
        for each in computation
        if (cycles := each.estimated_cycles) is not None
    ]
    return sum(known) if known else None
