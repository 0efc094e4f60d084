"""Whether each graph that compiles holds the steps before it: then it has more ops than the one before."""

from __future__ import annotations

from tpuprof.model.compile.compiles import Compile

# Graphs that each have as many ops more than the one before, from which that is no accident (graphs): alike to the op,
# within a twentieth, and of any number (ratio). A judgement: rounds of a loop come and go.
GROWS_FROM, GROWS_ALIKE_FROM, GROWS_ANYHOW_FROM, ALIKE_FROM = 2, 3, 4, 0.95


def graphs_grow(compiles: list[Compile]) -> bool:
    """Whether each graph has more ops than the one that it was compared with; of few, each about as many more."""
    more = [each.cause.more_ops for each in compiles if each.cause.kind == "graph"]
    if not more or min(more) <= 0 or 2 * len(more) <= len(compiles):
        return False
    alike = min(more) / max(more)
    enough = GROWS_FROM if alike == 1 else GROWS_ALIKE_FROM if alike >= ALIKE_FROM else GROWS_ANYHOW_FROM
    return len(more) >= enough
