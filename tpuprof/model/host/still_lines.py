"""Lines that trace nothing, known by where in the step's ops they are seen: always at the same op.

A step traces the same ops again and again. Samples of a line that traces come at any of its ops; those of a line that
works on host tensors, or in plain Python, all come after one and the same op. That tells them apart though every
interval between two samples holds ops of other lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from tpuprof.model.host.op_cost import OP_MS_AT_MOST, OPS_TO_MEASURE, Sample
from tpuprof.model.host.stacks import FRAMEWORK, PLAIN, Stack
from tpuprof.units import PS_PER_MS

# Samples of a line that follow one another from which that is known (pairs), and how many of them must come at the same
# op (share). By chance all four pairs of a line of ten ops do in 0.8 % of cases (drawn 200,000 times).
PAIRS_FROM, ALIKE_FROM_SHARE = 4, 0.8
# How far from the same op two samples may come (ops): the thread goes on while the sampler asks for Python's lock.
OPS_WITHIN = 1
# Time of the thread at such a line from one graph cut to the next, beside what so many ops take at most, from which it
# is something else (ms): a line that calls an op or two is always seen near the same op, too.
LONGER_THAN_MS = (1 + 2 * OPS_WITHIN) * OP_MS_AT_MOST
# Pairs of samples in different steps from which it is known that a line runs in one of several steps only (pairs): by
# chance all of eight distances have a divisor in common in 0.4 % of cases.
PERIOD_FROM = 8
# Looks at the thread in so many steps from which that is the line's own rhythm (looks): with one look in two steps, all
# lines are seen in each second one. A judgement.
LOOKS_FROM = 2
# How far a line's own ops per cut may be from those of all samples (share of them): it is then seen in other steps.
SAME_STEPS_WITHIN = 0.1
# Frames of the framework that hand the step's graph over: they trace nothing, and are no work on host tensors.
_HANDS_OVER = "/torch_xla/"


def line_of(each: Sample, stacks: list[Stack]) -> str:
    """The line of the program that a sample came in, as `Stack.line`, empty where that is unknown."""
    return stacks[each.stack].line if each.stack >= 0 else ""


def still_lines(samples: list[Sample], stacks: list[Stack]) -> set[str]:
    """Lines of the program all of whose samples come at the same op of a step, for longer than an op or two take."""
    cuts = samples[-1].cuts - samples[0].cuts if samples else 0
    per_cut = sum(each.ops for each in samples[1:]) / cuts if cuts else 0.0
    if per_cut < OPS_TO_MEASURE:
        return set()
    seen: dict[str, list[tuple[int, int]]] = {}
    ran: dict[str, int] = {}
    total = 0
    for each in samples:
        total += each.ops
        line = line_of(each, stacks)
        if line and each.prompt and not each.in_call and each.family in (PLAIN, FRAMEWORK):
            seen.setdefault(line, []).append((total, each.cuts))
            ran[line] = ran.get(line, 0) + each.gap - each.waited
    handing = {stack.line for stack in stacks if any(_HANDS_OVER in frame for frame in stack.frames)}
    return {
        line
        for line, at in seen.items()
        if line not in handing
        and ran[line] > LONGER_THAN_MS * PS_PER_MS * cuts / _period(at, cuts / len(samples))
        and _is_still(at, per_cut)
    }


def _period(at: Iterable[tuple[int, int]], cuts_per_look: float) -> int:
    """In one of how many steps a line runs, by its samples: what follows all windows of an image, say."""
    apart = [after[1] - each[1] for each, after in pairwise(at) if after[1] > each[1]]
    found = math.gcd(*apart) if len(apart) >= PERIOD_FROM else 1
    return found if found >= LOOKS_FROM * cuts_per_look else 1


def _is_still(at: Iterable[tuple[int, int]], per_cut: float) -> bool:
    """Whether samples, each with the ops and the cuts before it, come at the same op of their steps."""
    steps = np.array([(after[0] - each[0], after[1] - each[1]) for each, after in pairwise(at)], np.int64)
    if len(steps) < PAIRS_FROM:
        return False
    ops, cuts = steps.T
    later = cuts > 0
    if int(later.sum()) < PAIRS_FROM:
        return False
    own = float(np.median(ops[later] / cuts[later]))
    alike = np.abs(ops - cuts * own) <= OPS_WITHIN
    return abs(own - per_cut) <= SAME_STEPS_WITHIN * per_cut and float(alike.mean()) >= ALIKE_FROM_SHARE
