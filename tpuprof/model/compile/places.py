"""Where in the source a change between two programs is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.decode.hlo import Computation, HloModule, Instruction

# How far from a changed value a source line is looked for (ops).
_HOPS = 4
# Ops that only give a number another shape or type.
_SPREADS = frozenset({"broadcast", "convert", "bitcast", "reshape", "copy"})
_JOINS = "concatenate"
# Ops that come and go with layouts and fusion decisions and say nothing of the user's program. XLA's CPU compiler puts
# a call around an op that it gives to several threads.
INCIDENTAL = frozenset(
    {"bitcast", "call", "copy", "fusion", "get-tuple-element", "parameter", "reshape", "transpose", "tuple"}
)


def place_of(module: HloModule, wanted: str, key: Callable[[Instruction], str], other: HloModule) -> str:
    """A source line of an op of that key, else of an op that uses it: the first that has more of them than in `other`.

    A slice of a loop that did not change may have the same bounds as one that did. Where the other program has such
    ops too and tells no lines, nothing tells which of several lines it was.
    """
    here, there = (_places_of(each, wanted, key) for each in (module, other))
    if len(here) > 1 and not there and any(key(each) == wanted for each in other.instructions()):
        return ""
    return next(iter(here - there), next(iter(here), ""))


def _places_of(module: HloModule, wanted: str, key: Callable[[Instruction], str]) -> Counter[str]:
    """The source lines of ops of that key, in the program's order, and how many each has."""
    return Counter(
        found
        for computation in module.computations.values()
        for each in computation
        if key(each) == wanted and (found := source_of(each) or first_use(module, computation, each))
    )


def lines_with(module: HloModule, wanted: str, key: Callable[[Instruction], str]) -> Counter[str]:
    """The lines of ops of that key by what the program says of them, and how many ops each has.

    XLA shares a constant among the lines that use it, and says of each copy that it is of the first of them: then the
    uses tell the lines. A constant of one line that others use, as `torch.full` makes it, is of that line alone. Ops
    without a line, as those of a backward pass, are of none, wherever their results go.
    """
    found: Counter[str] = Counter()
    uses: Counter[str] = Counter()
    for computation in module.computations.values():
        for each in computation:
            if key(each) == wanted:
                found[source_of(each)] += 1
                uses.update(_lines_of_uses(module, computation, each) if each.opcode == "constant" else ())
    del found[""]
    return uses if uses and (not found or set(found) & set(uses)) else found


def _lines_of_uses(
    module: HloModule, computation: Computation, origin: Instruction, hops: int = _HOPS
) -> Iterator[str]:
    """The lines of the ops that use a value, through fusions and ops that only spread it."""
    for user in computation:
        if not hops or origin.name not in user.operands:
            continue
        if user.opcode == "fusion":
            for inner, given in _given(module, user, {origin.name}):
                for each in inner.parameters():
                    if each.name in given:
                        yield from _lines_of_uses(module, inner, each, hops - 1)
        elif place := source_of(user):
            yield place
        elif user.opcode in _SPREADS:
            yield from _lines_of_uses(module, computation, user, hops - 1)


def odd_place(one: HloModule, other: HloModule) -> str:
    """The source line with most ops in one program that the other has fewer of; empty where either tells no lines."""

    def lines(module: HloModule) -> Counter[str]:
        return Counter(
            place
            for each in module.instructions()
            if each.opcode not in INCIDENTAL and (place := source_of(each))
        )

    here, there = lines(one), lines(other)
    more = here - there
    if not there or not more:
        return ""
    # A line that only one program has says most; numbers on shared lines vary with fusion.
    return max(more, key=lambda place: (more[place] - 0.5 * there[place], place))


def first_use(module: HloModule, computation: Computation, origin: Instruction) -> str:
    """The first source line among the nearest ops that use a value, through fusions and up to a few ops away.

    Of a fusion, ops that work on the value come first: it computes other values as well.
    """
    names = {origin.name}
    for _ in range(_HOPS):
        users = _users(computation, names)
        inner = [used for user in users for used in _used_inside(module, user, names)]
        within = [
            each
            for user in users
            for name in user.called_names()
            for each in module.computations.get(name, ())
        ]
        for ops in ((*users, *inner), within):
            places = [place for each in ops if (place := source_of(each))]
            if places:
                return min(places, key=line_order)
        names = {each.name for each in users}
    return ""


def _users(computation: Computation, names: set[str]) -> list[Instruction]:
    return [each for each in computation if names.intersection(each.operands)]


def _used_inside(module: HloModule, user: Instruction, names: set[str]) -> list[Instruction]:
    """The nearest ops with a source line that use one of these values inside a fusion; empty where `user` is none."""
    for inner, given in _given(module, user, names):
        reached = given
        for _ in range(_HOPS):
            users = _users(inner, reached)
            if any(map(source_of, users)):
                return users
            reached = {each.name for each in users}
    return []


def _given(module: HloModule, user: Instruction, names: set[str]) -> Iterator[tuple[Computation, set[str]]]:
    """What a fusion computes, and how those of these values that it is given are named in there."""
    if user.opcode != "fusion":
        return
    for inner in (module.computations[name] for name in user.called_names() if name in module.computations):
        given = zip(user.operands, inner.parameters(), strict=False)
        yield inner, {parameter.name for operand, parameter in given if operand in names}


def joined_at(module: HloModule, parameter: Instruction) -> str:
    """The source line of an op that joins an input with another array, as `torch.cat([bank, new])`; else empty.

    Where such an input grows, it does so there: other lines only use it.
    """
    for user in module.entry:
        if parameter.name not in user.operands:
            continue
        if user.opcode == _JOINS:
            return source_of(user)
        for inner, given in _given(module, user, {parameter.name}):
            for each in inner:
                if each.opcode == _JOINS and given.intersection(each.operands) and source_of(each):
                    return source_of(each)
    return ""


def source_of(each: Instruction) -> str:
    """The source line of an op, the user's own where it is known."""
    return each.user_source or each.source


def line_order(place: str) -> tuple[str, int]:
    """A place by its file and its line."""
    file, _, line = place.rpartition(":")
    return file, int(line) if line.isdigit() else 0
