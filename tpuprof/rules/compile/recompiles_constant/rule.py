"""A number that Python bakes into the graph changes, and each value compiles.

## What it detects

Compiles inside the captured steps whose program differs from one before it by a constant only: a learning rate, a
step counter, an index. Of JAX, also compiles that made the same program again, where the same function at the same
line bakes in arrays that change: the function is made again each time, and one change cures both.

## Why it costs time

Some Python numbers become part of the graph: exponents, sizes, shifts, bounds of slices. Each new value is a new
program, and training waits for the compiler. In PyTorch/XLA a factor or an added number is an input, and costs nothing.

## Evidence

Each compile with its step, its time, the constants that changed, and the line that cut the graph.

## How to fix

Hand the number over as a tensor that is made on the CPU: `torch.tensor(number).to(device)`. Its value is then an input
of the same graph. An index: `table.index_select(0, torch.tensor([i]).to(device))`. With a tensor of no dimension as
index, `table[i]` reads its value and bakes that in again.

A slice that moves: `queue.index_copy_(dim, (torch.arange(n) + i).to(device), x)`, with `dim` the sliced one. A slice
whose size changes: fill a mask on the CPU, and choose with `torch.where(mask.to(device), a, b)`. `torch.roll`:
`x.index_select(0, ((torch.arange(n) - shift) % n).to(device))`. An augmentation that cuts or pastes at random places
(CutMix, random crops): apply it on the CPU, before the copy to the device.

## How to fix in TorchTPU

Pass the number as a tensor (`torch.tensor(value).to("tpu")`). Under torch.compile a Python int that changes is baked
into the program, and each value compiles: make it a tensor. In eager mode most numbers are uploaded and compile
nothing.

## How to fix in JAX

[closure] Make the jitted function once, outside of the loop, and hand it all arrays as arguments:
`grad = jax.jit(jax.value_and_grad(loss_fn))`, then `grad(params, x, y)` in the loop. A lambda or an inner function that
is made in each step, as `lambda p: loss_fn(p, x, y)` is, bakes in the arrays that it takes from around it, and compiles
in each step. An array that the function makes of a static argument is one to hand over, too.

[number] Pass the number as an array (`jnp.asarray(number)`) to a function that is jitted once, outside of the loop: not
as a static argument and not captured by a closure. What `jax.jit` lists in `static_argnums` or `static_argnames`
compiles for each value. Where Python itself looks at it (a shape, the rate of `nn.Dropout`), let it have few values, or
compute with the array: `jax.random.bernoulli(key, 1 - rate, x.shape)`.

## Limits and false positives

Which line uses the constant is known only where the programs carry source lines. `torch.arange(i, i + n,
device=device)` bakes its bounds in, and `torch.roll` its shift even where that is a tensor.

## References

- https://github.com/pytorch/xla/issues/3604
- https://docs.pytorch.org/xla/release/r2.9/perf/recompilation.html
"""

from __future__ import annotations

from dataclasses import replace

from tpuprof.model.compile.recurrence import AGAIN
from tpuprof.rules.base import FAILED, STABLE, Outcome, rule
from tpuprof.rules.shared.compile_kinds import chosen_compiles
from tpuprof.rules.shared.recompiles import check_kinds, closes_over_arrays
from tpuprof.signals import Signals

KINDS = ("constant",)
# Why compiles of one function with the same arrays belong to those with other ones.
_REMADE = "the function, or a static argument of it, is made again each time"


@rule(
    status=STABLE,
    about="compiles for changed constants",
    good="Compiles for changed constants cost little or nothing",
    bad="A number baked into the graph changes, and each value compiles",
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
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where compiles for a new constant take enough of the step time."""
    found = check_kinds(signals, KINDS)
    if found.status != FAILED:
        return found
    chosen = chosen_compiles(signals.step_compiles, KINDS, signals.framework)
    if not closes_over_arrays(signals, chosen):
        return replace(found, cases=frozenset({"number"}))
    again = sum(row.cause.kind == AGAIN for row in chosen)
    title = f"{found.title}; arrays that the function bakes in have changed"
    if again:
        title += f" in {len(chosen) - again} of them, and {again} made the same program again: {_REMADE}"
    return replace(found, title=title, cases=frozenset({"closure"}))
