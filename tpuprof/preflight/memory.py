"""What a compiled program needs of a chip's memory, by kind, with the buffers that take most of it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tpuprof.decode.hlo import Computation, HloModule, Instruction, through_copies
from tpuprof.decode.hlo_shape import HBM
from tpuprof.preflight.graphs import Graph
from tpuprof.preflight.targets import Target

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = r"([\d.]+)([KMGT]?)"
_USED = re.compile(rf"Used {_SIZE}\w* of {_SIZE}\w* hbm")
_EXCEEDED = re.compile(rf"[Ee]xceeded hbm capacity by {_SIZE}")
_AVAILABLE = re.compile(rf"\({_SIZE}\w*\) exceeds available HBM \({_SIZE}")
# Memory of the core itself, beside the HBM. Every slice of a chip has the same.
_ON_CHIP = re.compile(
    r"[Rr]an out of memory in memory space (vmem|smem|cmem)|scoped (vmem) limit", re.IGNORECASE
)
_SCOPED = re.compile(rf"Scoped allocation with size {_SIZE}\w* and limit {_SIZE}")
_OUTPUT = re.compile(rf"Output size {_SIZE}\w*; shares {_SIZE}")
_ARGUMENTS = re.compile(rf"arguments\s+{_SIZE}")
_BUFFER = re.compile(rf"^\s+\d+\. Size: {_SIZE}", re.MULTILINE)
_FIELD = {
    "shape": re.compile(r"Shape: (\S+)"),
    "op_name": re.compile(r'op_name="([^"]*)"'),
    "file": re.compile(r'source_file="([^"]*)"'),
    "line": re.compile(r"source_line=(\d+)"),
    "label": re.compile(r"XLA label: (\S+)"),
}
# Buffers named in a report; the compiler's own out-of-memory text lists about twenty.
LARGEST = 12
_VIEWS = frozenset(
    {"bitcast", "get-tuple-element", "tuple", "while", "conditional", "call", "optimization-barrier"}
)


@dataclass
class Buffer:
    """One buffer: bytes as laid out, what it is, and the source line of the op that makes it (empty if unknown)."""

    kind: str
    name: str
    bytes: int
    shape: str
    source: str = ""
    op_name: str = ""


@dataclass
class Memory:
    """Bytes on one device. `total` is everything that must be in HBM at once; None where it is unavailable.

    `capacity` is the HBM the compiler lets a program use. `shortfall` is how far beyond it the program goes (0
    where it fits). `compiler_text` is the compiler's own refusal, empty where it accepted the program.
    """

    kinds: dict[str, int]
    capacity: int
    total: int | None
    shortfall: int
    buffers: list[Buffer] = field(default_factory=list)
    compiler_text: str = ""

    @property
    def fits(self) -> bool:
        """Whether the program runs in the chip's memory."""
        return self.shortfall == 0 and not self.compiler_text


def read_memory(stats: dict[str, int], module: HloModule, graph: Graph, target: Target) -> Memory:
    """Memory of a program the compiler accepted.

    HBM = arguments + outputs that take no argument's buffer + temporaries + code + the script's other tensors on the
    device (`resident`: a teacher, averaged weights, the next batch; without the device's padding). The compiler itself
    checks arguments and temporaries only, so a program may compile and still not fit with its outputs.
    """
    kinds = {
        "arguments": stats["argument"],
        "outputs": stats["output"],
        "aliased": stats["alias"],
        "temporaries": stats["temp"],
        "code": stats["generated_code"],
        "host": stats.get("host_argument", 0) + stats.get("host_output", 0) + stats.get("host_temp", 0),
    }
    total = kinds["arguments"] + kinds["outputs"] - kinds["aliased"] + kinds["temporaries"] + kinds["code"]
    if graph.resident:
        kinds["resident"] = resident_bytes(graph)
        total += kinds["resident"]
    capacity = target.chip.hbm_usable_bytes
    return Memory(kinds, capacity, total, max(0, total - capacity), largest_buffers(module, graph))


def on_chip_shortage(text: str) -> str:
    """What a refusal for want of on-chip memory (VMEM, SMEM) says; empty where it is HBM that is short."""
    found = _ON_CHIP.search(text)
    if found is None:
        return ""
    space, sizes = (found.group(1) or found.group(2)).upper(), _SCOPED.search(text)
    first, second, third, fourth = sizes.groups() if sizes else ("", "", "", "")
    needs = f": it needs {first} {second}iB of {third} {fourth}iB" if sizes else ""
    # The limit of one op is a flag's for VMEM alone.
    flag = ", or set LIBTPU_INIT_ARGS=--xla_tpu_scoped_vmem_limit_kib=N (N larger)" if space == "VMEM" else ""
    return (
        f"a kernel or fusion does not fit in the chip's {space}{needs}. HBM is not what is short. Give the kernel "
        f"smaller blocks{flag}."
    )


