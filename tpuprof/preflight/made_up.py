"""What a script reads where no value exists: chosen by the operator that would have computed it.

Each tensor has one stand-in for all its elements. Comparisons and logic are evaluated on the stand-ins, so that a
script's usual checks (`assert not loss.isnan()`, `assert torch.isfinite(x).all()`, `if bad.sum() == 0`) pass.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

_MARK = "_tpuprof_stand_in"
# A loss or a norm: finite, positive, and no special case. A count: positive.
ORDINARY = 1
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_LOGIC: dict[str, Callable[[bool, bool], bool]] = {
    "logical_and": operator.and_, "bitwise_and": operator.and_, "__and__": operator.and_, "mul": operator.and_,
    "logical_or": operator.or_, "bitwise_or": operator.or_, "__or__": operator.or_, "add": operator.or_,
    "logical_xor": operator.xor, "bitwise_xor": operator.xor, "__xor__": operator.xor,
}  # fmt: skip
_ALWAYS = {
    "isnan": False, "isinf": False, "isposinf": False, "isneginf": False, "isfinite": True, "equal": True,
    "isclose": True, "allclose": True, "argmax": 0, "argmin": 0, "zeros": 0, "zeros_like": 0, "new_zeros": 0,
}  # fmt: skip
# Operators that keep what all elements have in common.
_KEEP = frozenset(
    {
        "any", "all", "max", "min", "amax", "amin", "sum", "mean", "abs", "clone", "_to_copy", "view", "_unsafe_view",
        "reshape", "alias", "detach", "select", "slice", "squeeze", "unsqueeze", "expand", "permute", "t", "copy",
        "transpose", "count_nonzero", "index_select", "stack", "cat", "lift_fresh", "all_reduce", "as_strided",
        "flatten", "contiguous", "cumsum", "masked_select", "_is_all_true", "_is_any_true",
        "_amp_foreach_non_finite_check_and_unscale",
    }
)  # fmt: skip
_FILLED = {"full": 1, "full_like": 1, "new_full": 2, "fill": 1, "scalar_tensor": 0}


def note(func: Any, args: tuple[Any, ...], result: Any) -> None:
    """Remember the stand-in of an operator's result."""
    name = func.overloadpacket.__name__
    in_place = name.endswith("_") and not name.endswith("__")
    value = _value(name.rstrip("_") if in_place else name, args)
    for each in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(each, torch.Tensor):
            setattr(each, _MARK, value)


def stand_in(tensor: torch.Tensor) -> bool | int | float:
    """The made-up value of every element of a tensor."""
    value = getattr(tensor, _MARK, None)
    if tensor.dtype is torch.bool:
        return bool(value) if value is not None else False
    if value is None:
        value = ORDINARY
    return float(value) if tensor.dtype.is_floating_point else int(value)


def _value(name: str, args: tuple[Any, ...]) -> bool | int | float | None:
    if name in _ALWAYS:
        return _ALWAYS[name]
    if name in _FILLED:
        return _number(args[_FILLED[name]]) if len(args) > _FILLED[name] else None
    first = args[0] if args else None
    if isinstance(first, (tuple, list)) and first:
        first = first[0]
    return (
        _of_tensor(name, first, args[1] if len(args) > 1 else None)
        if isinstance(first, torch.Tensor)
        else None
    )


def _of_tensor(name: str, first: torch.Tensor, second: Any) -> bool | int | float | None:
    truth = first.dtype is torch.bool
    if name in _COMPARE and second is not None:
        return _COMPARE[name](stand_in(first), _operand(second))
    if name == "logical_not" or (name == "bitwise_not" and truth):
        return not stand_in(first)
    if name in _LOGIC and truth and isinstance(second, torch.Tensor):
        return _LOGIC[name](bool(stand_in(first)), bool(stand_in(second)))
    if name in _KEEP:
        known: bool | int | float | None = getattr(first, _MARK, None)
        return stand_in(first) if known is None and truth else known
    return None


def _operand(value: Any) -> Any:
    return stand_in(value) if isinstance(value, torch.Tensor) else value


def _number(value: Any) -> bool | int | float | None:
    return value if isinstance(value, (bool, int, float)) and math.isfinite(value) else None
