"""Results take memory of their own beside the inputs that they replace.

## What it detects

Inputs that were not donated, where it costs much: results take at least a quarter of the program's memory beside the
inputs that they replace, or programs copy whole inputs for at least a tenth of the step. A result replaces an input of
its type and dimensions where it is made from it element by element; a gradient does not replace its weight. Only
programs that update something count: those that multiply matrices, write to a part of an input, make several results of
two inputs each, or are most of the step. One op outside of a jitted function is of its inputs' type, and replaces none.

## Why it costs time

A donated input gives its memory to the result that replaces it. Without donation weights and optimizer state are there
twice, and the batch must be smaller. A result that changes a part of an input (a cache, a replay buffer) must not
overwrite it: XLA copies all of it first, in each step.

## Evidence

Bytes of such results, the memory that the program takes, and the copies of inputs with their device time.

## How to fix

Update in place: `weight.sub_(lr * grad)`, `copy_`, or a `torch.optim` optimizer. torch_xla donates the memory of
tensors that are updated in place before a `torch_xla.sync()`; a new tensor that takes the old one's place in a list is
no update. Keep `XLA_ENABLE_PARAM_ALIASING` unset, and keep no second reference to old values.

## How to fix in JAX

Put the update into a function under `jax.jit`, and name the arguments that it replaces by their own numbers:
`jax.jit(step, donate_argnums=(0, 1))` where parameters and optimizer state come first (`flax.nnx.jit` takes it as well,
for its modules). An update outside of `jax.jit` (`buffer.at[row].set(new)`) always copies. Use the results from then
on, since donated arrays are gone. No other argument may be the same array: of a target network or an average that
begins as the parameters make a copy first, `jax.tree.map(jnp.copy, params)`.

## Limits and false positives

An input that is still needed (the weights a moving average or an evaluation reads, a batch that is used again) cannot
be donated. A jitted update of a single array counts as an op where it is a small part of the step. Of memory only the
program that takes most is looked at, of copies all programs. The price is the time of these copies; without them only
memory is known to be at stake. Where the device's memory is known, results below a hundredth of it are no fault.

## References

- https://github.com/pytorch/xla/issues/8697
- https://docs.jax.dev/en/latest/buffer_donation.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, Price, counterfactual, failed, passed, rule
from tpuprof.rules.shared.ops import ms_of, op_evidence
from tpuprof.rules.thresholds import DONATION_LOST_FROM_CAPACITY, DONATION_LOST_FROM_SHARE, OPS_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change
from tpuprof.units import format_bytes, format_ms, format_share

# Share of the copying that one program must do for the title to name it (share). A judgement.
NAMED_FROM_SHARE = 0.9


@rule(
    about="donated inputs",
    good="Results use the memory of inputs they replace, or need little of their own",
    bad="Results take memory beside the inputs they replace",
    of_one_host=True,
    reads=("memory", "input_copies", "step_ms", "compute_ms"),
)
def check(signals: Signals) -> Outcome:
    """Fail where results take enough memory beside the inputs that they replace, or copies of inputs enough time."""
    memory = signals.memory
    lost, peak = memory.undonated_bytes, memory.peak_bytes
    if lost is None or not peak:
        raise Unavailable("which inputs a program donates is only in the programs that a profile embeds")
    copies = signals.input_copies
    copied_ms = copies.ms_per_step()
    evidence = [
        Evidence("results beside the inputs that they replace", lost, "bytes"),
        Evidence("memory of the program", peak, "bytes"),
        *op_evidence(copies),
    ]
    share = copied_ms / signals.step_ms if copied_ms else 0.0
    # Shorter copies have no price: one that is not worth a finding would take the memory's finding with it.
    long = share >= OPS_FROM_SHARE
    if not long:
        if lost < DONATION_LOST_FROM_SHARE * peak:
            return passed(evidence)
        if memory.capacity_bytes and lost < DONATION_LOST_FROM_CAPACITY * memory.capacity_bytes:
            return passed(evidence, reason="the device has room for them a hundred times over")
    return failed(
        share if long else 0.0,
        evidence,
        title=_copied(copied_ms, copies) if long else _kept(memory.program, lost, peak),
        price=_price(signals, copies, share, copied_ms) if long else None,
        reason="" if long else "the programs hardly copy such inputs, so only memory is known to be at stake",
    )


def _kept(program: str, lost: int, peak: int) -> str:
    """What results take, with the program by name: a program of JAX has several functions."""
    name = program.partition("(")[0]
    of, whose = (f" of {name}", "its") if name else ("", "the program's")
    return (
        f"Results{of} take {format_bytes(lost)} beside the inputs they replace, "
        f"{format_share(lost / peak)} of {whose} memory"
    )


def _copied(ms: float, copies: OpRows) -> str:
    """What copies for so long (ms per step), with the program that does most of it by name."""
    spent: dict[str, float] = {}
    for program, each in zip(copies.column("program"), copies.column("self_ms_per_step"), strict=True):
        spent[program] = spent.get(program, 0.0) + (each or 0.0)
    most = max(spent, key=lambda program: spent[program])
    who = f"{most.partition('(')[0]} copies" if spent[most] >= NAMED_FROM_SHARE * ms else "Programs copy"
    return f"{who} whole inputs because results must not overwrite them: {format_ms(ms)} per step"


def _price(signals: Signals, copies: OpRows, share: float, copied_ms: float) -> Price:
    """The step without the copies, which take that share of it."""
    left = max(1 - copied_ms / signals.compute_ms, 0.0)
    return counterfactual(Change(device={part.COMPUTE: left}), ops=ms_of(copies), ceiling=share)
