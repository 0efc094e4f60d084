"""What an op's HLO line says of its efficiency, without its times: padding, a matmul's type, a kernel's name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tpuprof.decode.custom_calls import BOOKKEEPING
from tpuprof.decode.hlo_shape import parse_shape
from tpuprof.model.device.op_kind import ARRAY, HOST_MEMORY, OpKind, is_matmul, opcode
from tpuprof.model.device.upcast import writes_upcast
from tpuprof.model.intervals import Int64

if TYPE_CHECKING:
    from tpuprof.model.device.activity import OpNames
    from tpuprof.model.device.fusions import Fused

FLOAT32 = "f32"
# Types that are converted on their way into a product with a narrower one.
FLOATS = (FLOAT32, "f64")
# Ops that read or write rows of a table by their numbers.
LOOKUPS = ("gather", "scatter")
_LAYOUT_CATEGORIES = ("copy", "data formatting", "transpose", "reshape")
_LAYOUT_OPCODES = ("copy", "transpose")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
# Looked up once: Python 3.11 looks for members of an enumeration in a slow way, and here it is done for each op.
_COMPUTE, _CONTAINER = OpKind.COMPUTE, OpKind.CONTAINER


class OpFacts(NamedTuple):
    """One op. `label` is its category, else its opcode.

    `padded` is the bytes of its arrays of at least two dimensions as they are laid out in tiles, `values` the bytes
    of their values; both are 0 where it has none. `matmul_type` is the element type a matmul reads, `kernel` a
    custom call's own name; both are empty for other ops. `layout_copy` is whether it only moves data about, `upcast`
    whether it writes a bfloat16 array out again as float32, None where no HLO line tells; `looks_up` whether it gathers
    or scatters rows of a table, None without a line and for a fusion whose program is unknown. `unclear` is whether a
    wait for the host may be for a Python callback or for another slice. `repeated` is on how many devices the op
    computes the same, None where its program is unknown or of one device. `double` is whether it computes in double
    precision, None where its program is unknown, and `double_from` where those doubles begin.
    """

    label: str
    matmul: bool
    matmul_type: str
    kernel: str
    layout_copy: bool
    padded: int
    values: int
    upcast: bool | None
    looks_up: bool | None
    unclear: bool = False
    repeated: int | None = None
    double: bool | None = None
    double_from: str = ""


class _Array(NamedTuple):
    """An array of an HLO line. `padded` is its bytes as laid out, 0 below two dimensions or without tiles."""

    element_type: str
    rank: int
    bytes: int
    padded: int


def facts_of(ops: OpNames) -> tuple[list[OpFacts], Int64]:
    """The different facts of a table of ops, and which of them each op has.

    Ops have the same where their lines, their kinds and what their programs say of them are the same.
    """
    inside: dict[Fused | None, int] = {None: 0}
    repeated: dict[int | None, int] = {None: 0}
    doubles: dict[str | None, int] = {}
    fused, unclear, same, double = np.zeros((4, len(ops)), np.int64)
    for row, each in ops.fused.items():
        fused[row] = inside.setdefault(each, len(inside))
    for row, devices in ops.repeated.items():
        same[row] = repeated.setdefault(devices, len(repeated))
    for row, begin in ops.doubles.items():
        double[row] = doubles.setdefault(begin, len(doubles)) + 1
    unclear[list(ops.unclear)] = 1
    key = ((ops.lines.of * len(OpKind) + ops.kind) * len(inside) + fused) * 2 + unclear
    key = (key * len(repeated) + same) * (len(doubles) + 1) + double
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    kinds = {int(kind): kind for kind in OpKind}
    found: dict[OpFacts, int] = {}
    numbers = []
    for row in first.tolist():
        kind = kinds[int(ops.kind[row])]
        facts = op_facts(ops.name[row], ops.long_name[row], ops.category[row], kind, ops.fused.get(row))
        facts = facts._replace(
            unclear=row in ops.unclear,
            repeated=ops.repeated.get(row),
            double=ops.doubles[row] is not None if row in ops.doubles else None,
            double_from=ops.doubles.get(row) or "",
        )
        numbers.append(found.setdefault(facts, len(found)))
    return list(found), np.array(numbers, np.int64)[of]


def op_facts(name: str, long_name: str, category: str, kind: OpKind, fused: Fused | None = None) -> OpFacts:
    """What the line of one op says; a line that holds other ops, a loop, says nothing of its own efficiency.

    `fused` is what the program says of a fusion, None where it is unknown.
    """
    code = opcode(long_name, name)
    label, matmul = category or code, is_matmul(category, long_name, name)
    if kind == _CONTAINER:
        return OpFacts(label, matmul, "", "", False, 0, 0, None, None)
    arrays = [_array(text) for text in ARRAY.findall(long_name)]
    multiplied = fused.multiplied if fused is not None else ""
    return OpFacts(
        label=label,
        matmul=matmul,
        matmul_type=(multiplied or _matmul_type(code, long_name, arrays)) if matmul else "",
        kernel=_kernel(code, name, long_name, category),
        layout_copy=_is_layout_copy(code, long_name, category, kind),
        padded=sum([each.padded for each in arrays]),
        values=sum([each.bytes for each in arrays if each.padded]),
        upcast=_upcast(name, long_name, category, kind),
        looks_up=_looks_up(code, long_name, category, kind, fused, matmul=matmul),
    )


@lru_cache(maxsize=65_536)
def _array(text: str) -> _Array:
    shape = parse_shape(text)
    rank, size = len(shape.dimensions), shape.bytes
    padded = shape.padded_bytes if shape.tiles and rank >= 2 and size else 0
    return _Array(shape.element_type, rank, size, padded)


def _matmul_type(code: str, long_name: str, arrays: list[_Array]) -> str:
    """Element type that a matmul reads, by its two largest float operands; empty where the line does not tell."""
    head, _, rest = long_name.partition(code + "(")
    results = len(ARRAY.findall(head)) if rest else 0
    operands = [each for each in arrays[results:] if each.element_type.startswith(("f", "bf"))]
    largest = sorted((each for each in operands if each.rank >= 2), key=lambda each: -each.bytes)[:2]
    found = narrower([each.element_type for each in largest])
    # A fusion that reads float32 and writes bfloat16 converts: before it multiplies, or after.
    if found in FLOATS and code == "fusion":
        written = [each for each in arrays[:results] if each.rank >= 2 and each.element_type == "bf16"]
        return "" if written else found
    return found


def narrower(types: list[str]) -> str:
    """What a pair of operands is multiplied in: the wider one is converted on its way in. Empty without a float."""
    floats = {each for each in types if each.startswith(("f", "bf"))}
    return min(floats, key=lambda each: (each in FLOATS, each), default="")


def _kernel(code: str, name: str, long_name: str, category: str) -> str:
    """A custom call's own name: a Pallas kernel's op carries the kernel's name, other targets their own.

    Empty for calls by which the compiler keeps its books.
    """
    if code != "custom-call" and category != "custom-call":
        return ""
    target = _TARGET.search(long_name)
    if target and target.group(1) != "tpu_custom_call":
        return "" if target.group(1) in BOOKKEEPING else target.group(1)
    return name.rstrip("0123456789").rstrip(".-") or name


def _upcast(name: str, long_name: str, category: str, kind: OpKind) -> bool | None:
    if " = " not in long_name:
        return None
    return kind == _COMPUTE and writes_upcast(long_name, name, category)


def _looks_up(
    code: str, long_name: str, category: str, kind: OpKind, fused: Fused | None, *, matmul: bool
) -> bool | None:
    if kind != _COMPUTE:
        return False
    if code in LOOKUPS or category.lower() in LOOKUPS:
        return True
    if " = " not in long_name:
        return None
    if code == "fusion" and not matmul:
        return fused.looks_up if fused is not None else None
    return False


def _is_layout_copy(code: str, long_name: str, category: str, kind: OpKind) -> bool:
    """Whether an op moves data about on the device without computing: copies to other memories are not meant."""
    if kind != _COMPUTE or HOST_MEMORY in long_name:
        return False
    if code.startswith("copy-"):
        return False
    return code in _LAYOUT_OPCODES or category.lower() in _LAYOUT_CATEGORIES
