"""A number for each optimizer, by first appearance: one that is made again in each round is the same one.

Meta-learning makes an optimizer for each task, and its inner loop calls that; what a step of training is, the outer
optimizer says, which lives on.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

# Optimizers that are distinguished (count). A program that makes a new one in each step still has one kind of step.
MAX_OPTIMIZERS = 64
# Optimizers of one class and size, alive at once, from which on the next one counts as the first of them (count): one
# that is made again and not yet collected. Programs with as many equal networks are rare. A judgement.
SAME_KIND_FROM = 4


@dataclass
class _Numbered:
    """An optimizer that stepped, its class with its parameter groups' sizes, and its number."""

    optimizer: weakref.ref[Any]
    kind: tuple[str, tuple[int, ...]]
    number: int


class OptimizerNumbers:
    """Numbers of optimizers. Keeps none of them alive."""

    def __init__(self) -> None:
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._seen: list[_Numbered] = []

    def of(self, optimizer: Any) -> int:
        """The number of an optimizer, that of one like it which is gone where it is new."""
        number = self._numbers.get(optimizer)
        if number is None:
            number = self._numbers[optimizer] = self._new(optimizer)
        return number

    def _new(self, optimizer: Any) -> int:
        kind = type(optimizer).__qualname__, tuple(len(group["params"]) for group in optimizer.param_groups)
        alike = [each for each in self._seen if each.kind == kind]
        gone = next((each for each in alike if each.optimizer() is None), None)
        same = alike[0] if len(alike) >= SAME_KIND_FROM else None
        if gone is not None:
            gone.optimizer = weakref.ref(optimizer)
            return gone.number
        if same is not None or len(self._seen) >= MAX_OPTIMIZERS:
            return (same or self._seen[-1]).number
        self._seen.append(_Numbered(weakref.ref(optimizer), kind, len(self._seen)))
        return self._seen[-1].number
