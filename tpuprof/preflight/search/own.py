"""What a script offers a search by itself: options of its command line, meshes, layers, float32 products."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from tpuprof.preflight.script import Trace
from tpuprof.preflight.search.choices import MESH, SETTING, SWITCH, TRY, Choice
from tpuprof.preflight.targets import Target
from tpuprof.preflight.trying_names import AUTOCAST, OFFLOAD, REMAT, SCAN, SCAN_REMAT

# Batches that are tried, as multiples of the script's own: each doubling shares the update of the weights among twice
# as many samples, and what two of them gain shows where it ends.
BATCH_TIMES = (2, 4)
# Columns of a tile: a matrix whose width is no multiple of them is padded by the compiler (jax-ml's scaling book).
TILE = 128
# Widths below this are no vocabulary whose padding is worth a compile.
PADDED_FROM = 1000
# Meshes that are tried at most: with three axes there are dozens, of which the neighbours come first.
MESHES_AT_MOST = 4
_WORDS = re.compile(
    r"remat|recompute|rematerial|checkpointing|(^|[_-])scan|offload|attention|attn|flash|sdpa|fused|precision|dtype|"
    r"(^|[_-])(bf16|amp)($|[_-])|shard|fsdp|layout", re.IGNORECASE,
)  # fmt: skip
_NO_WORDS = re.compile(r"eval|test|valid|predict|save|load|path|dir|file|resume|push|log", re.IGNORECASE)
_MICRO = re.compile(r"micro|accum", re.IGNORECASE)
_VOCABULARY = re.compile(r"vocab", re.IGNORECASE)
_AXIS = re.compile(
    r"^(dp|tp|fsdp|ddp|sp|ep|(ici_|dcn_)?(data|tensor|model|expert|fsdp|sequence)([_-](parallel(ism)?|axis|size))?|"
    r"(dp|tp|fsdp)[_-](size|degree))$",
    re.IGNORECASE,
)  # fmt: skip
# A layer in the name of a weight: `blocks.3.mlp.weight`.
_LAYER = re.compile(r"^(.*?)\.(\d+)\.(.+)$")


@dataclass(frozen=True)
class Offered:
    """What may be tried: `faster` for speed, `smaller` for memory or compile time, in the order of their promise."""

    faster: tuple[Choice, ...] = ()
    smaller: tuple[Choice, ...] = ()


def offered(trace: Trace, products: dict[str, int], target: Target, taken: frozenset[str]) -> Offered:
    """What a script offers that `taken`, the user's own settings, does not have."""
    options = [each for each in trace.offers if each["kind"] == "option" and each["name"] not in taken]
    torch_xla = "torch_xla" in trace.versions
    faster = [*_batches(options, taken)]
    if torch_xla and any("f32" in each for each in products):
        faster.append(Choice(AUTOCAST, "bfloat16", TRY, True))
    faster += [*_options(options), *_meshes(trace, options, target), *_padded(options)]
    smaller = []
    for name in layers_of(trace)[:1] if torch_xla else ():
        smaller += [Choice(each, name, TRY, True) for each in (REMAT, OFFLOAD, SCAN, SCAN_REMAT)]
    return Offered(tuple(dict.fromkeys(faster)), tuple(smaller))


def batch_option(trace: Trace) -> dict[str, Any] | None:
    """The option that says how many samples a step trains; None where none does, or several might."""
    found = [each for each in trace.offers if each["kind"] == "option" and _is_batch(each)]
    return found[0] if len({each["name"] for each in found}) == 1 else None


def _is_batch(option: dict[str, Any]) -> bool:
    """Whether an option says how many samples are trained at once; those of an evaluation are another matter."""
    name = option["name"]
    return Choice(name, "").is_batch and not _NO_WORDS.search(name) and _whole(option["value"])


def option_value(trace: Trace, name: str) -> Any:
    """The value that an option had, the script's own default included; None where the script has no such option."""
    return next(
        (each["value"] for each in trace.offers if each["kind"] == "option" and each["name"] == name), None
    )


