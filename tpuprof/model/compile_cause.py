"""What changed between a graph that was compiled and the nearest graph before it.

Both programs are compared as the trace embeds them, after optimization: their inputs first (a batch of another
length, another dtype, another number of inputs), then how inputs are sharded, then constants baked into the
graph (a learning rate, a step counter), then the ops themselves. Inputs are compared as a collection, because
their order may change with the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tpuprof.decode.hlo import HloModule, Instruction

Item = TypeVar("Item")
_Type = tuple[str, tuple[int, ...]]

# Changes named in a detail text; more are counted (items).
_SHOWN = 3
# Ops that come and go with layouts and fusion decisions and say nothing of the user's program.
_INCIDENTAL = frozenset(
    {"bitcast", "copy", "parameter", "tuple", "get-tuple-element", "fusion", "transpose", "reshape"}
)


@dataclass(frozen=True)
class CompileCause:
    """Why a graph was compiled: kind is first, shape, dtype, sharding, constant, graph or unknown.

    `source` is `file:line` of an op that uses what changed, empty where the programs carry no source lines.
    """

    kind: str
    detail: str
    source: str = ""


def explain(program: str, earlier: list[str], protos: Mapping[str, bytes]) -> CompileCause:
    """Why `program` was compiled, given the programs there were `earlier` and the serialized HLO of each."""
    if not program:
        return CompileCause("unknown", "unavailable: the compiled graph did not run inside the capture")
    if program not in protos:
        return CompileCause("unknown", "unavailable: the capture holds no HLO of the compiled graph")
    known = [name for name in earlier if name in protos]
    if not known:
        return CompileCause(
            "first", "the first graph of the capture: there is none before it to compare with"
        )
    pair = with_nearest(program, known, protos)
    if pair is None:
        return CompileCause("unknown", "unavailable: the HLO in the capture is damaged")
    return compare(*pair)


def with_nearest(
    program: str, earlier: list[str], protos: Mapping[str, bytes]
) -> tuple[HloModule, HloModule] | None:
    """A program and that of the earlier ones which differs least from it; None where either cannot be read."""
    new = _parse(protos[program]) if program in protos else None
    candidates = [
        module for name in earlier if name in protos and (module := _parse(protos[name])) is not None
    ]
    if new is None or not candidates:
        return None
    return new, min(candidates, key=lambda old: _distance(new, old))


def compare(new: HloModule, old: HloModule) -> CompileCause:
    """The first difference, in the order of the module's docstring, that tells two programs apart."""
    return (
        _inputs(new, old)
        or _shardings(new, old)
        or _constants(new, old)
        or _ops(new, old)
        or CompileCause("unknown", "the two programs have the same inputs, constants and ops")
    )


def _parse(data: bytes) -> HloModule | None:
    """The module inside a trace's serialized HloProto, None where it is damaged."""
    from google.protobuf.message import DecodeError

    from tpuprof.decode import hlo_pb2
    from tpuprof.decode.hlo_proto import from_proto

    try:
        return from_proto(hlo_pb2.HloProto.FromString(data).hlo_module)
    except DecodeError:
        return None


def _distance(new: HloModule, old: HloModule) -> int:
    inputs = _difference(_types(new), _types(old))
    ops = _difference(_opcodes(new), _opcodes(old))
    return 10 * sum(map(len, inputs)) + sum(map(len, ops))


def _inputs(new: HloModule, old: HloModule) -> CompileCause | None:
    added, removed = _difference(_types(new), _types(old))
    if not added and not removed:
        return None
    if len(new.entry.parameters()) != len(old.entry.parameters()):
        counts = f"{len(new.entry.parameters())} inputs, the graph before it {len(old.entry.parameters())}"
        return CompileCause("graph", f"it takes {counts}")
    pairs = _pair(removed, added)
    kind = "dtype" if all(before[1] == after[1] for before, after in pairs) else "shape"
    changes = [f"{_typed(before)} became {_typed(after)}" for before, after in pairs]
    noun = "an input" if len(pairs) == 1 else f"{len(pairs)} inputs"
    return CompileCause(kind, f"{noun} changed: {_list(changes)}", _use_of(old, pairs[0][0]))


