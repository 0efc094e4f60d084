"""A sum and what it is made of, level by level, as a treemap or as a flame graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from tpuprof.units import format_share
from tpuprof_dashboard.words import plain, short

TREEMAP, FLAME = "treemap", "flame"
# Parts drawn at most, the largest (parts): a browser draws some thousand rectangles smoothly. The others are one part.
MAX_PARTS = 1_000
_HEIGHT = 460
_NAME_CHARACTERS = 60
# One colour for each of the largest groups, and a last one for all others: readable with black text on top.
_COLOURS = ("#9EC9E8", "#F4C08A", "#A9D8B8", "#E6A9C4", "#C9BCE8", "#E8DC93", "#9FD9DA", "#E3B5A0", "#C9CCD1")
_TEXT = "#16181D"


@dataclass(frozen=True)
class Leaf:
    """A part that holds no others: the names of all around it and its own, from the outside; its size; its details."""

    path: tuple[str, ...]
    size: float
    note: str = ""


def share_tree(
    leaves: Sequence[Leaf],
    root: str,
    unit: str,
    shape: str = TREEMAP,
    template: str = "plotly_white",
    digits: int = 3,
) -> go.Figure:
    """Each leaf's share of the sum of all. `unit` stands behind sizes."""
    shown = _largest([each for each in leaves if each.size > 0])
    total = sum(each.size for each in shown) or 1.0
    sums: dict[tuple[str, ...], float] = {}
    for leaf in shown:
        for depth in range(len(leaf.path)):
            key = leaf.path[: depth + 1]
            sums[key] = sums.get(key, 0.0) + leaf.size
    notes = {leaf.path: leaf.note for leaf in shown}
    inner = {key[:-1] for key in sums}
    colours = _coloured(sums)
    number = {key: str(row) for row, key in enumerate(sums)}
    own: dict[tuple[str, ...], float] = {key: 0.0 if key in inner else size for key, size in sums.items()}
    hover = [
        f"<b>{plain(short(key[-1], 160))}</b><br>{size:,.{digits}f} {unit}, {plain(format_share(size / total))} of all"
        + (f"<br>{plain(short(notes[key], 160))}" if notes.get(key) else "")
        for key, size in sums.items()
    ]
    kind = go.Icicle if shape == FLAME else go.Treemap
    figure = go.Figure(
        kind(
            ids=["root", *(number[key] for key in sums)],
            labels=[plain(root), *(plain(short(key[-1], _NAME_CHARACTERS)) for key in sums)],
            parents=["", *("root" if len(key) == 1 else number[key[:-1]] for key in sums)],
            values=[0.0, *(own[key] for key in sums)],
            # Sums are made here: rounding must not make a part smaller than what is in it.
            branchvalues="remainder",
            hovertext=[f"<b>{plain(root)}</b><br>{total:,.{digits}f} {unit}", *hover],
            hovertemplate="%{hovertext}<extra></extra>",
            marker={"colors": ["rgba(0,0,0,0)", *(colours[key] for key in sums)]},
            textfont={"color": ["#808080", *([_TEXT] * len(sums))]},
            **({"tiling": {"orientation": "v", "pad": 1}} if shape == FLAME else {"tiling": {"pad": 1}}),
        )
    )
    figure.update_layout(template=template, height=_HEIGHT, margin={"l": 8, "r": 8, "t": 24, "b": 8})
    return figure


def _coloured(sums: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], str]:
    """The colour of each part: the largest of the outermost level that has several have colours of their own."""
    several = next((depth for depth in (1, 2, 3) if sum(len(key) == depth for key in sums) > 1), 1)
    ranked = sorted((key for key in sums if len(key) == several), key=lambda key: -sums[key])
    own = {key: _COLOURS[min(rank, len(_COLOURS) - 1)] for rank, key in enumerate(ranked)}
    return {key: own.get(key[:several], _COLOURS[-1]) for key in sums}


def _largest(leaves: list[Leaf]) -> list[Leaf]:
    """Leaves of one path together, the largest of them, and what is left as one more."""
    together: dict[tuple[str, ...], Leaf] = {}
    for leaf in leaves:
        known = together.get(leaf.path)
        together[leaf.path] = Leaf(leaf.path, leaf.size + (known.size if known else 0.0), leaf.note)
    ordered = sorted(together.values(), key=lambda each: -each.size)
    others = ordered[MAX_PARTS:]
    # A part that holds others is no leaf: what is its own goes by a name of its own.
    inner = {each.path[:depth] for each in ordered for depth in range(1, len(each.path))}
    kept = [
        Leaf((*each.path, "(itself)"), each.size, each.note) if each.path in inner else each
        for each in ordered[:MAX_PARTS]
    ]
    rest = Leaf((f"({len(others):,} smaller parts)",), sum(each.size for each in others))
    return [*kept, rest] if others else kept
