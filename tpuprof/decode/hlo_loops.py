"""How often a counted `while` loop runs, read from its condition, its start value and its step."""

from __future__ import annotations

from tpuprof.decode.hlo import Computation, HloModule, Instruction, through_copies

_UP = frozenset({"LT", "LE", "NE"})
_DOWN = frozenset({"GT", "GE", "NE"})


def counted_trips(module: HloModule, loop: Instruction, within: Computation) -> int | None:
    """Number of times the body of `loop` (an instruction of `within`) runs; None where it is not a counted loop.

    Of several comparisons that must all hold, the one that ends the loop first counts.
    """
    condition, body = module.called(loop, "condition"), module.called(loop, "body")
    if condition is None or body is None or not loop.operands:
        return None
    counts = []
    for index, direction, limit in _comparisons(module, condition):
        start = _tuple_constant(within, loop.operands[0], index)
        step = _step(module, body, index)
        trips = _count(start, limit, step, direction) if start is not None and step is not None else None
        if trips is not None:
            counts.append(trips)
    return min(counts, default=None)


def _count(start: int, limit: int, step: int, direction: str) -> int | None:
    distance = limit - start if step > 0 else start - limit
    if direction not in (_UP if step > 0 else _DOWN):
        return None
    trips = distance // abs(step) + 1 if direction in ("LE", "GE") else -(-distance // abs(step))
    return max(trips, 0)


def _comparisons(module: HloModule, condition: Computation) -> list[tuple[int, str, int]]:
    """(tuple index of the counter, direction, limit) of each `counter < constant` and its kin in a condition."""
    found = []
    for each in condition:
        inner, compares = condition, [each]
        if each.opcode in ("fusion", "call"):
            inner = module.called(each, "calls") or module.called(each, "to_apply") or condition
            compares = list(inner)
        for compare in compares:
            if compare.opcode == "compare" and len(compare.operands) == 2:
                read = _comparison(condition, inner, each, compare)
                if read is not None:
                    found.append(read)
    return found


def _comparison(
    condition: Computation, inner: Computation, caller: Instruction, compare: Instruction
) -> tuple[int, str, int] | None:
    direction = compare.attributes.get("direction", "")
    left, right = (_resolve(condition, inner, caller, name) for name in compare.operands)
    if isinstance(left, int) and isinstance(right, Instruction):
        left, right, direction = right, left, _FLIPPED.get(direction, "")
    if isinstance(left, Instruction) and isinstance(right, int) and left.opcode == "get-tuple-element":
        return int(left.attributes.get("index", -1)), direction, right
    return None


_FLIPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE", "EQ": "EQ"}


def _resolve(
    outer: Computation, inner: Computation, caller: Instruction, name: str
) -> Instruction | int | None:
    """A constant's value, or the instruction of `outer` that gives the value `name` has inside `inner`."""
    found = through_copies(inner, name)
    if found is not None and inner is not outer and found.opcode == "parameter":
        number = found.parameter_number or 0
        found = through_copies(outer, caller.operands[number]) if number < len(caller.operands) else None
    if found is not None and found.opcode == "constant":
        return _integer(found)
    return found


def _tuple_constant(computation: Computation, name: str, index: int) -> int | None:
    made = through_copies(computation, name)
    if made is None or made.opcode != "tuple" or not 0 <= index < len(made.operands):
        return None
    value = through_copies(computation, made.operands[index])
    return _integer(value) if value and value.opcode == "constant" else None


def _step(module: HloModule, body: Computation, index: int) -> int | None:
    """How much the counter moves each time round: `counter + constant`, alone or in a fusion."""
    root = body.root
    if root is None or root.opcode != "tuple" or not 0 <= index < len(root.operands):
        return None
    update = through_copies(body, root.operands[index])
    if update is None:
        return None
    inner, caller, made = body, update, update
    if update.opcode in ("fusion", "get-tuple-element"):
        found = _inside_fusion(module, body, update)
        if found is None:
            return None
        inner, caller, made = found
    if made.opcode not in ("add", "subtract"):
        return None
    values = [_resolve(body, inner, caller, name) for name in made.operands]
    constants = [value for value in values if isinstance(value, int)]
    if len(constants) != 1 or constants[0] == 0:
        return None
    return -constants[0] if made.opcode == "subtract" else constants[0]


def _inside_fusion(
    module: HloModule, body: Computation, update: Instruction
) -> tuple[Computation, Instruction, Instruction] | None:
    """(fused computation, fusion, instruction that makes the value) of a value a fusion gives."""
    fusion, position = update, 0
    if update.opcode == "get-tuple-element":
        maker = through_copies(body, update.operands[0])
        if maker is None:
            return None
        fusion, position = maker, int(update.attributes.get("index", 0))
    inner = module.called(fusion, "calls")
    root = inner.root if inner else None
    if inner is None or root is None:
        return None
    if root.opcode == "tuple":
        name = root.operands[position] if position < len(root.operands) else ""
        made = through_copies(inner, name)
    else:
        made = root
    return (inner, fusion, made) if made is not None else None


def _integer(instruction: Instruction) -> int | None:
    try:
        return int(instruction.literal or "")
    except ValueError:
        return None