def layers_of(trace: Trace) -> list[str]:
    """Names of the stacks of layers whose weights a step updates, the one of most layers first: `blocks`."""
    layers: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name in trace.steady.parameter_names:
        found = _LAYER.match(name)
        if found and "." in found.group(3):
            layers[found.group(1)][found.group(2)].add(found.group(3))
    alike = {
        name: len(each)
        for name, each in layers.items()
        if len({frozenset(one) for one in each.values()}) == 1
    }
    return sorted((name for name, count in alike.items() if count > 1), key=lambda name: -alike[name])


def _batches(options: list[dict[str, Any]], taken: frozenset[str]) -> list[Choice]:
    if any(Choice(name, "").is_batch for name in taken):
        return []
    usable = [each for each in options if _is_batch(each)]
    if len(usable) != 1:
        return []
    name, value = usable[0]["name"], usable[0]["value"]
    return [Choice(name, str(value * times), SETTING, True) for times in BATCH_TIMES]


def _options(options: list[dict[str, Any]]) -> list[Choice]:
    """Other values of options whose name or values speak of what a search is for."""
    found = []
    for each in options:
        name, value, choices = each["name"], each["value"], [str(one) for one in each["choices"]]
        if _NO_WORDS.search(name):
            continue
        spoken = bool(_WORDS.search(name)) or any(_WORDS.search(one) for one in choices)
        if choices and spoken:
            found += [Choice(name, one, SETTING, True) for one in choices if one != str(value)]
        elif each["switch"] and spoken and value is False:
            found.append(Choice(name, "", SWITCH, True))
        elif _MICRO.search(name) and _whole(value):
            halves = [value // 2] if value % 2 == 0 else []
            found += [Choice(name, str(one), SETTING, True) for one in (*halves, value * 2)]
    return found


def _padded(options: list[dict[str, Any]]) -> list[Choice]:
    return [
        Choice(each["name"], str(math.ceil(each["value"] / TILE) * TILE), SETTING, True)
        for each in options
        if _VOCABULARY.search(each["name"])
        and _whole(each["value"])
        and each["value"] >= PADDED_FROM
        and each["value"] % TILE
    ]


def _meshes(trace: Trace, options: list[dict[str, Any]], target: Target) -> list[Choice]:
    """Other shapes of the script's mesh; where options name its axes, they say so."""
    if target.devices == 1 or any(_AXIS.match(each["name"]) and _whole(each["value"]) for each in options):
        return _axes(options, target)
    found = next((each for each in trace.offers if each["kind"] == "mesh"), None)
    if found is None or math.prod(found["shape"]) != target.devices:
        return []
    own, axes = tuple(found["shape"]), ",".join(found["axes"])
    return [
        Choice(f"mesh {axes}", ",".join(map(str, shape)), MESH, True)
        for shape in shapes_of(own)[:MESHES_AT_MOST]
    ]


def _axes(options: list[dict[str, Any]], target: Target) -> list[Choice]:
    """Degrees of parallelism that are options, two of which a search can trade for each other."""
    named = [each for each in options if _AXIS.match(each["name"]) and _whole(each["value"])]
    if len(named) < 2 or math.prod(each["value"] for each in named) != target.devices:
        return []
    names = "+".join(each["name"] for each in named)
    own = tuple(each["value"] for each in named)
    return [
        Choice(names, "+".join(map(str, shape)), SETTING, True) for shape in shapes_of(own)[:MESHES_AT_MOST]
    ]


def shapes_of(own: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All other shapes with as many axes and devices, those nearest to the script's own first."""
    found: list[tuple[int, ...]] = []

    def extend(left: int, shape: tuple[int, ...]) -> None:
        if len(shape) == len(own) - 1:
            found.append((*shape, left))
            return
        for size in (each for each in range(1, left + 1) if left % each == 0):
            extend(left // size, (*shape, size))

    extend(math.prod(own), ())
    distance = {shape: sum(abs(math.log2(a / b)) for a, b in zip(shape, own, strict=True)) for shape in found}
    return sorted((shape for shape in found if shape != own), key=lambda shape: (distance[shape], shape))


def _whole(value: Any) -> bool:
    return type(value) is int and value > 0
