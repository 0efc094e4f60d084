"""Layers that a program repeats without a loop: what scan_layers would fold into one.

A Python loop over N equal layers leaves the same matrix multiplications N times in the program. Where annotations
name the layers (`layers.0`, `layers.1`, ...) those tell them apart. Else matmuls are compared by what they do (the
framework's op name, source line, FLOPs): N is the largest count such that nearly all of them occur a multiple of N
times. Where the trace states no FLOPs, those of JAX are read from the program. Where the program's inputs have
names (a preflight knows them), N is a number of layers that these state. Other ops are no guide: the compiler fuses
and copies differently from layer to layer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise

import numpy as np

from tpuprof.model.compile.hlo_metadata import scope_label
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.collective_role import layer_of
from tpuprof.model.device.hlo_products import Products, jax_products
from tpuprof.model.device.op_kind import is_matmul
from tpuprof.model.device.op_sums import OpSums
from tpuprof.model.steps import Steps
from tpuprof.records import record

# Fewer repetitions than this are not worth a loop (layers).
MIN_LAYERS = 3
# Without names, recomputation in the backward pass looks like twice the layers, and short stacks look like it.
MIN_UNNAMED_LAYERS = 6
# Matmul work that must repeat for a program to count as unrolled (share of FLOPs): embedding and head are the rest.
MIN_SHARE = 0.5
# A larger count is preferred while it explains at least this share of what the best count does. Twice the layers
# explain all matmuls that a layer makes twice, backward mostly, which is less than nine tenths.
NEAR_BEST = 0.9
# From this many layers on, one of them may differ: the compiler fuses the first or last with what is beside it.
ONE_MAY_DIFFER = 8
# FLOPs of one matmul in several layers differ by what else the compiler fused into its op: up to this much of the
# larger one (ratio). Real programs show 0.07 %; layers that differ on purpose differ by far more.
SAME_FLOPS_WITHIN = 0.01
# Names of ops that differ, given in a finding.
SHOWN = 5
_NUMBERS = re.compile(r"[.\d]+$")


@record(frozen=True)
class Repetition:
    """A block with `matmuls` matrix multiplications that a program repeats `layers` times.

    `share` is the part of the program's matmul FLOPs that belongs to it (of its matmuls, where no FLOPs are
    stated). `path` is what the layers are called (`layers.*`), empty where nothing names them; `differs` lists
    matmuls that some of the layers have and others not. `ops_share` is the part of the program's ops that belongs to
    it, at least and at most, None where nothing tells them: ops that the compiler made have no name.
    """

    program: str
    layers: int
    matmuls: int
    share: float
    path: str
    source: str
    differs: list[str] = field(default_factory=list)
    ops_share: tuple[float, float] | None = None


@record(frozen=True)
class _Matmul:
    """A product of a layer: its types and shapes, which layer it is of, and its work (flops)."""

    signature: tuple[str, str, int]
    layer: str
    flops: int


def find_repetition(
    device: DeviceActivity,
    steps: Steps,
    parameter_names: Sequence[str] = (),
    protos: Mapping[str, bytes] | None = None,
) -> Repetition | None:
    """The repeated block of the program that takes most of a device's time; None where it repeats none.

    `parameter_names` are those of the program's inputs, empty where unknown. `protos` are the programs of the trace.
    """
    program, matmuls = _matmuls_of_main_program(device, device.sums(steps.spans))
    if any(each.layer for each in matmuls):
        return _by_layer_names(device, program, matmuls)
    stated = _stated_layers(parameter_names)
    told = [each for each in matmuls if each.flops]
    if told or program not in (protos or {}):
        # Without FLOPs (PJRT_DEVICE=CPU) matmuls of one line cannot be distinguished.
        return _by_signature(program, told, stated)
    return _by_products(program, jax_products((protos or {})[program]), stated)


def _by_products(program: str, found: Products | None, stated: set[int]) -> Repetition | None:
    """The same of what a program's own text tells, with the share of its ops that repeat as often."""
    if found is None:
        return None
    matmuls = [_Matmul((each.label, each.source, each.flops), "", each.flops) for each in found.products]
    repetition = _by_signature(program, matmuls, stated)
    if repetition is None:
        return None
    return replace(repetition, ops_share=found.repeated_share(repetition.layers))


def main_program(device: DeviceActivity, steps: Steps) -> str:
    """The name of the program with most self time in these steps; empty where none ran."""
    sums = device.sums(steps.spans)
    return _largest(device, sums)[0] if sums.executions.any() else ""


def _largest(device: DeviceActivity, sums: OpSums) -> tuple[str, np.ndarray]:
    """The name of the program with most self time, and which ops are of it."""
    numbers: dict[str, int] = {}
    of = np.array([numbers.setdefault(program, len(numbers)) for program in device.ops.program], np.int64)
    time = np.zeros(len(numbers), np.int64)
    np.add.at(time, of, sums.self_ps)
    largest = int(time.argmax())
    return list(numbers)[largest], of == largest


