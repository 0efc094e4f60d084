"""Where tracing is: the lines that trace most, and the function that most of the forward pass is in."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

from tpuprof.parts import HOST_SYNC, TRACING
from tpuprof.report.host_lines import (
    FUNCTION_FROM_SHARE,
    LINE_FROM_SHARE,
    LINES_SHOWN,
    Where,
    by_line,
    caller_of,
    feeding,
    function_of,
    lines_of,
    places_that_train,
    top_line,
)
from tpuprof.report.sections import HostStackRow
from tpuprof.report.user_frames import (
    Function,
    in_package,
    library_functions,
    others_names,
    places_of_users,
    user_functions,
)

# Samples in a function from which it may stand for the forward pass (samples): the error of a share goes with their
# square root, so that of fewer a quarter more or less is chance. A judgement.
FORWARD_FROM_SAMPLES = 4
# Share of the tracing that samples show which they must show outside of the backward pass and the update for it to be
# the forward pass (share): of a fast model they show other lines alone. A judgement.
FORWARD_FROM_SHARE = 0.05
# The same where tracing itself is looked at: of it, a function of the model may well hold more than half, and only the
# loop, or the step that it calls, holds the backward pass and the graph cut as well.
TRACING_LOOP_FROM_SHARE = 0.9
# Functions of torch and torch_xla that a stack of the backward pass, of an optimizer's step and of a graph cut has.
_BACKWARD = "_engine_run_backward"
_CUTS = {"sync", "mark_step"}
_BESIDE_FORWARD = {_BACKWARD, "backward", "_use_grad", *_CUTS}
# Where torch calls each optimizer's `step`, and what `@torch.no_grad()` makes of a function: no backward pass goes
# through either. An agent that plays without gradients was named as what the backward pass repeats.
_NO_BACKWARD = re.compile(r"/torch/optim/optimizer\.py:|^decorate_context \(.*/torch/utils/_contextlib\.py:")


def mostly_at(stacks: list[HostStackRow], part: str = TRACING) -> list[Where]:
    """Where most of the exposed tracing is, or of another part that feeds the device.

    That is its line, the function whose lines share it, or the line that calls it. Where only the training loop, or the
    step that it calls, holds half of it: the few lines that do together. Empty where those are too many, or unknown.
    """
    line, total = top_line(stacks, part)
    enough = LINE_FROM_SHARE * total
    if line is None:
        return []
    if line.ms >= enough:
        return [line]
    loops = places_that_train(stacks, user_functions, TRACING_LOOP_FROM_SHARE)
    trains = places_that_train(stacks, places_of_users, TRACING_LOOP_FROM_SHARE)
    one = function_of(stacks, part, enough, loops) or caller_of(stacks, part, enough, trains)
    if one is not None:
        return [one]
    lines = by_line(stacks, part)[:LINES_SHOWN]
    sums = accumulate(each.ms for each in lines)
    count = next((row for row, ms in enumerate(sums, 1) if ms >= enough), 0)
    return lines[:count] if all(each.source for each in lines[:count]) else []


def lines_that_trace(stacks: list[HostStackRow]) -> list[tuple[str, str, float, float]]:
    """As `lines_of`, with graph cuts last: nothing at such a line can be written otherwise."""
    cuts = {row.source for row in stacks if _CUTS & others_names(row.frames)}
    return sorted(lines_of(stacks, TRACING), key=lambda each: each[0] in cuts)


def forward_at(stacks: list[HostStackRow]) -> Where | None:
    """The function that most of the forward pass's tracing is in: a backward pass traces what it built.

    None where none holds enough, or no sample saw a backward pass.
    """
    traced = _tracing_rows(stacks)
    # A line that reads values builds what it reads (norms to log), and the backward pass repeats none of that.
    reads = {row.source for row in stacks if row.part == HOST_SYNC}
    outside = [row for row in traced if row.source not in reads and not _is_beside_forward(row)]
    backward = [row for row in traced if _BACKWARD in others_names(row.frames)]
    if not backward:
        return None
    # What calls `backward()`, too, is the step.
    steps = {each for row in backward for each in user_functions(row.frames)}
    loops = places_that_train(stacks, user_functions, TRACING_LOOP_FROM_SHARE) | steps
    forward, every = (sum(row.exposed_ms_per_step for row in rows) for rows in (outside, traced))
    enough = FUNCTION_FROM_SHARE * forward if forward >= FORWARD_FROM_SHARE * every else 0.0
    found = function_of(outside, TRACING, enough, loops) if enough else None
    return found if found and _seen_often(outside, found, user_functions) else None


def library_at(stacks: list[HostStackRow]) -> Where | None:
    """The function of a library that most of the forward pass's tracing is in, where one line of the user's trains.

    `trainer.train()` says nothing: the model, and the step, are the library's. None where no function holds enough.
    """
    traced = mostly_at(stacks)
    if len(traced) != 1 or traced[0].source not in places_that_train(
        stacks, places_of_users, TRACING_LOOP_FROM_SHARE
    ):
        return None
    rows = _tracing_rows(stacks)
    outside = [row for row in rows if not _is_beside_forward(row)]
    backward = [row for row in rows if _BACKWARD in others_names(row.frames)]
    # What has the backward pass, too, is the step.
    steps = {each for row in backward for each in library_functions(row.frames)}
    loops = places_that_train(stacks, library_functions, TRACING_LOOP_FROM_SHARE) | steps
    enough = FUNCTION_FROM_SHARE * sum(row.exposed_ms_per_step for row in outside)
    found = function_of(outside, TRACING, enough, loops, library_functions) if enough else None
    if found is None or not _seen_often(outside, found, library_functions):
        return None
    return replace(found, source=in_package(found.source))


def _is_beside_forward(row: HostStackRow) -> bool:
    """Whether a stack is of the backward pass, the graph cut, an optimizer's update, or code without gradients.

    Optimizers may be the user's own.
    """
    return bool(_BESIDE_FORWARD & others_names(row.frames)) or any(map(_NO_BACKWARD.search, row.frames))


def _tracing_rows(stacks: list[HostStackRow]) -> list[HostStackRow]:
    """Rows of tracing but for stacks that do more of something else: what was traced before it was so elsewhere."""
    return [row for row in feeding(stacks) if row.part == TRACING]


def _seen_often(
    rows: list[HostStackRow],
    found: Where,
    functions: Callable[[list[str]], dict[Function, tuple[int, str]]],
) -> bool:
    """Whether samples enough lie in a function for its share of these rows to be no accident."""
    function = (found.function, found.source.rpartition(":")[0])
    seen = (row.samples for row in rows if any(each[:2] == function for each in functions(row.frames)))
    return sum(seen) >= FORWARD_FROM_SAMPLES
