"""What the process noted of gradients that are added up and belong to no optimizer."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tpuprof.records import record

_COUNTS = ("count", "bytes", "grew_least", "grew_most", "changes_before")


@record(frozen=True)
class GradientGroup:
    """Gradients of one shape in one module of the program.

    Each was changed in place so often between the looks before and behind the captured steps, from `grew_least` to
    `grew_most` times, and `changes_before` times at least before the first.
    """

    module: str
    shape: tuple[int, ...]
    count: int
    bytes: int
    grew_least: int
    grew_most: int
    changes_before: int


@record(frozen=True)
class HeldGradients:
    """All of them. `steps` is how often an optimizer stepped between the looks, `steps_before` how often before.

    `unavailable` says why the process could not tell.
    """

    groups: tuple[GradientGroup, ...] = ()
    steps: int = 0
    steps_before: int = 0
    unavailable: str = ""

    @property
    def by_shape(self) -> dict[tuple[int, ...], int]:
        """How many there are of each shape."""
        found: Counter[tuple[int, ...]] = Counter()
        for each in self.groups:
            found[each.shape] += each.count
        return dict(found)


def held_gradients(noted: object) -> HeldGradients | None:
    """What run.json says of them; None where nothing of it can be read."""
    if not isinstance(noted, dict):
        return None
    if isinstance(noted.get("unavailable"), str):
        return HeldGradients(unavailable=noted["unavailable"])
    rows = noted.get("parameters")
    groups = [_group(each) for each in (rows if isinstance(rows, list) else [])]
    steps, before = noted.get("steps"), noted.get("steps_before")
    if None in groups or not isinstance(steps, int) or not isinstance(before, int):
        return None  # another version's, or damaged
    return HeldGradients(tuple(each for each in groups if each is not None), steps, before)


def _group(row: Any) -> GradientGroup | None:
    if not isinstance(row, dict):
        return None
    shape = row.get("shape")
    counts = {name: row.get(name) for name in _COUNTS}
    if not isinstance(shape, list) or not all(isinstance(each, int) for each in [*shape, *counts.values()]):
        return None
    whole = {name: int(count or 0) for name, count in counts.items()}
    return GradientGroup(module=str(row.get("module") or ""), shape=tuple(shape), **whole)