def _pair(removed: list[_Type], added: list[_Type]) -> list[tuple[_Type, _Type]]:
    """Match what went with what came: same shape first, then same dtype and rank, then whatever is left."""
    left: list[_Type] = list(added)
    pairs: list[tuple[_Type, _Type]] = []
    rules: tuple[Callable[[_Type, _Type], bool], ...] = (
        lambda a, b: a[1] == b[1],
        lambda a, b: a[0] == b[0] and len(a[1]) == len(b[1]),
        lambda _a, _b: True,
    )
    waiting = list(removed)
    for rule in rules:
        for before in list(waiting):
            after = next((each for each in left if rule(before, each)), None)
            if after is not None:
                pairs.append((before, after))
                left.remove(after)
                waiting.remove(before)
    return pairs


def _shardings(new: HloModule, old: HloModule) -> CompileCause | None:
    def of(module: HloModule) -> Counter[str]:
        return Counter(each.attributes.get("sharding", "") for each in module.entry.parameters())

    added, removed = _difference(of(new), of(old))
    if not added and not removed:
        return None
    changes = [
        f"{before or 'none'} became {after or 'none'}" for before, after in zip(removed, added, strict=False)
    ]
    return CompileCause("sharding", f"the sharding of inputs changed: {_list(changes)}")


def _constants(new: HloModule, old: HloModule) -> CompileCause | None:
    if any(_difference(_opcodes(new), _opcodes(old))):
        return None
    added, removed = _difference(_literals(new), _literals(old))
    if not added or not removed:
        return None
    changes = [f"{before} became {after}" for before, after in zip(removed, added, strict=False)]
    noun = "a constant" if len(changes) == 1 else f"{len(changes)} constants"
    return CompileCause("constant", f"{noun} baked into the graph changed: {_list(changes)}")


def _ops(new: HloModule, old: HloModule) -> CompileCause | None:
    added, removed = (Counter(each) for each in _difference(_opcodes(new), _opcodes(old)))
    parts = [f"{count} more {name}" for name, count in added.most_common()]
    parts += [f"{count} fewer {name}" for name, count in removed.most_common()]
    if not parts:
        return None
    return CompileCause("graph", f"the ops changed: {_list(parts)}", _source_of_new(new, added))


def _source_of_new(new: HloModule, added: Counter[str]) -> str:
    """A source line of an op of a kind that was added, where the program has any."""
    return next((each.source for each in new.instructions() if each.opcode in added and each.source), "")


def _use_of(module: HloModule, wanted: _Type) -> str:
    """A source line of an op that uses an input of that type."""
    for parameter in module.entry.parameters():
        if _type(parameter) == wanted:
            users = [each for each in module.entry if parameter.name in each.operands]
            inner = [
                each
                for user in users
                for name in user.called_names()
                for each in module.computations.get(name, ())
            ]
            found = next((each.source for each in [*users, *inner] if each.source), "")
            if found:
                return found
    return ""


def _types(module: HloModule) -> Counter[_Type]:
    return Counter(_type(each) for each in module.entry.parameters())


def _type(parameter: Instruction) -> _Type:
    return parameter.shape.element_type, parameter.shape.dimensions


def _opcodes(module: HloModule) -> Counter[str]:
    return Counter(each.opcode for each in module.instructions() if each.opcode not in _INCIDENTAL)


def _literals(module: HloModule) -> Counter[str]:
    return Counter(
        each.literal for each in module.instructions() if each.opcode == "constant" and each.literal
    )


def _difference(new: Counter[Item], old: Counter[Item]) -> tuple[list[Item], list[Item]]:
    return list((new - old).elements()), list((old - new).elements())


def _typed(each: _Type) -> str:
    return f"{each[0]}[{','.join(map(str, each[1]))}]"


def _list(changes: list[str]) -> str:
    more = f", and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return ", ".join(changes[:_SHOWN]) + more
