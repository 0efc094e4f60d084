"""The program computes gradients that no optimizer uses.

## What it detects

Parameters that require gradients and belong to no `torch.optim` optimizer of the process, and whose gradients are added
up from step to step. Nobody sets them to zero, and no result but the sum is made of them. Ordinary causes: a teacher
runs without `torch.no_grad()`; a fine-tuned model gives the optimizer its head alone, and the rest still requires
gradients.

## Why it costs time

The backward pass goes through all that such a gradient is made of. The gradients stay in memory, so PyTorch/XLA has to
compute them, and XLA cannot drop that work.

## Evidence

The module, how many of its parameters there are, their bytes, how often each gradient was added to, and the ops that
the programs of the step run for these gradients alone, with their device time.

## How to fix

Run a model that only gives targets without gradients: `with torch.no_grad(): target = teacher(batch)`. Of a model
whose head alone is trained, call `model.backbone.requires_grad_(False)` before training. The backward pass then ends
where the trained parts begin. `detach()` of the teacher's output has the same effect on time. Where the parameters
should be trained, give them to the optimizer.

## How to fix in TorchTPU

Run a model that only gives targets without gradients: `with torch.no_grad(): target = teacher(batch)`. Of a model
whose head alone is trained, call `model.backbone.requires_grad_(False)` before training. Where the parameters should be
trained, give them to the optimizer.

## Limits and false positives

A gradient that was set to None or to zero in the step, as by `model.zero_grad()`, was taken by somebody and does not
count, even if nobody used it. An optimizer that is no `torch.optim.Optimizer` is unknown: without another one that
steps the rule is not checked. A program that reads the sums in a program of its own once in a while, as for an
importance of weights, looks the same: confidence is lower where the gradients were made again since training began.
Which results of a program are these gradients is known by their dimensions and number. Of more sums than gradients of
the same dimensions, as where gradients of the trained parts are accumulated, the price is a range. Where the program
adds up only some of them, others may keep work alive, and the price is the least. Where the backward pass is a program
of its own, as after torch.compile or in TorchTPU, the time has no price. On TorchTPU the rule is not
checked where a step calls an op that may set gradients to zero. To find the parameters takes about 0.1 s for half a
million objects of Python, before the profiler runs. Measured on a CPU device: a step of 108 ms with a teacher took 29
ms without its gradients, and the ops that were left took 32.5 ms of the device's time where 33.4 were measured then.

## References

- https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation
- https://docs.pytorch.org/tutorials/beginner/knowledge_distillation_tutorial.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tpuprof import parts as part
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import (
    Outcome,
    Price,
    counterfactual,
    failed,
    not_applicable,
    not_checked,
    passed,
    rule,
)
from tpuprof.rules.programs import JAX, TORCH_TPU
from tpuprof.rules.shared.ops import ms_of, op_evidence
from tpuprof.rules.shared.own_cpus import short_of_cpus
from tpuprof.rules.thresholds import OPS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import counted, format_share, listed, text_range

if TYPE_CHECKING:
    from tpuprof.model.device.unused_gradients import UnusedWork
    from tpuprof.model.held_gradients import GradientGroup, HeldGradients

# Modules named in the title (modules): with more, a title is no sentence that can be read.
NAMED = 2


@rule(
    about="gradients that no optimizer uses",
    good="Hardly any work is for gradients that no optimizer uses",
    bad="The program computes gradients that no optimizer uses",
    of_one_host=True,
    reads=(
        "framework",
        "predicted",
        "held_gradients",
        "unused_work",
        "unused_ops",
        "gradient_resets",
        "compute_ms",
        "busy_share",
        "device_type",
        "cpus_short",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where gradients are added up that no optimizer uses, and their work takes enough time or is not known."""
    if signals.framework == JAX:
        return not_applicable("JAX computes the gradients that a program asks for, and keeps none")
    if signals.predicted:
        return not_applicable("no program trained, so no gradient was held")
    held = signals.held_gradients
    work = None if signals.framework == TORCH_TPU else signals.unused_work
    resets = signals.gradient_resets if work is None else None
    groups = _added_up(held, work, resets)
    if not groups:
        return _none_is_sure(held, work, resets)
    evidence = _evidence(groups)
    certain = all(each.changes_before + 1 >= held.steps_before for each in groups)
    sure, possible = signals.unused_ops
    if work is None or not work.multiplies or not possible:
        return failed(
            0.0,
            evidence,
            title=f"{_what(groups)} are added up, and no optimizer uses them",
            reason=_unpriced(work),
            confidence="medium" if certain else "low",
        )
    share, least = (rows.ms_per_step() / signals.compute_ms for rows in (possible, sure))
    evidence += op_evidence(possible)
    if share < OPS_FROM_SHARE:
        said = f"the ops that compute only such gradients take {format_share(share)} of the device's time"
        return passed(evidence, reason=said)
    shares = text_range(format_share(least), format_share(share))
    all_found = all(work.found.get(dims, 0) >= count for dims, count in held.by_shape.items())
    at_least = "" if all_found else "at least "
    return failed(
        share * signals.busy_share,
        evidence,
        title=f"{_what(groups)} take {at_least}{shares} of the device's time, and no optimizer uses them",
        price=_price(signals, possible, share, least),
        confidence="high" if certain and all_found and not work.spare else "medium",
    )


