"""The model and its batches are not on the device.

## What it detects

Captured steps in which no tensor of torch_xla was made and no graph ran, by the counters of torch_xla.

## Why it costs time

The program computes with PyTorch on the CPU of the host. The TPU has nothing to do, and `torch_xla.sync()` cuts graphs
that are empty.

## Evidence

How many captured steps used nothing of the device.

## How to fix

Move the model and each batch to the device: `device = torch_xla.device()`, `model.to(device)`, `batch.to(device)`. A
script that chooses its device by `torch.cuda.is_available()` or by a flag computes on the CPU where neither holds.

## Limits and false positives

A process that helps others, and trains nothing itself, looks the same. Nothing is said where the run folder holds no
counters, as in profiles of other tools, and none of a program of JAX, which computes on the device that it finds.

## References

- https://docs.pytorch.org/xla/release/r2.9/learn/pytorch-on-xla-devices.html
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.signals import Signals
from tpuprof.units import counted


@rule(
    about="use of the device",
    good="The steps compute on the device",
    bad="The model and its batches are not on the device",
    reads=("framework", "off_device"),
)
def check(signals: Signals) -> Outcome:
    """Fail where no captured step made a tensor of torch_xla or ran a graph."""
    if signals.framework != "torch_xla":
        return not_applicable("only a program of torch_xla can leave its tensors on the CPU unnoticed")
    steps = signals.off_device
    if not steps:
        return passed()
    return failed(
        1.0,
        [Evidence("steps that computed nothing on the device", steps, "steps")],
        title=f"Nothing of {counted(steps, 'captured step')} is on the device: the model computes on the host's CPU",
        reason="what the step takes on the device is unknown",
        confidence="high",
    )
