"""Steps build different graphs, and each compiles.

## What it detects

Compiles inside the captured steps that no new shape and no constant explains: other ops, another number of inputs,
other shardings, or a cause the trace cannot tell. Of JAX, also programs that are the same as one before, as those of a
function that is made again; where that function bakes in arrays that change, recompiles-constant has all of them.

## Why it costs time

Python that decides in each step what to compute (layer dropout, a loss term in some steps only, a loop of another
length) makes a new graph for each decision, and training waits for the compiler.

## Evidence

Each compile with its step, its time, what changed, and the line that cut the graph.

## How to fix

[grows] Where a list keeps a tensor of each step and is used in a step (`torch.cat(outputs)`), each such graph takes
more inputs than the last one's: keep a sum or a count on the device in its place, or use the list once, after training.
Exact metrics of torchmetrics keep such lists (`BinaryAUROC`, `AveragePrecision`, curves): keep such a metric on the
host (`metric.cpu()`), and give it what you read of several steps at once.

[ends] Where a value that is read ends a Python loop (`if error < tolerance: break`), run a fixed number of rounds and
keep the result that counts with `torch.where`. Or end each round with `torch_xla.sync()` and read after it: all rounds
then run one program.

[unseen] Where batches change their shape now and then (longer sequences, another image size, a last incomplete batch),
give all one shape, or a few: recompiles-shape has more on that. Where graphs of one shape differ, this is how to keep
them the same.

[seldom] What is computed after the cut and kept (`acc = accuracy(out, y)` in every tenth step) is part of the next
step's graph, which is another one then: `del acc` once it was read, or compute it before the cut. A factor that becomes
exactly 0 or 1 makes another graph, because torch_xla bakes in these two: `1 - lr * weight_decay` does where the
learning rate ends near 0, so let the schedule end a little higher.

[decides] Let the decision be data: compute both ways and choose with torch.where, or multiply by a mask. This costs the
computing that was skipped before. Where that is too much, keep the number of different graphs small and let each
compile once before training (layer dropout: a few fixed sets of layers). Random augmentations of a library, as those of
kornia, decide in Python which of them apply: let a loader's workers augment on the host. Where a Python loop runs
another number of rounds in each step (the moves of an episode, the words of a text), pad to a few fixed numbers, or end
each round with `torch_xla.sync()`: all rounds then run one program.

## How to fix in TorchTPU

Let every op and shape of the step run once before training counts. Where compiles come back, find the program's
reason with `TORCH_TRACE=/tmp/trace`, and dynamo's with `TORCH_LOGS=recompiles`: a shape that changes, a Python number
that the program holds, or a branch taken for the first time.

## How to fix in JAX

[unseen] Where batches change their shape now and then (longer sequences, another image size, a last incomplete batch),
give all one shape, or a few: recompiles-shape has more on that.

[function] Make each jitted function once, outside of the loop: to `jax.jit` a function, a lambda, a
`functools.partial` or an object's method (`jax.jit(self.update)`) that is made again in each step or epoch is another
one, and compiles once more.

[static] Make an object that is a static argument once, outside of the loop (`self` is one, where a method is jitted
with `static_argnums=0`), or give its class `__eq__` and `__hash__`, as a frozen dataclass has: JAX compiles for each
object that is not equal to one before.

[number] Give a number one type in all calls, such as `jnp.float32(lr)`: a Python number and an array do not share a
program.

[flow] Put `jax.jit` around the function that calls `jax.lax.cond`, `scan`, `while_loop` or `fori_loop`: outside of a
jitted function such a call compiles whenever the functions that it is given were made again, as those of
`optax.MultiSteps` are in each update. Where a library makes that call, jit the library's function that your training
loop calls, as `jax.jit(svi.update)` of NumPyro, and not the model that the library traces.

[ask] Which of these it is, JAX says in a capture with `JAX_EXPLAIN_CACHE_MISSES=1`, unless the function is a library's.

[other] Let the decision be data: `jnp.where`, or `jax.lax.cond` where one side is expensive. Keep the structure of what
is passed to a jitted function the same: another tree of arguments or another dtype compiles again. Where a list keeps
an array of each step and `jnp.stack` or `jnp.concatenate` joins them, each step's program takes more inputs than the
last one's: keep a sum or a count in its place, or join them once, after training.

## Limits and false positives

Compiles behind one for a new count of a boolean mask, in the same step, may follow from that count: the title says how
many, the price begins without them, and boolean-mask has them in its upper end. The program may also build other graphs
by itself.

The first run of evaluation or logging code compiles once, which is not a fault: where steps and compiles were counted
after the capture, and none came again, it counts as start-up cost. Compiles that come outside the captured steps only
have no graph to compare, so their lines are all that is known.

## References

- https://github.com/pytorch/xla/issues/6614
- https://github.com/pytorch/xla/issues/2327
"""