def _none_is_sure(held: HeldGradients, work: UnusedWork | None, resets: tuple[str, ...] | None) -> Outcome:
    """What is said where no gradient is surely added up."""
    if not held.groups:
        return passed()
    if work is not None:
        return passed(reason="no program only adds these gradients up: it reads them, or sets them to zero")
    if resets:
        said = (
            f"{listed(resets, NAMED)} may set the gradients of {_modules(held.groups)} to zero in each step"
        )
        return not_checked(said)
    return not_checked(
        f"the gradients of {_modules(held.groups)} change several times per step of an optimizer: without the programs "
        "it is unknown whether they are added up or set to zero"
    )


def _added_up(
    held: HeldGradients, work: UnusedWork | None, resets: tuple[str, ...] | None
) -> list[GradientGroup]:
    """Those of the gradients that are surely added up.

    A program tells by its sums, and an eager framework by its ops. Without both, more changes than steps may be sums of
    several batches, or sums that are set to zero each time.
    """
    if work is not None:
        return [each for each in held.groups if work.found.get(each.shape)]
    if resets is not None:
        return [] if resets else list(held.groups)
    return [each for each in held.groups if each.grew_most <= held.steps]


def _what(groups: list[GradientGroup]) -> str:
    """How many, of which modules, and the largest: two models of one class differ in that."""
    count = sum(each.count for each in groups)
    largest = max(groups, key=lambda each: each.bytes / max(each.count, 1))
    of = f"{counted(count, 'parameter')} of {_modules(groups)}"
    if count < 2 or not largest.shape:
        return f"Gradients of {of}"
    return f"Gradients of {of} (the largest {' x '.join(map(str, largest.shape))})"


def _modules(groups: Sequence[GradientGroup]) -> str:
    """The modules by name, those with most bytes first."""
    sizes: dict[str, int] = {}
    for each in groups:
        name = each.module or "no module"
        sizes[name] = sizes.get(name, 0) + each.bytes
    return listed(sorted(sizes, key=lambda name: -sizes[name]), NAMED)


def _evidence(groups: list[GradientGroup]) -> list[Evidence]:
    found: list[Evidence] = []
    for name in dict.fromkeys(each.module for each in groups):
        mine = [each for each in groups if each.module == name]
        held = sum(each.bytes for each in mine)
        found.append(Evidence(f"gradients of {name or 'no module'} that no optimizer uses", held, "bytes"))
    grew = min(each.grew_least for each in groups)
    return [*found, Evidence("times that each was added to in the captured steps, at least", grew, "times")]


def _unpriced(work: UnusedWork | None) -> str:
    if work is None:
        return "the programs of this trace do not tell which of their work is for these gradients"
    if not work.multiplies:
        return "the programs that add these gradients up do not compute them, so which work is for them is unknown"
    return "the trace has no times of the ops that compute them"


def _price(signals: Signals, rows: OpRows, share: float, least: float) -> Price:
    """The step without these ops."""
    return replace(
        counterfactual(
            Change(device={part.COMPUTE: 1 - share}),
            Change(device={part.COMPUTE: 1 - least}),
            ops=ms_of(rows),
        ),
        # Where the host waits for CPUs that such a device uses, it is faster without that work as well.
        in_all=share * signals.busy_share if short_of_cpus(signals) else 0.0,
    )
