"""Marks samples by what all of them together show: lines that call ops, code that traces nothing, whole rounds."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from tpuprof.model.host.interval_pieces import MISSED_FROM_MS, OPS, TRACING, Piece
from tpuprof.model.host.op_cost import OPS_TO_MEASURE, Sample
from tpuprof.model.host.stacks import FRAMEWORK, PLAIN, Stack
from tpuprof.model.host.still_lines import line_of, still_lines
from tpuprof.own_events import NAMELESS
from tpuprof.units import PS_PER_MS

# Framework frames without one op are tracing for so long (ms): an optimizer's or a module's own Python. Beyond it the
# framework works on host tensors.
FRAMEWORK_WITHOUT_OPS_MS = 25.0
# Intervals that begin and end in one and the same call of a framework, and trace no op, from which the call works on
# host tensors (intervals): tracing moves on within 0.1 ms per op, and an optimizer's own Python from line to line.
SAME_CALL_WITHOUT_OPS = 3
# Intervals without an op that end in a function from which it traces nothing (intervals), and the least of one that the
# thread was not waiting for a CPU (ms): whoever does not run traces nothing, wherever it is.
QUIET_INTERVALS, QUIET_FROM_MS = 2, 1.0


def mark_lines(samples: list[Sample], stacks: list[Stack], quiet: set[str]) -> None:
    """Mark samples at the user's own lines: those that call ops, and those in `quiet` functions, which do not."""
    lines = _tracing_lines(samples, stacks)
    for each in samples:
        silent_there = each.asleep is not None and each.family == PLAIN and function_of(each, stacks) in quiet
        each.quiet = each.still or silent_there
        if each.family == PLAIN and not each.still and line_of(each, stacks) in lines:
            each.family = OPS


def mark_still(samples: list[Sample], stacks: list[Stack]) -> None:
    """Mark samples at lines that trace nothing; a framework that works on host tensors there is other code."""
    still = still_lines(samples, stacks)
    for each in samples:
        each.still = each.family in (PLAIN, FRAMEWORK) and line_of(each, stacks) in still
        each.family = PLAIN if each.still else each.family


def mark_rounds(samples: list[Sample], stacks: list[Stack]) -> None:
    """Mark intervals that go round a step from one line of other code to the same.

    Where the first began is unknown: it is one where it ends as the others do.
    """
    sources = set()
    for before, each in pairwise(samples):
        if each.cut and before.family == each.family == PLAIN and min(before.stack, each.stack) >= 0:
            source = stacks[each.stack].line
            each.round = bool(source) and source == stacks[before.stack].line
            sources |= {source} if each.round else set()
    for first in samples[:1]:
        first.round = first.cut and first.stack >= 0 and stacks[first.stack].line in sources


def alone_ps(samples: list[Sample], stacks: list[Stack]) -> dict[str, int]:
    """How long functions of other code run by themselves (ps): the median interval that ends there and holds no op."""
    found: dict[str, list[int]] = {}
    for each in samples:
        name = function_of(each, stacks)
        if each.family == PLAIN and name and not each.ops and not each.was_blocked and _is_told(each):
            found.setdefault(name, []).append(each.gap - each.blocked)
    return {name: int(np.median(lengths)) for name, lengths in found.items()}


def of_round(each: Sample, pieces: list[Piece], alone: int) -> list[Piece]:
    """The pieces of a whole step that ends in code which is known to run for so long by itself.

    Ops were traced before it, where nobody looked: code that keeps Python's lock is where the sampler finds the thread.
    """
    at = next((row for row, (kind, *_) in enumerate(pieces) if kind == TRACING), None)
    if at is None:
        return pieces
    waits = [piece for piece in pieces[at:] if piece[0] not in (TRACING, "python")]
    running = each.gap - sum(length for _, _, length in (*pieces[:at], *waits))
    own = min(alone, running)
    return [*pieces[:at], (TRACING, -1, running - own), ("python", each.stack, own), *waits]


