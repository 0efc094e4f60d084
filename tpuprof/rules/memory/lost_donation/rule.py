"""Results take memory of their own beside the inputs that they replace.

## What it detects

Programs whose results take at least a quarter of the program's memory beside the inputs that they replace: the inputs
were not donated, so that old and new weights or optimizer state lie in memory at the same time. A result replaces an
input of its type and dimensions where it is made from it element by element; a gradient does not replace its weight.

## Why it costs time

It costs memory: a donated input gives its memory to the result that replaces it. Without donation weights and optimizer
state are there twice, and the batch must be smaller.

## Evidence

Bytes of such results, and the memory that the program takes.

## How to fix

Update in place: `weight.sub_(lr * grad)`, `copy_`, or a `torch.optim` optimizer. torch_xla donates the memory of
tensors that are updated in place before a `torch_xla.sync()`; a new tensor that takes the old one's place in a list is
no update. Keep `XLA_ENABLE_PARAM_ALIASING` unset, and keep no second reference to old values.

## How to fix in JAX

Name the arguments that a step replaces: `jax.jit(step, donate_argnums=(0, 1))` for parameters and optimizer state. Use
the results from then on, since donated arrays are gone.

## Limits and false positives

An input that is still needed (the weights a moving average or an evaluation reads, a batch that is used again) cannot
be donated. Only the program that takes most memory is looked at. No step time is at stake. Where the device's memory is
known, results below a hundredth of it are no fault.

## References

- https://github.com/pytorch/xla/issues/8697
- https://docs.jax.dev/en/latest/buffer_donation.html
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, passed, rule
from tpuprof.rules.thresholds import DONATION_LOST_FROM_CAPACITY, DONATION_LOST_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.units import format_bytes, format_share


@rule(
    about="donated inputs",
    good="Results use the memory of inputs they replace, or need little of their own",
    bad="Results take memory beside the inputs they replace",
    of_one_host=True,
    reads=("memory",),
)
def check(signals: Signals) -> Outcome:
    """Fail where enough of the program's memory is results beside the inputs that they replace."""
    memory = signals.memory
    lost, peak = memory.undonated_bytes, memory.peak_bytes
    if lost is None or not peak:
        raise Unavailable("which inputs a program donates is only in the programs that a profile embeds")
    evidence = [
        Evidence("results beside the inputs that they replace", lost, "bytes"),
        Evidence("memory of the program", peak, "bytes"),
    ]
    if lost < DONATION_LOST_FROM_SHARE * peak:
        return passed(evidence)
    if memory.capacity_bytes and lost < DONATION_LOST_FROM_CAPACITY * memory.capacity_bytes:
        return passed(evidence, reason="the device has room for them a hundred times over")
    return failed(
        0.0,
        evidence,
        title=f"Results take {format_bytes(lost)} beside the inputs they replace, {format_share(lost / peak)} of all",
        reason="no step time is at stake, only memory",
    )
