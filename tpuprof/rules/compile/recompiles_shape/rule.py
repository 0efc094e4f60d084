"""Inputs change shape, and each new shape compiles.

## What it detects

Compiles inside the captured steps whose program differs from one before it by the shape or dtype of an input. So do
compiles between the steps, of a function that compiles there three times or more, where they take a tenth of the time
of both: text that is generated every twentieth step, say. These have no price, since no step is shorter without them.

## Why it costs time

XLA compiles for exact shapes: a batch of a new length is a new program, and training waits for the compiler.

## Evidence

Each compile with its step, its time, the shapes that changed, and the line that cut the graph.

## How to fix

[grows] A size grows from one program to the next here. Where that is a sequence to which each step adds, as in
generating text, allocate the whole length once, keep the position in a tensor on the device, write there
(`buffer.index_copy_(1, position, new)`), and let a mask hide what is not written yet: all steps then run one program. A
position that is a Python number would compile for each value.

[kept] An array has more rows in each step here. Where it joins values of all steps (`torch.stack(losses)`), keep a sum
and a count on the device in its place, or join them once, after training. Where all rows are needed in each step,
allocate the whole length once and write there (`rows.index_copy_(0, position, new)`), with the position in a tensor.

[batch] Give all batches one shape, or a few: pad sequences up to the next of a few lengths, and drop the last
incomplete batch (`drop_last=True`). A mask keeps padding out of the loss. A boolean mask as index (`x[mask]`,
`x[mask] = v`) and `nonzero` make a shape out of data: `torch.where(mask, v, x)` or `x.masked_fill(mask, v)` keeps one
shape.

[weights] It is the model that has other sizes here, not the batches: the weights, and all that an optimizer keeps of
them, changed shape. Each size of a model is a program of its own. Try few sizes, each for many steps, or build the
largest model once and mask what a smaller one does not have. `torch_xla.runtime.initialize_cache("/path")`
keeps programs on disk, so that a size that was compiled once compiles in no later run.

## How to fix in TorchTPU

[kept] An array has more rows in each step here. Where it joins values of all steps (`torch.stack(losses)`), keep a sum
and a count on the device in its place, or join them once, after training.

[batch] Give all batches one shape, or a few: pad sequences up to the next of a few lengths, and drop the last
incomplete batch (`drop_last=True`). A boolean mask as index (`x[mask]`) and `nonzero` make a shape out of data:
`torch.where(mask, v, x)` keeps one. Under torch.compile each size is a program of its own as well: torch_tpu 0.2
refuses `dynamic=True`. Its way to one program for several sizes is
`torch._dynamo.mark_dynamic(batch, 0, min=2, max=64)`, which the compiler of the CPU plugin refuses. On a device it was
not tried.

[weights] It is the model that has other sizes here, not the batches: the weights, and all that an optimizer keeps of
them, changed shape. Each size of a model is a program of its own. Try few sizes, each for many steps, or build the
largest model once and mask what a smaller one does not have.

## How to fix in JAX

[grows] A size grows from one program to the next here. Where that is a sequence to which each step adds, as in
generating text, allocate the whole length once, pass the position as an array, write there
(`jax.lax.dynamic_update_slice_in_dim(buffer, new, position, axis=1)`), and let a mask hide what is not written yet: all
steps then run one program.

[kept] An array has more rows in each step here. Where it joins values of all steps (`jnp.stack(losses)`), keep a sum
and a count in its place, or join them once, after training. Where all rows are needed in each step, allocate the whole
length once and write there (`rows.at[position].set(new)`), with the position in an array.

[batch] Give all batches one shape, or a few: pad sequences up to the next of a few lengths, and drop the last
incomplete batch. `jax.jit` compiles for each shape it meets.

[weights] It is the model that has other sizes here, not the batches: the weights, and all that an optimizer keeps of
them, changed shape. Each size of a model is a program of its own. Try few sizes, each for many steps, or build the
largest model once and mask what a smaller one does not have. `jax.config.update("jax_compilation_cache_dir", "/path")`
keeps programs on disk, so that a size that was compiled once compiles in no later run.

## Limits and false positives

The first steps of a run compile every shape once, which is not a fault: capture after warm-up. The price leaves the
padding's own computing out.

## References

- https://github.com/pytorch/xla/issues/1368
- https://docs.pytorch.org/xla/release/r2.9/perf/recompilation.html
"""

from __future__ import annotations

import re
from dataclasses import replace

from tpuprof.model.compile.cause import WEIGHTS
from tpuprof.model.compile.compiles import function_of
from tpuprof.report.schema import CompileRow
from tpuprof.rules.base import FAILED, STABLE, Outcome, rule
from tpuprof.rules.shared.compile_kinds import OF_ARGUMENTS, chosen_compiles
from tpuprof.rules.shared.compiles_between import between_of
from tpuprof.rules.shared.recompiles import check_kinds
from tpuprof.signals import Signals
from tpuprof.units import listed

# Steps in a row that compile for a size larger by the same amount, from which that is no chance (steps). A judgement:
# lengths of a few tens that are drawn by chance do so once in thousands of captures.
GROWS_FROM_STEPS = 4
# Share of the compiles from which the model is what changes: the first program of a size may have nothing else to be
# compared with than one of another kind (ratio). A judgement.
WEIGHTS_FROM_SHARE = 0.5
_CHANGED = re.compile(r"(\w+)\[([\d,]+)\] became (\w+)\[([\d,]+)\]")
# One of the changes that a cause lists, with the argument's name where that is known and how many inputs have it; and
# how many inputs changed in all.
_ONE_CHANGE = re.compile(r"(?:[^\s,:]+ )?\w+\[[\d,]*\] became \w+\[[\d,]*\](?: \((\d+) times\))?")
_HOW_MANY = re.compile(r"(\d+) (?:inputs|arguments) changed")
# Changes that a title names (count): as many as the evidence of a compile does.
NAMED = 3