def read_refusal(text: str, graph: Graph, target: Target) -> Memory:
    """Memory of a program the compiler refused, from its RESOURCE_EXHAUSTED text.

    Older compilers (libtpu 0.0.21) count arguments and temporaries and list the largest temporaries; outputs that
    share no argument's buffer come on top. Newer ones (0.0.51) state the sum of all of it and list nothing.
    """
    used = _USED.search(text)
    available = _AVAILABLE.search(text)
    exceeded = _EXCEEDED.search(text)
    needed, capacity = None, target.chip.hbm_usable_bytes
    if used:
        needed, capacity = _bytes(used.group(1), used.group(2)), _bytes(used.group(3), used.group(4))
    elif available:
        needed, capacity = (
            _bytes(available.group(1), available.group(2)),
            _bytes(available.group(3), available.group(4)),
        )
    kinds: dict[str, int] = {}
    arguments, output = _ARGUMENTS.search(text), _OUTPUT.search(text)
    if arguments:
        kinds["arguments"] = _bytes(arguments.group(1), arguments.group(2))
        if needed is not None:
            kinds["temporaries"] = max(0, needed - kinds["arguments"])
    if output:
        kinds["outputs"] = _bytes(output.group(1), output.group(2))
        kinds["aliased"] = _bytes(output.group(3), output.group(4))
        if needed is not None:
            needed += kinds["outputs"] - kinds["aliased"]
    beside = resident_bytes(graph)
    if beside:
        kinds["resident"] = beside
    if needed is not None:
        needed += beside
    short = _bytes(exceeded.group(1), exceeded.group(2)) + beside if exceeded else 0
    shortfall = max(short, (needed or 0) - capacity, 1)
    named = [*_named_buffers(text), *_traced_arguments(graph), *_resident(graph)]
    buffers = sorted(named, key=lambda each: -each.bytes)[:LARGEST]
    return Memory(kinds, capacity, needed, shortfall, buffers, compiler_text=text)


def largest_buffers(module: HloModule, graph: Graph, count: int = LARGEST) -> list[Buffer]:
    """The largest arguments, outputs and temporaries of HBM, largest first.

    Temporaries are those alive at the moment when, by the schedule, most bytes are; the compiler's packing can
    differ a little.
    """
    found = [*_arguments(module, graph), *_outputs(module, graph), *_temporaries(module), *_resident(graph)]
    return sorted(found, key=lambda each: -each.bytes)[:count]


def resident_bytes(graph: Graph) -> int:
    """Bytes on one device of tensors that the graph does not use and that live while it runs."""
    return sum(int(each["bytes"]) for each in graph.resident)


def _resident(graph: Graph) -> list[Buffer]:
    return [
        Buffer(
            "other tensor", each["name"] or _unnamed(each.get("count", 1)), int(each["bytes"]),
            f"{each['dtype']}{each['shape']}",
        )
        for each in graph.resident
    ]  # fmt: skip


def _unnamed(count: int) -> str:
    return "a tensor without a name" if count == 1 else f"{count} tensors without a name"


def _arguments(module: HloModule, graph: Graph) -> list[Buffer]:
    found = []
    for each in module.entry.parameters():
        number = each.parameter_number or 0
        name = graph.parameter_names[number] if number < len(graph.parameter_names) else ""
        found.append(Buffer("argument", name or each.name, each.shape.bytes_in(HBM), str(each.shape)))
    return found


def _outputs(module: HloModule, graph: Graph) -> list[Buffer]:
    root = module.entry.root
    if root is None:
        return []
    taken = set(module.aliases.values())
    found = []
    for index, shape in enumerate(root.shape.elements or (root.shape,)):
        if index in taken:
            continue
        maker = module.entry.instructions.get(root.operands[index]) if root.opcode == "tuple" else root
        name = graph.output_names[index] if index < len(graph.output_names) else ""
        origin = through_copies(module.entry, maker.name) if maker is not None else None
        maker = origin or maker
        label = name or (f"result of {maker.op_name or maker.name}" if maker else f"output {index}")
        buffer = Buffer("output", label, shape.bytes_in(HBM), str(shape))
        if maker is not None:
            buffer.source, buffer.op_name = maker.source, maker.op_name
        found.append(buffer)
    return found


def _temporaries(module: HloModule) -> list[Buffer]:
    """HBM values alive when most bytes of them are, over the entry's schedule."""
    entry = module.entry
    order = {name: index for index, name in enumerate(entry.instructions)}
    kept = _kept(module)
    spans = []
    last = _last_uses(entry, order)
    for each in entry:
        size = _own_bytes(each)
        if size and each.name not in kept:
            spans.append((order[each.name], last.get(each.name, order[each.name]), size, each))
    peak = _peak(spans)
    alive = [span for span in spans if span[0] <= peak <= span[1]]
    return [
        Buffer("temporary", each.name, size, str(each.shape), each.source, each.op_name)
        for _, _, size, each in alive
    ]


