"""Which ops of programs compute nothing but gradients that no optimizer uses.

Such gradients are added up from step to step (gradient_sums.py). Which of these sums they are is known by dimensions
and number: of more sums than gradients of the same dimensions all bound the work from above. The ops are those that are
dead code without these results, as XLA itself drops work without a reader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tpuprof.decode.hlo import PRODUCTS
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.errors import TpuprofError
from tpuprof.model.device.gradient_sums import Dims, Sum, summed_results
from tpuprof.model.device.live_code import live_names
from tpuprof.records import record

if TYPE_CHECKING:
    from tpuprof.decode.hlo import HloModule, Instruction


# What custom calls that multiply are called.
_MULTIPLIES = re.compile(r"matmul|gemm|conv|dot", re.IGNORECASE)


@record(frozen=True)
class UnusedWork:
    """Ops of a host's programs, each as program and op: `sure` ones are dead without these gradients, `possible` ones
    may be.

    `found` is how many of the gradients the programs return as sums, by dimensions, and `spare` how many more sums of
    these dimensions a program has. `multiplies` is whether any of the ops does: else the gradients are made elsewhere.
    """

    sure: frozenset[tuple[str, str]] = frozenset()
    possible: frozenset[tuple[str, str]] = frozenset()
    found: dict[Dims, int] = field(default_factory=dict)
    spare: int = 0
    multiplies: bool = False


def unused_work(protos: Mapping[str, bytes], gradients: Mapping[Dims, int]) -> UnusedWork:
    """The ops that these programs run for so many gradients of these dimensions alone."""
    sure: set[tuple[str, str]] = set()
    possible: set[tuple[str, str]] = set()
    found: Counter[Dims] = Counter()
    spare, multiplies = 0, False
    for name, data in protos.items():
        # Programs of several kinds of steps hold the same gradients, so each of them may return them all.
        matched = _matched(_sums(data), gradients)
        if not matched.possible:
            continue
        least, most = _dead(data, matched.sure), _dead(data, matched.possible)
        sure |= {(name, op) for op in least.whole}
        possible |= {(name, op) for op in most.whole | most.parts}
        found |= matched.found
        spare, multiplies = max(spare, matched.spare), multiplies or most.multiplies
    return UnusedWork(frozenset(sure), frozenset(possible), dict(found), spare, multiplies)


class _Matched(NamedTuple):
    """Places of results that are the gradients surely, and that may be; how many gradients, and sums too many."""

    sure: tuple[int, ...]
    possible: tuple[int, ...]
    found: Counter[Dims]
    spare: int


def _matched(sums: list[Sum], gradients: Mapping[Dims, int]) -> _Matched:
    # A gradient that is a view comes with what it is a view of: one of the two has its dimensions.
    of = [next((dims for dims in each.results.values() if gradients.get(dims)), None) for each in sums]
    counts = Counter(dims for dims in of if dims is not None)
    if not counts and _are_parts([each.results for each in sums], list(Counter(gradients).elements())):
        # Of a program that is split over devices, each has a part of every gradient.
        places = tuple(at for each in sums for at in each.results)
        return _Matched(places, places, Counter(gradients), 0)
    pairs = list(zip(sums, of, strict=True))
    return _Matched(
        tuple(
            at
            for each, dims in pairs
            if dims is not None and counts[dims] <= gradients[dims]
            for at in each.results
        ),
        tuple(at for each, dims in pairs if dims is not None for at in each.results),
        Counter({dims: min(count, gradients[dims]) for dims, count in counts.items()}),
        sum(max(count - gradients[dims], 0) for dims, count in counts.items()),
    )


def _are_parts(sums: list[dict[int, Dims]], gradients: list[Dims]) -> bool:
    """Whether there are as many, and each sum divides the gradient that stands at its place in order."""

    def order(dims: Dims) -> tuple[int, Dims]:
        return len(dims), dims

    own = sorted((dims for results in sums for dims in list(results.values())[:1]), key=order)
    return bool(own) and len(own) == len(gradients) and all(map(_divides, own, sorted(gradients, key=order)))


def _divides(part: Dims, whole: Dims) -> bool:
    return len(part) == len(whole) and all(
        own and not all_of_it % own for own, all_of_it in zip(part, whole, strict=True)
    )


class _Dead(NamedTuple):
    """Instructions that are dead, fusions of which a part is, and whether any of the dead ones multiplies."""

    whole: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    multiplies: bool = False


@lru_cache(maxsize=PROGRAMS_KEPT)
def _read(data: bytes) -> HloModule | None:
    from tpuprof.decode.hlo_proto import read_hlo_proto

    try:
        return read_hlo_proto(data)
    except TpuprofError:
        return None


@lru_cache(maxsize=PROGRAMS_KEPT)
def _sums(data: bytes) -> list[Sum]:
    module = _read(data)
    return summed_results(module) if module is not None else []


@lru_cache(maxsize=PROGRAMS_KEPT)
def _dead(data: bytes, results: tuple[int, ...]) -> _Dead:
    module = _read(data)
    if module is None or not results:
        return _Dead()
    whole, without = live_names(module), live_names(module, results)
    dead = whole.keys() - without.keys()
    parts, multiplies = set(), False
    for each in module.instructions():
        if each.name in dead:
            multiplies = multiplies or _is_product(each)
        elif each.opcode == "fusion" and whole.get(each.name) != without.get(each.name):
            parts.add(each.name)
    return _Dead(frozenset(dead), frozenset(parts), multiplies)


def _is_product(each: Instruction) -> bool:
    if each.opcode == "custom-call":
        return bool(_MULTIPLIES.search(each.custom_call_target))
    return each.opcode in PRODUCTS