@rule(
    status=STABLE,
    about="compiles for new input shapes",
    good="Compiles for new input shapes cost little or nothing",
    bad="Inputs change shape, and each new shape compiles",
    reads=(
        "step_ms",
        "steps",
        "tracing_hidden_ms",
        "phases",
        "step_compiles",
        "compiles_outside_steps",
        "compile_share",
        "records_if_noted",
        "after_capture",
        "framework",
        "uncut_steps",
        "cutting_reads",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where compiles for a new shape or dtype take enough of the step time."""
    found = check_kinds(signals, OF_ARGUMENTS)
    if found.status == FAILED:
        chosen = chosen_compiles(signals.step_compiles, OF_ARGUMENTS, signals.framework)
        return _told(found, chosen, _grown(chosen))
    between = between_of(signals, OF_ARGUMENTS)
    if between is None:
        return replace(found, cases=frozenset())
    return _told(*between, {"grows"} if grows_in_a_row(between[1]) else set())


def _grown(chosen: list[CompileRow]) -> set[str]:
    return {*(["grows"] if grows(chosen) else []), *(["kept"] if grows(chosen, rows=True) else [])}


def _told(found: Outcome, chosen: list[CompileRow], grown: set[str]) -> Outcome:
    """The finding with what changed, and the advice that fits; `grown` are cases of a size that grows steadily."""
    weights = of_weights(chosen)
    what = "the model's weights changed" if weights else "inputs changed"
    title = f"{found.title}; {what}{_change(chosen)}"
    if weights:
        return replace(found, title=title, cases=frozenset({"weights"}))
    alone = grown and all(_grew_alone(row) for row in chosen if row.cause.kind != "first")
    return replace(found, title=title, cases=frozenset(grown if alone else {*grown, "batch"}))


def _change(compiles: list[CompileRow]) -> str:
    """What changed for the compile that took longest, as far as that is known: ` (f32[8,4] became f32[9,4])`."""
    longest = max(compiles, key=lambda row: (_CHANGED.search(row.cause.detail) is not None, row.duration_ms))
    found = list(_ONE_CHANGE.finditer(longest.cause.detail))[:NAMED]
    if not found:
        return ""
    many = _HOW_MANY.search(longest.cause.detail)
    of_inputs = sum(int(each.group(1) or 1) for each in found)
    others = max(int(many.group(1)) - of_inputs, 0) if many else 0
    return f" ({listed([each.group() for each in found], NAMED, 'other', len(found) + others)})"


def of_weights(compiles: list[CompileRow]) -> bool:
    """Whether it is the model that has another size in most of these compiles."""
    seen = sum(WEIGHTS in row.cause.detail for row in compiles)
    return seen > WEIGHTS_FROM_SHARE * len(compiles)


def grows(compiles: list[CompileRow], *, rows: bool = False) -> bool:
    """Whether each step compiles for a length larger than the last step's, by the same amount in all.

    `rows`: a length in the first dimension, and not in another one.
    """
    # The first program of a function has nothing to be compared with.
    compiles = [row for row in compiles if row.cause.kind != "first"]
    steps = sorted({row.step for row in compiles if row.step is not None})
    if len(steps) < GROWS_FROM_STEPS or steps[-1] - steps[0] >= len(steps):
        return False
    ends: set[tuple[int, int]] | None = None
    for step in steps:
        sizes = [
            pair for row in compiles if row.step == step for pair in _larger(row.cause.detail, rows=rows)
        ]
        ends = {(now, now - was) for was, now in sizes if ends is None or (was, now - was) in ends}
    return bool(ends)


def grows_in_a_row(compiles: list[CompileRow]) -> bool:
    """Whether a function compiles again and again for a length larger by the same amount, in whatever dimension."""
    lengths: dict[str, list[set[tuple[int, int]]]] = {}
    for row in sorted(compiles, key=lambda each: each.start_ns):
        pairs = {pair for rows in (True, False) for pair in _larger(row.cause.detail, rows=rows)}
        lengths.setdefault(function_of(row.program), []).append(pairs)
    return any(_longest_chain(each) >= GROWS_FROM_STEPS for each in lengths.values())


def _longest_chain(lengths: list[set[tuple[int, int]]]) -> int:
    """How many compiles in a row, at most, are each for a length as much larger than the one before."""
    longest = 0
    chains: dict[tuple[int, int], int] = {}
    for pairs in lengths:
        chains = {(now, now - was): chains.get((was, now - was), 0) + 1 for was, now in pairs}
        longest = max([longest, *chains.values()])
    return longest


def _grew_alone(row: CompileRow) -> bool:
    """Whether nothing changed but one input, by a length that grew."""
    detail = row.cause.detail
    one = len(_CHANGED.findall(detail)) == 1 and not _HOW_MANY.search(detail)
    return one and any(_larger(detail, rows=rows) for rows in (True, False))


def _larger(detail: str, *, rows: bool) -> list[tuple[int, int]]:
    """The length before and now of inputs that grew in one dimension, of those that a cause lists.

    What grows in the first one is a batch, or an array that joins values of many steps.
    """
    found = []
    for was_type, was, now_type, now in _CHANGED.findall(detail):
        before, after = was.split(","), now.split(",")
        if was_type == now_type and len(before) == len(after) and (before[0] != after[0]) is rows:
            changed = [(int(a), int(b)) for a, b in zip(before, after, strict=True) if a != b]
            found += [pair for pair in changed if len(changed) == 1 and pair[0] < pair[1]]
    return found
