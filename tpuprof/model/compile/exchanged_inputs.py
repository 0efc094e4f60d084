"""Inputs whose types are the same in all, but not one by one: of two sequences the other one is the longer now."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from tpuprof.model.compile.outline import Type, counted, difference, size_of, type_of

if TYPE_CHECKING:
    from tpuprof.decode.hlo import HloModule

# An argument of a Python function, or a leaf of one: `batch`, `state.params['up'][0]`. torch_xla's names begin `xla__`.
_ARGUMENT = re.compile(r"(?!xla_)[A-Za-z_]\w*(?:\.\w+|\[[^\]]{1,64}\])*")


def named_inputs(module: HloModule) -> dict[str, Type]:
    """Inputs by the names of the function's arguments (`batch`, `state['mu'][0]`), as far as each has its own.

    JAX writes them; torch_xla writes one name on all inputs.
    """
    parameters = module.entry.parameters()
    names = Counter(each.op_name for each in parameters)
    return {
        each.op_name: type_of(each)
        for each in parameters
        if names[each.op_name] == 1 and _ARGUMENT.fullmatch(each.op_name)
    }


def exchanged_inputs(new: HloModule, old: HloModule) -> list[tuple[Type, Type]]:
    """Types before and after of inputs that changed, where both programs have the same types in another order.

    By the names of arguments. Without names by their places: these are the same while the ops are, but ops that are
    given other values have them in another order, too. Those keep their sizes, and a change of shapes does not.
    """
    after, before = named_inputs(new), named_inputs(old)
    if after and after.keys() == before.keys():
        return [(before[name], after[name]) for name in after if before[name] != after[name]]
    if after or before or not any(difference(counted(new, size_of), counted(old, size_of))):
        return []
    pairs = zip(map(type_of, old.entry.parameters()), map(type_of, new.entry.parameters()), strict=True)
    return [(was, now) for was, now in pairs if was != now]
