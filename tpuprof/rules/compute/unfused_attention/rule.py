"""Attention is written out instead of using a fused kernel.

## What it detects

On TPU, softmax ops outside a Pallas kernel that take at least a tenth of the device's time. The softmax of a loss
(`log_softmax`, cross entropy) does not count.

## Why it costs time

Written out, attention moves the whole matrix of scores through HBM several times, forward and backward; a fused
kernel keeps it in VMEM.

## Evidence

The softmax ops with their device time and source lines.

## How to fix

Use the Pallas kernel of `torch_xla.experimental.custom_kernel.flash_attention`. Note its defaults: sm_scale is 1, not
one over the root of the width, and causal is off. Under SPMD pass partition_spec and mesh: without them each device
gets the whole tensors. `torch_xla.experimental.splash_attention.splash_attention` is the other kernel. It has no scale
(multiply the queries by it first), is causal by default, and wants a mesh with the axes "data" and "fsdp". Both need a
jax and a libtpu of one release: libtpu 0.0.21, which torch_xla 2.9 asks for, refuses kernels of jax 0.7.1 ("Unsupported
version", issue 9614).

## How to fix in JAX

Use `jax.experimental.pallas.ops.tpu.flash_attention.flash_attention` or the splash attention beside it. Note the
defaults: sm_scale is 1 and causal is off. Splash attention has no scale: multiply the queries by it first. Under a mesh
call either inside `jax.shard_map(..., check_vma=False)`.

## Limits and false positives

Flash and splash attention work inside scan and scan_layers (pytorch/xla pull request 8654); the grouped matrix
product of mixture-of-experts models (GMM) does not (issue 8642). The kernel computes in blocks: sequences shorter
than a block gain little. A softmax over classes that is written out by hand, or that of a router, is not attention.
Programs need scopes (tpuprof capture has them) for the softmax to be found.

## References

- https://docs.pytorch.org/xla/release/r2.9/features/pallas.html
- https://github.com/pytorch/xla/pull/8654
- https://github.com/pytorch/xla/issues/8642
- https://github.com/pytorch/xla/issues/9614
"""

from __future__ import annotations

from operator import and_

from tpuprof import parts as part
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.ops import ms_of, op_evidence
from tpuprof.rules.thresholds import OPS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

# How much of the softmax ops' time a fused kernel leaves (ratio): the arithmetic stays, the traffic goes.
LEFT = 0.3
# How a softmax of a loss is called, or what calls it: aten::log_softmax, optax's softmax_cross_entropy, fused losses.
_OF_A_LOSS = ("log_softmax", "cross_entropy", "crossentropy")
_WORD, _ATTENTION, _LOSS = "softmax", "attention", "loss"


@rule(
    about="attention written out",
    good="Attention is fused, or takes little",
    bad="Attention is written out",
    reads=("busy_share", "hosts", "is_tpu", "ops", "op_ms"),
)
def check(signals: Signals) -> Outcome:
    """Fail where softmax ops take enough of the device's time on a TPU."""
    if not signals.is_tpu:
        return not_applicable("the kernel is for TPUs")
    ops = signals.ops
    texts = [
        f"{annotation}/{name}".lower()
        for annotation, name in zip(ops.column("annotation"), ops.column("name"), strict=True)
    ]
    named = [_WORD in text and _softmax_of(text) == _ATTENTION for text in texts]
    attends = signals.scoped_ops(_WORD, lambda scope: _softmax_of(scope) == _ATTENTION)
    scoped = [found and not own for found, own in zip(attends, named, strict=True)]
    losses = signals.scoped_ops(_WORD, lambda scope: _softmax_of(scope) == _LOSS)
    written = [not kernel and not loss for kernel, loss in zip(ops.column("kernel"), losses, strict=True)]
    rows = ops.where(map(and_, named, written)).also(ops.where(map(and_, scoped, written)))
    if not rows:
        return not_applicable("no softmax outside a kernel was found in the programs, but for that of a loss")
    ms = sum(rows.column("self_ms"))
    share = ms / signals.op_ms
    evidence = op_evidence(rows)
    if share < OPS_FROM_SHARE:
        return passed(evidence)
    return failed(
        share * signals.busy_share,
        evidence,
        title=f"Attention is written out: its softmax takes {format_share(share)} of the device's time",
        price=counterfactual(
            Change(device={part.COMPUTE: 1 - share * (1 - LEFT)}),
            Change(),
            ops=ms_of(rows, LEFT),
        ),
        confidence="low",
    )


def _softmax_of(path: str) -> str:
    """Whose softmax a path of scopes in lower case holds; empty where it holds none.

    Only the scope itself and the one around it tell: a function of the whole step is often named after its loss.
    """
    scopes = path.split("/")
    for at, scope in enumerate(scopes):
        if _WORD in scope:
            near = "/".join(scopes[max(at - 1, 0) : at + 1])
            return _LOSS if any(word in near for word in _OF_A_LOSS) else _ATTENTION
    return ""
