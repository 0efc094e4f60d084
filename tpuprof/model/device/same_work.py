"""Ops in which every device of a program computes the same: a value that is whole on each was not split over them.

The compiled program tells. Inputs carry their sharding, and a value is the same on all devices where all that it is
made of is: inputs that are replicated, and what an all-gather or all-reduce over all devices gives. What is computed of
activations that were gathered is the same work on each device, product or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from tpuprof.decode.hlo import PRODUCTS
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.decode.replica_groups import group_size
from tpuprof.errors import TpuprofError
from tpuprof.model.device.activity import DeviceActivity

if TYPE_CHECKING:
    from tpuprof.decode.hlo import Computation, HloModule, Instruction

# What is known of a value: the same on all devices, the same and made of a product that all of them computed, not the
# same, or not the same and made of a product. Of several the largest counts. A value of several parts has one of these
# for each.
_SAME, _REPEATED, _DIFFERS, _DIFFERS_MADE = range(4)
_Value: TypeAlias = "int | tuple[_Value, ...]"
REPLICATED = "{replicated}"
# Gives each device something else, or what nothing tells.
_VARY = frozenset(
    {
        "partition-id", "replica-id", "infeed", "recv", "recv-done", "rng", "rng-get-and-update-state", "all-to-all",
        "ragged-all-to-all", "collective-permute", "collective-permute-start",
    }
)  # fmt: skip
_GATHERS = ("all-gather", "all-gather-start")
_GATHERS_OR_SUMS = frozenset({*_GATHERS, "all-reduce", "all-reduce-start"})
# Instructions that compute nothing.
_NOTHING_MADE = frozenset(
    {*_GATHERS_OR_SUMS, "all-gather-done", "all-reduce-done", "parameter", "constant", "iota"}
)
# The same without gathers: those of activations are repeated.
_NO_WORK = _NOTHING_MADE.difference(_GATHERS)
# Custom calls: those that multiply, and those that call the host, which may answer each device otherwise.
_MULTIPLIES = re.compile(r"matmul|gemm|conv|dot", re.IGNORECASE)
_ASKS_HOST = re.compile(r"callback|host", re.IGNORECASE)
_CALLS = ("call", "fusion", "async-start")
# How deep computations call one another at most (computations): real ones some five.
NESTED_AT_MOST = 32


def note_same_work(devices: Iterable[DeviceActivity], protos: Mapping[str, bytes]) -> None:
    """Note on how many devices an op computes the same, 0 where it does not.

    Nothing is noted of ops whose program is unknown, or of one device.
    """
    done: list[dict[int, int]] = []
    for device in devices:
        ops = device.ops
        if any(ops.repeated is each for each in done):
            continue  # devices of one program share what is known of its ops
        done.append(ops.repeated)
        rows: dict[str, list[int]] = {}
        for row, program in enumerate(ops.program):
            rows.setdefault(program, []).append(row)
        for program in protos.keys() & rows.keys():
            count, names = same_work(protos[program])
            if not count:
                continue
            for row in rows[program]:
                ops.repeated[row] = count if ops.name[row] in names else 0


@lru_cache(maxsize=PROGRAMS_KEPT)
def same_work(data: bytes) -> tuple[int, frozenset[str]]:
    """How many devices a program is split over, and the ops in which each of them computes the same."""
    from tpuprof.decode.hlo_proto import from_proto, split_program

    split = split_program(data)
    if split is None:
        return 0, frozenset()
    message, count = split
    try:
        return count, repeated_ops(from_proto(message), count)
    except TpuprofError:
        return 0, frozenset()


def repeated_ops(module: HloModule, devices: int) -> frozenset[str]:
    """The ops of a program of so many devices in which each of them computes the same.

    Such ops multiply, or compute on with a product, or with activations that were gathered, or only make what such a
    product takes in: layouts and casts of a batch that is whole. The gathers of activations are among them: what they
    give is whole on each. What follows from gradients that were summed, as the update of weights that all devices keep,
    is not meant.
    """
    states = _Followed(module, devices).states
    repeated = {name for name, state in states.items() if state == _REPEATED}
    repeated -= {each.name for each in module.instructions() if each.opcode in _NO_WORK}
    return frozenset(repeated | _made_for(module, states))


def _made_for(module: HloModule, states: Mapping[str, int]) -> set[str]:
    """Ops before repeated products whose results go nowhere else. What the program returns is for others as well."""
    entry = module.entry
    users: dict[str, list[Instruction]] = {}
    for each in entry:
        for name in each.operands:
            users.setdefault(name, []).append(each)
    found: set[str] = set()
    for each in reversed(list(entry)):
        into = users.get(each.name, [])
        made = states.get(each.name) == _SAME and each.opcode not in _NOTHING_MADE
        if made and into and all(_repeats(user, states) or user.name in found for user in into):
            found.add(each.name)
            # XLA's CPU compiler calls a computation for an op that several threads share.
            called = each.called_names() if each.opcode in _CALLS else ()
            found |= {name for one in called for name in _names(module.computations.get(one))}
    return found


def _names(computation: Computation | None) -> set[str]:
    return {each.name for each in computation or () if each.opcode not in _NOTHING_MADE}


def _repeats(user: Instruction, states: Mapping[str, int]) -> bool:
    return states.get(user.name) == _REPEATED and user.opcode != "tuple"


class _Followed:
    """Follows the values of a program from its inputs on; `states` has the largest that each instruction ever has."""

    def __init__(self, module: HloModule, devices: int) -> None:
        self.states: dict[str, int] = {}
        self._module, self._devices = module, devices
        # What computations gave: a model calls one of them many times, with the same.
        self._known: dict[tuple[str, tuple[_Value, ...]], _Value] = {}
        inputs = module.entry.parameters()
        self._run(module.entry, [_input(each) for each in inputs], 0)

    def _run(self, computation: Computation | None, given: Sequence[_Value], depth: int) -> _Value:
        """What a computation gives where it is given these."""
        if computation is None or depth > NESTED_AT_MOST:
            return _DIFFERS
        asked = computation.name, tuple(given)
        if asked not in self._known:
            self._known[asked] = _DIFFERS  # where it calls itself
            self._known[asked] = self._read(computation, given, depth)
        return self._known[asked]

    def _read(self, computation: Computation, given: Sequence[_Value], depth: int) -> _Value:
        values: dict[str, _Value] = {}
        root: _Value = _DIFFERS
        for each in computation:
            operands = [values.get(name, _DIFFERS) for name in each.operands]
            value = self._value(each, operands, given, depth)
            values[each.name] = value
            self.states[each.name] = max(self.states.get(each.name, _SAME), _largest(value))
            if each.is_root:
                root = value
        return root

    def _value(
        self, each: Instruction, operands: list[_Value], given: Sequence[_Value], depth: int
    ) -> _Value:
        code, first = each.opcode, operands[0] if operands else _DIFFERS
        value: _Value
        if code == "parameter":
            value = _numbered(given, each.parameter_number or 0)
        elif code == "tuple":
            value = tuple(operands)
        elif code == "get-tuple-element":
            value = _part(first, int(each.attributes.get("index", 0)))
        elif code == "optimization-barrier" and len(operands) == 1:
            value = first
        elif code in _CALLS and each.called_names():
            value = self._run(self._module.computations.get(each.called_names()[0]), operands, depth + 1)
        elif code == "while":
            value = self._loop(each, first, depth)
        elif code == "conditional":
            value = self._branches(each, operands, depth)
        elif code in _GATHERS_OR_SUMS and self._over_all(each):
            # Of parameters and of sums of gradients each device computes on with the whole, too.
            activations = code in _GATHERS and _largest(tuple(operands)) == _DIFFERS_MADE
            value = _REPEATED if activations else _SAME
        else:
            value = _of_op(each, _largest(tuple(operands)))
        return value

    def _loop(self, each: Instruction, state: _Value, depth: int) -> _Value:
        """What a loop gives: what a turn changes is what the next one begins with."""
        body = self._module.called(each, "body")
        while True:
            after = _larger(state, self._run(body, [state], depth + 1))
            if after == state:
                return state
            state = after

    def _branches(self, each: Instruction, operands: list[_Value], depth: int) -> _Value:
        found: _Value = _SAME
        for name, given in zip(each.called_names(), operands[1:], strict=False):
            found = _larger(found, self._run(self._module.computations.get(name), [given], depth + 1))
        return _larger(found, _DIFFERS) if not operands or _largest(operands[0]) >= _DIFFERS else found

    def _over_all(self, each: Instruction) -> bool:
        """Whether a collective is one of all devices."""
        return group_size(each.attributes.get("replica_groups", ""), self._devices) == self._devices


def _input(parameter: Instruction) -> _Value:
    return _SAME if parameter.attributes.get("sharding") == REPLICATED else _DIFFERS


def _of_op(each: Instruction, largest: int) -> int:
    """What an op gives that computes with what it is given."""
    if each.opcode == "reduce-scatter":
        return _DIFFERS  # the sum of a gradient, which is gathered as a parameter is
    if each.opcode in _VARY:
        return max(largest, _DIFFERS)
    if each.opcode == "custom-call" and _ASKS_HOST.search(each.custom_call_target):
        return _DIFFERS
    if each.opcode in PRODUCTS or (
        each.opcode == "custom-call" and _MULTIPLIES.search(each.custom_call_target)
    ):
        return _DIFFERS_MADE if largest >= _DIFFERS else _REPEATED
    return largest


def _largest(value: _Value) -> int:
    if isinstance(value, int):
        return value
    return max(map(_largest, value), default=_SAME)


def _part(value: _Value, index: int) -> _Value:
    return value if isinstance(value, int) else _numbered(value, index)


def _numbered(values: Sequence[_Value], index: int) -> _Value:
    return values[index] if index < len(values) else _DIFFERS


def _larger(one: _Value, other: _Value) -> _Value:
    """Of two that stand for each other the larger, part by part."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return tuple(_larger(*parts) for parts in zip(one, other, strict=True))
    if isinstance(one, int) and isinstance(other, int):
        return max(one, other)
    if isinstance(one, tuple) and isinstance(other, int):
        return tuple(_larger(part, other) for part in one)
    if isinstance(other, tuple) and isinstance(one, int):
        return tuple(_larger(one, part) for part in other)
    return _DIFFERS
