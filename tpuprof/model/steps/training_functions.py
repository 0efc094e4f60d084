"""Which of the functions that a program calls train: JAX names each call, and the trace holds their programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache

from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.model.device.accumulation import has_products
from tpuprof.model.device.donation import replaced
from tpuprof.model.steps.training_calls import Functions, function_of_program, in_program_name

# Share of the most that any program replaces of its inputs (bytes) from which another one changes weights too: both
# networks of a GAN do, sums of a metric do not. A judgement.
TRAINS_FROM_SHARE = 0.1


def training_functions(programs: Iterable[tuple[str, bytes]], called: Collection[str]) -> Functions:
    """What the programs of the functions `called` do, by name.

    `programs` are (name, serialized HloProto) of the trace. A function changes weights where its results replace inputs
    of about as many bytes as any other's do; it trains where it multiplies matrices as well.
    """
    most: dict[str, tuple[int, bool]] = {}
    updates: dict[str, int] = {}
    wanted = {in_program_name(each): each for each in called}
    for name, data in programs:
        function = wanted.get(in_program_name(function_of_program(name)))
        if function is not None:
            size, multiplies = _facts(data)
            updates[name] = size if multiplies else 0
            before = most.get(function, (0, False))
            most[function] = (max(before[0], size), before[1] or multiplies)
    largest = max((size for size, _ in most.values()), default=0)
    change = {name for name, (size, _) in most.items() if largest and size >= TRAINS_FROM_SHARE * largest}
    multiply = frozenset(name for name, (_, products) in most.items() if products)
    updating = frozenset(
        name for name, size in updates.items() if size and size >= TRAINS_FROM_SHARE * largest
    )
    return Functions(frozenset(change) & multiply, frozenset(change), multiply, updating)


@lru_cache(maxsize=PROGRAMS_KEPT)
def _facts(data: bytes) -> tuple[int, bool]:
    """(bytes of inputs that a program replaces, whether it multiplies matrices); nothing of one that cannot be read."""
    from google.protobuf.message import DecodeError

    from tpuprof.decode import hlo_pb2

    try:
        proto = hlo_pb2.HloProto.FromString(data)
    except DecodeError:
        return 0, False
    return replaced(proto), has_products(proto)