def peak_bytes(module: HloModule) -> int:
    """Bytes of the temporaries that a program's schedule keeps alive at once; the compiler's packing may differ."""
    return sum(each.bytes for each in _temporaries(module))


def _peak(spans: list[tuple[int, int, int, Instruction]]) -> int:
    changes: dict[int, int] = {}
    for start, end, size, _ in spans:
        changes[start] = changes.get(start, 0) + size
        changes[end + 1] = changes.get(end + 1, 0) - size
    best, place, current = 0, 0, 0
    for index in sorted(changes):
        current += changes[index]
        if current > best:
            best, place = current, index
    return place


def _own_bytes(each: Instruction) -> int:
    """HBM bytes a value newly takes: 0 for views, parameters and starts of copies into other memories."""
    if each.opcode in _VIEWS or each.opcode in ("parameter", "constant") or each.opcode.endswith("-done"):
        return 0
    if each.opcode.endswith("-start"):
        parts = each.shape.elements
        return parts[0].bytes_in(HBM) if each.opcode == "copy-start" and parts else 0
    return each.shape.bytes_in(HBM)


def _kept(module: HloModule) -> set[str]:
    """Values that are outputs, and so no temporaries."""
    root = module.entry.root
    kept: set[str] = set()
    waiting = list(root.operands) if root is not None and root.opcode == "tuple" else []
    while waiting:
        name = waiting.pop()
        each = module.entry.instructions.get(name)
        if each is None or name in kept:
            continue
        kept.add(name)
        if each.opcode in ("bitcast", "get-tuple-element", "copy-done"):
            waiting.extend(each.operands[:1])
    return kept


def _last_uses(entry: Computation, order: dict[str, int]) -> dict[str, int]:
    """Last position at which a value is used, directly or through views of it."""
    last: dict[str, int] = {}
    for each in reversed(entry.instructions.values()):
        reach = last.get(each.name, order[each.name])
        through = each.opcode in _VIEWS or each.opcode.endswith("-start")
        for name in each.operands:
            last[name] = max(last.get(name, 0), reach if through else order[each.name])
    return last


def _traced_arguments(graph: Graph) -> list[Buffer]:
    """The inputs of the traced graph, each device's share where they are sharded, without the device's padding."""
    from tpuprof.decode.hlo_proto import parse_module_proto, shape_of

    module = parse_module_proto(graph.proto)
    entry = next(each for each in module.computations if each.id == module.entry_computation_id)
    found = []
    for each in entry.instructions:
        if each.opcode == b"parameter":
            shape = shape_of(each.shape)
            name = graph.parameter_names[each.parameter_number] if graph.parameter_names else ""
            share = shape.bytes // _shards(each.sharding.tile_assignment_dimensions, each.sharding)
            found.append(Buffer("argument", name or each.name.decode("utf-8", "replace"), share, str(shape)))
    return found


def _shards(dimensions: Sequence[int], sharding: Any) -> int:
    kept = list(dimensions)[:-1] if sharding.replicate_on_last_tile_dim else list(dimensions)
    return max(math.prod(kept), 1)


def _named_buffers(text: str) -> list[Buffer]:
    starts = [found.start() for found in _BUFFER.finditer(text)]
    found = []
    for start, end in pairwise([*starts, len(text)]):
        block = text[start:end]
        size = _BUFFER.search(block)
        fields = {key: match.group(1) for key, pattern in _FIELD.items() if (match := pattern.search(block))}
        source = f"{fields['file']}:{fields.get('line', 0)}" if "file" in fields else ""
        if size:
            found.append(
                Buffer("temporary", fields.get("label", ""), _bytes(size.group(1), size.group(2)),
                       fields.get("shape", ""), source, fields.get("op_name", ""))
            )  # fmt: skip
    return found[:LARGEST]


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])


def memory_dict(memory: Memory) -> dict[str, Any]:
    """Plain values for JSON."""
    return {
        "fits": memory.fits,
        "total_bytes": memory.total,
        "capacity_bytes": memory.capacity,
        "shortfall_bytes": memory.shortfall,
        "kinds_bytes": memory.kinds,
        "largest_buffers": [
            {
                "kind": b.kind,
                "name": b.name,
                "bytes": b.bytes,
                "shape": b.shape,
                "source": b.source,
                "op": b.op_name,
            }
            for b in memory.buffers
        ],
        "compiler_text": memory.compiler_text,
    }