def _tracing_lines(samples: list[Sample], stacks: list[Stack]) -> set[str]:
    """Lines of the user's own code that call ops: intervals that begin and end there hold many.

    A call of NumPy is no such line, though an interval that ends in it may hold the ops of the lines before. Nor does
    an interval with missed samples or a graph cut tell: the thread may have been round a whole step in it. Nor one in
    which a value was read: an environment in NumPy is called again after each read of an action. Nor one between two
    calls from different lines: a handler of a signal runs wherever the thread is.
    """
    ops: dict[str, list[int]] = {}
    for before, each in pairwise(samples):
        if each.gap >= MISSED_FROM_MS * PS_PER_MS or each.cut or each.read:
            continue
        if before.stack >= 0 and each.stack >= 0 and before.family == each.family == PLAIN:
            source = stacks[each.stack].line
            if source and source == stacks[before.stack].line and _same_call(before, each, stacks):
                ops.setdefault(source, []).append(each.ops)
    return {source for source, found in ops.items() if np.median(found) >= OPS_TO_MEASURE}


def _same_call(before: Sample, each: Sample, stacks: list[Stack]) -> bool:
    """Whether two samples at one line may be in one call of its function: the callers are the same."""
    first, second = (stacks[of.stack] for of in (before, each))
    return _callers(first) == _callers(second)


def _callers(stack: Stack) -> tuple[str, ...]:
    """The frames outside the one that is at the user's own line."""
    at = f"({stack.source})"
    row = max((row for row, frame in enumerate(stack.frames) if frame.endswith(at)), default=0)
    return stack.frames[:row]


def quiet_functions(samples: list[Sample], stacks: list[Stack]) -> set[str]:
    """Functions of other code than a framework's that trace nothing: several intervals that end there hold no op.

    Nor does any that begins and ends there, but for one with a graph cut: the thread was round a whole step in it.
    """
    silent: Counter[str] = Counter()
    traces: set[str] = set()
    for before, each in pairwise(samples):
        name = function_of(each, stacks)
        if each.family != PLAIN or not name:
            continue
        if not each.ops and not each.was_blocked and _is_told(each):
            silent[name] += 1
        if each.ops and not each.cut and before.family == PLAIN and function_of(before, stacks) == name:
            traces.add(name)
    return {name for name, count in silent.items() if count >= QUIET_INTERVALS} - traces


def _is_told(each: Sample) -> bool:
    """Whether the thread ran or was blocked for long enough in an interval that its ops say what it does."""
    return each.gap - each.waited >= QUIET_FROM_MS * PS_PER_MS


def function_of(each: Sample, stacks: list[Stack]) -> str:
    """The innermost function that has a name of its own, with its file; empty where no stack is known."""
    frames = reversed(stacks[each.stack].frames) if each.stack >= 0 else ()
    name = next((frame for frame in frames if not frame.startswith(NAMELESS)), "")
    return name.rpartition(":")[0]


def silent_frameworks(samples: list[Sample]) -> set[int]:
    """Samples in a framework's frames that trace nothing for long: it works on host tensors there.

    That is so where many samples follow each other without an op, and where a call is seen again and again to last from
    one sample to the next without one: then in each of its samples without ops.
    """
    quiet = [each for each in samples if each.family == FRAMEWORK and not each.ops]
    lasts = Counter(
        each.stack
        for before, each in pairwise(samples)
        if each.family == FRAMEWORK and each.stack == before.stack >= 0 and not each.ops and _is_told(each)
    )
    found = {id(each) for each in quiet if lasts[each.stack] >= SAME_CALL_WITHOUT_OPS}
    run: list[Sample] = []
    for each in [*samples, None]:
        if each is not None and each.family == FRAMEWORK and not each.ops:
            run.append(each)
            continue
        if sum(one.gap - one.waited for one in run) >= FRAMEWORK_WITHOUT_OPS_MS * PS_PER_MS:
            found.update(map(id, run))
        run = []
    return found
