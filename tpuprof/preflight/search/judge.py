"""What a point of a search changes in the results of training, and how sure its prediction is."""

from __future__ import annotations

from tpuprof.preflight.search.choices import MESH, PRECISION, SETTING, SWITCH, TRY, Choice
from tpuprof.preflight.search.engine import gain_of
from tpuprof.preflight.search.flags import flag_of
from tpuprof.preflight.search.front import Result
from tpuprof.preflight.trying_names import AUTOCAST
from tpuprof.units import format_share

# Gains below this are not distinguished from no gain: one order of instructions against another (share of the step).
CLEAR_FROM = 0.03
# Share of a step without an estimate of the compiler from which its time is not to be trusted.
GUESSED_FROM = 0.1
# Share of a gain that stems from exposed transfers from which it rests on link speeds.
LINKS_FROM = 0.5
_SAME_VALUES = "none meant: sums may be taken in another order"
_CHANGES = {
    AUTOCAST: "products of the forward and backward take bfloat16, and results between them too; weights and optimizer "
    "stay float32: losses change",
}
_PASSES = {
    "default": "one pass in bfloat16",
    "high": "three passes in bfloat16",
    "highest": "six passes in bfloat16",
}


def numerics(result: Result, base: Result | None) -> list[str]:
    """What else than speed changes, as far as it is known."""
    found = [text for choice in result.point for text in _of_choice(choice)]
    if base is None or not any(each.kind in (SETTING, SWITCH) for each in result.point):
        return list(dict.fromkeys(found))
    if set(result.products) != set(base.products):
        found.append(
            f"the operands of matrix products are {_kinds(result)}; of the script as it is {_kinds(base)}"
        )
    else:
        found.append(
            f"the operands of matrix products stay {_kinds(base)}; whatever else a setting does is the script's own"
        )
    return list(dict.fromkeys(found))


def _of_choice(choice: Choice) -> list[str]:
    flag = flag_of(choice)
    if flag is not None:
        return [flag.numerics]
    if choice.kind == PRECISION:
        return [f"float32 matrix products take {_PASSES.get(choice.value, choice.value)}: losses change"]
    if choice.kind in (TRY, MESH):
        return [_CHANGES.get(choice.name, _SAME_VALUES)]
    if choice.by_itself and "vocab" in choice.name.lower():
        return ["the rows that fill the last tile are no label, and have a share in the softmax at first"]
    if choice.is_batch:
        return ["each update averages over another number of samples: the learning rate may need to change"]
    return []


def _kinds(result: Result) -> str:
    return ", ".join(sorted(result.products)) or "none"


def how_sure(result: Result, base: Result | None) -> str:
    """How far the predicted gain can be trusted. It is never high: nothing was measured."""
    if base is None or result is base:
        return "predicted, not measured"
    gain = gain_of(result, base)
    if gain is None:
        return "unknown: the two trainings are not known to do the same work per step"
    for each, name in ((result, "it"), (base, "the script as it is")):
        if each.step_ms and each.guessed_ms >= GUESSED_FROM * each.step_ms:
            return f"low: {format_share(each.guessed_ms / each.step_ms)} of {name} has no estimate of the compiler"
    if abs(gain) < CLEAR_FROM:
        return f"low: a difference below {format_share(CLEAR_FROM)} is too small to rely on"
    links = base.exposed_ms / (base.samples or 1) - result.exposed_ms / (result.samples or 1)
    if gain > 0 and links >= LINKS_FROM * (base.cost_ms - result.cost_ms):
        return "low: most of the gain is transfers, which are priced by stated link speeds"
    return "medium: the compiler's own estimates for both, not measured"