def _matmuls_of_main_program(device: DeviceActivity, sums: OpSums) -> tuple[str, list[_Matmul]]:
    """The name of the program with most self time, and its matmuls outside any loop."""
    names, count = device.ops, sums.executions
    if not count.any():
        return "", []
    program, of_program = _largest(device, sums)
    ran = of_program & (count > 0)
    # Ops of a loop's body run more often than the program; the usual count is the program's own.
    executions = Counter(count[ran].tolist()).most_common(1)[0][0]
    rows = np.flatnonzero(ran & (count <= executions) & names.where(_multiplies)).tolist()
    return program, _without_fused_flops([_matmul(device, row) for row in rows])


def _without_fused_flops(matmuls: list[_Matmul]) -> list[_Matmul]:
    """The matmuls, those of one name and line whose FLOPs hardly differ with the same FLOPs."""
    same: dict[tuple[str, str, int], tuple[str, str, int]] = {}
    for before, own in pairwise(sorted({each.signature for each in matmuls})):
        kept = same.get(before, before)
        if own[:2] == kept[:2] and own[2] - kept[2] <= SAME_FLOPS_WITHIN * own[2]:
            same[own] = kept
    return [replace(each, signature=same.get(each.signature, each.signature)) for each in matmuls]


def _multiplies(long_name: str, name: str, category: str) -> bool:
    return is_matmul(category, long_name, name)


def _matmul(device: DeviceActivity, row: int) -> _Matmul:
    names = device.ops
    label = _NUMBERS.sub("", names.scope[row].rstrip(":").rpartition("/")[2])
    flops = int(names.flops[row])
    layer = layer_of(scope_label(names.scope[row]))
    return _Matmul((label, names.source[row], flops), layer, flops)


def _by_layer_names(device: DeviceActivity, program: str, matmuls: list[_Matmul]) -> Repetition | None:
    layers: dict[str, dict[int, list[_Matmul]]] = {}
    for each in matmuls:
        path, _, index = each.layer.rpartition(".")
        if index.isdigit():
            layers.setdefault(path, {}).setdefault(int(index), []).append(each)
    path = max(layers, key=lambda key: sum(map(len, layers[key].values())), default="")
    members = layers.get(path, {})
    held = [each for table in members.values() for each in table]
    if len(members) < MIN_LAYERS or _share(held, matmuls) < MIN_SHARE:
        return None
    every = Counter(label for table in members.values() for label in {each.signature[0] for each in table})
    differs = sorted(label for label, count in every.items() if count < len(members))
    shares = _ops_share(device, program, path)
    return _repetition(program, matmuls, held, len(members), f"{path}.*", differs, shares)


def _ops_share(device: DeviceActivity, program: str, path: str) -> tuple[float, float]:
    """Share of a program's ops that are traced in layers called `path`, without and with those of no scope."""
    names = device.ops
    scopes = [scope for scope, of in zip(names.scope, names.program, strict=True) if of == program]
    of_layers = sum(layer_of(scope_label(scope)).rpartition(".")[0] == path for scope in scopes)
    unnamed = scopes.count("")
    return of_layers / len(scopes), (of_layers + unnamed) / len(scopes)


def _stated_layers(parameter_names: Sequence[str]) -> set[int]:
    """How many layers the inputs' names number (`layers.0.weight`, `layers.1.weight`, ...), of each stack."""
    stacks: dict[str, set[str]] = {}
    for name in parameter_names:
        path, _, index = layer_of(name).rpartition(".")
        if path:
            stacks.setdefault(path, set()).add(index)
    return {len(indices) for indices in stacks.values() if len(indices) >= MIN_LAYERS}


def _by_signature(program: str, matmuls: list[_Matmul], stated: set[int]) -> Repetition | None:
    counts = Counter(each.signature for each in matmuls)

    def fits(each: _Matmul, layers: int) -> bool:
        left = counts[each.signature] % layers
        return left == 0 or (left == layers - 1 and layers >= ONE_MAY_DIFFER)

    # A layer that uses one line twice, or computes it again in the backward, looks like two layers.
    candidates = stated or {
        layers
        for count in set(counts.values())
        for layers in range(MIN_UNNAMED_LAYERS, count + 1)
        if count % layers == 0
    }
    share = {
        layers: _share([each for each in matmuls if fits(each, layers)], matmuls) for layers in candidates
    }
    best = max(share.values(), default=0.0)
    if best < MIN_SHARE:
        return None
    layers = max(each for each in share if share[each] >= NEAR_BEST * best)
    held = [each for each in matmuls if fits(each, layers)]
    differs = sorted({each.signature[0] for each in matmuls if counts[each.signature] == layers - 1})
    return _repetition(program, matmuls, held, layers, "", differs)


def _share(some: list[_Matmul], every: list[_Matmul]) -> float:
    total = sum(each.flops for each in every)
    return sum(each.flops for each in some) / total if total else len(some) / len(every)


def _repetition(
    program: str,
    matmuls: list[_Matmul],
    held: list[_Matmul],
    layers: int,
    path: str,
    differs: list[str],
    ops_share: tuple[float, float] | None = None,
) -> Repetition:
    return Repetition(
        program=program,
        layers=layers,
        # One of the layers may lack one of them.
        matmuls=round(len(held) / layers),
        share=_share(held, matmuls),
        path=path,
        source=next((each.signature[1] for each in held if each.signature[1]), ""),
        differs=differs[:SHOWN],
        ops_share=ops_share,
    )
