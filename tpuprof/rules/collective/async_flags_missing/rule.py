"""Gathers between chips run synchronously, and the flags that make them asynchronous are not set.

## What it detects

All-gathers or collective permutes that the device waits for and that no computing ran beside, in a run whose
LIBTPU_INIT_ARGS and XLA_FLAGS do not name the flag that makes this kind asynchronous, on a chip for which torch_xla
does not set it.

## Why it costs time

An asynchronous collective runs beside computing that does not need its result. A synchronous one stops the device.

## Evidence

The flags that are not set, and the collectives that they are about.

## How to fix

Set the flags in LIBTPU_INIT_ARGS before torch_xla is imported. torch_xla 2.9 sets them itself on v5e and v5p only.

## How to fix in JAX

Set the flags in LIBTPU_INIT_ARGS before jax is imported: JAX sets none of them itself.

## Limits and false positives

Where a flag is not set, libtpu decides ("auto", by OpenXLA's guide), so that it may be on without being set: the price
begins at nothing. For v6e libtpu 0.0.21 compiled gathers and permutes to the same asynchronous program with and without
the flags. A collective that some computing ran beside is asynchronous already, and is left out. One whose result is
needed at once has nothing to run beside.

## References

- https://github.com/pytorch/xla/pull/6168
- https://github.com/AI-Hypercomputer/maxtext/pull/368
- https://openxla.org/xla/flags_guidance
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.transfers import exposed_ops, exposed_share, transfer_evidence
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change

# The flag that makes each kind of collective asynchronous.
FLAGS = {
    "all-gather": "--xla_enable_async_all_gather",
    "collective-permute": "--xla_enable_async_collective_permute",
}
# Chips for which torch_xla 2.9 sets these flags itself.
SET_BY_TORCH_XLA = ("v5e", "v5p")
VARIABLES = ("LIBTPU_INIT_ARGS", "XLA_FLAGS")


@rule(
    about="flags for asynchronous collectives",
    good="Flags for asynchronous collectives are set, or hardly anything waits for collectives without them",
    bad="Flags for asynchronous collectives are not set",
    reads=("variables", "framework", "chip", "is_tpu", "collectives", "collective_share"),
)
def check(signals: Signals) -> Outcome:
    """Fail where enough of the step waits for collectives whose flag is not set."""
    if not signals.is_tpu:
        return not_applicable("the flags are libtpu's")
    rows = [row for row in signals.collectives if _flag(row.kind)]
    if not rows:
        return not_applicable("no all-gather and no collective permute ran in the steps")
    if signals.framework == "torch_xla" and signals.chip in SET_BY_TORCH_XLA:
        return not_applicable(f"torch_xla sets the flags itself on {signals.chip}")
    text = " ".join(signals.variables.get(name, "") for name in VARIABLES)
    # What computing ran beside is asynchronous already.
    without = [row for row in rows if _flag(row.kind) not in text and not row.hidden_ms_per_step]
    missing = sorted({_flag(row.kind) for row in without})
    evidence = [*(Evidence(f"not set: {flag}=true") for flag in missing), *transfer_evidence(without)]
    share = exposed_share(without, signals.collectives) * signals.collective_share
    if share < FAILS_FROM_SHARE:
        return passed(evidence)
    of_all = share / signals.collective_share
    return failed(
        share,
        evidence,
        title=f"The device waits for collectives without {' and '.join(missing)}",
        price=counterfactual(
            Change(device={part.COLLECTIVE: 1 - of_all}), Change(), ops=exposed_ops(without)
        ),
        confidence="low",
    )


def _flag(kind: str) -> str:
    """The flag for a kind of collective, empty where there is none."""
    return next((flag for name, flag in FLAGS.items() if name in kind), "")