from __future__ import annotations

from dataclasses import replace

from tpuprof.report.schema import CompileRow
from tpuprof.rules.base import FAILED, STABLE, Outcome, rule
from tpuprof.rules.shared.compile_kinds import OF_ARGUMENTS, chosen_compiles, graphs_per_shape
from tpuprof.rules.shared.compiles_afterwards import check_afterwards
from tpuprof.rules.shared.fallbacks import SELECTING, usual_fallbacks
from tpuprof.rules.shared.mask_compiles import behind_counts
from tpuprof.rules.shared.recompiles import check_kinds
from tpuprof.signals import Signals, Unavailable

KINDS = ("graph", "sharding", "again", "first", "unknown")
# Share of the steps that compile for a new shape from which another graph at that line would compile as well (share):
# more than half, so that the step in question likely has a new shape, too. A judgement.
MOST_STEPS = 0.5


@rule(
    status=STABLE,
    about="compiles of different graphs",
    good="Compiles of different graphs cost little or nothing",
    bad="Steps build different graphs, and each compiles",
    reads=(
        "step_ms",
        "steps",
        "tracing_hidden_ms",
        "phases",
        "step_compiles",
        "compile_share",
        "records_if_noted",
        "after_capture",
        "framework",
        "uncut_steps",
        "cutting_reads",
        "explains_misses",
        "fallbacks",
        "compiling_looks_if_seen",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where compiles for any other reason, or compiles outside the captured steps, take enough of the time."""
    masks = _of_masks(signals)
    shapes = [] if masks else _of_shapes(signals)
    found = check_kinds(signals, KINDS, [*masks, *shapes])
    if found.status != FAILED:
        return check_afterwards(signals) or found
    if masks or shapes:
        return replace(found, title=found.title + (_said_of(masks) if masks else _said_of_shapes(shapes)))
    return found


def _of_shapes(signals: Signals) -> list[CompileRow]:
    """Compiles of other graphs where most steps compile for a new shape: these would compile anyway.

    So they would in a step that logs, and whose batch has a new length as all others do.
    """
    try:
        compiles = signals.step_compiles
    except Unavailable:
        return []
    chosen = chosen_compiles(compiles, OF_ARGUMENTS, signals.framework)
    if len({(row.host, row.step) for row in chosen}) < MOST_STEPS * len(signals.steps):
        return []
    return graphs_per_shape(compiles, chosen, OF_ARGUMENTS)


def _said_of_shapes(compiles: list[CompileRow]) -> str:
    them = "one of them is" if len(compiles) == 1 else f"{len(compiles)} of them are"
    shapes = "compiles for new shapes in most steps, which may be the cause: see recompiles-shape"
    return f"; {them} at a line that {shapes}"


def _of_masks(signals: Signals) -> list[CompileRow]:
    """Compiles that may come of boolean masks: where a usual step selects by one, behind a compile for a new count."""
    try:
        selecting = any(row.op in SELECTING for row in usual_fallbacks(signals))
        own = {id(row) for row in chosen_compiles(signals.step_compiles, KINDS)} if selecting else set()
        return [row for row in behind_counts(signals.step_compiles) if id(row) in own] if own else []
    except Unavailable:
        return []


def _said_of(compiles: list[CompileRow]) -> str:
    them = "one of them comes" if len(compiles) == 1 else f"{len(compiles)} of them come"
    return f"; {them} behind a boolean mask in the same step, which may be the cause: see boolean-mask"
