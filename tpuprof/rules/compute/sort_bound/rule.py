"""The device sorts arrays.

## What it detects

Sorts, and ops for the largest values, that take at least a tenth of the device's time. A random permutation is a sort,
too: of a random number for each of the values.

## Why it costs time

A sort compares and moves all values many times over, and the matrix unit idles meanwhile. Often little of its result is
used: the largest few values, or the first part of a permutation.

## Evidence

The ops with their device time and source lines. The title says where the program uses a part of what they give.

## How to fix

For the few largest values call `torch.topk(x, k)`, and not `torch.sort` or `torch.argsort`. To draw some of many
values, draw with replacement (`torch.randint`), or make one permutation per epoch on the host (`torch.randperm`) and
take a slice of it in each step. A threshold or a median can come from a sample of the values.

## How to fix in JAX

[random] `jax.random.choice(..., replace=False)` and `jax.random.permutation` sort a random number for each value to
choose from. To draw some of many values, draw with replacement (`jax.random.randint`), or make one permutation per
epoch and take a slice of it in each step.

[values] For the few largest values call `jax.lax.top_k(x, k)`, and not `jnp.sort` or `jnp.argsort`; on TPU
`jax.lax.approx_max_k` is faster still, and may miss some of them. A threshold or a median can come from a sample of the
values.

## Limits and false positives

Of a sort that is used in part the program tells so, and confidence is medium; half of its time is saved at least, which
is a judgement: what takes its place takes time as well. Where the order of all values is needed, as of a permutation of
all that a rollout gave, or to bring the tokens of each expert together, there is nothing to fix: of other sorts the
price begins at nothing, and confidence is low. Only permutations that JAX names are known as such. A sort that XLA
fuses with other ops, or runs as a custom call without the framework's name for the op, is not seen. A predicted run has
no time for sorts: the TPU compiler states no cycles for them. Measured on a CPU device: a step of 116 ms with two sorts
at 53 ms took 56 ms without them.

## References

- https://docs.jax.dev/en/latest/_autosummary/jax.lax.approx_max_k.html
- https://docs.pytorch.org/docs/stable/generated/torch.topk.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.device.op_kind import CUSTOM_CALL, SORTS
from tpuprof.report.op_rows import OpRows
from tpuprof.rules.base import Outcome, counterfactual, failed, passed, rule
from tpuprof.rules.shared.ops import ms_of, op_evidence
from tpuprof.rules.thresholds import OPS_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

# What the framework calls ops that sort (the last part of the scope).
_MADE_BY = ("sort", "topk", "top_k")
# How the names of ops that sort begin, to match few names.
_BEGINS = frozenset({"sor", "top"})
# Functions of JAX whose sorts are random permutations.
_PERMUTES = "_shuffle"
# How much of the time of sorts that are used in part is saved at least (ratio): what takes their place takes time as
# well. A judgement.
SAVED_AT_LEAST = 0.5
# Share of the time in sorts from which the title says what they are: most of them.
MOSTLY = 0.5


@rule(
    about="sorts on the device",
    good="Sorts take little",
    bad="The device sorts arrays",
    reads=("busy_share", "compute_ms", "hosts", "ops", "part_sorts", "predicted"),
)
def check(signals: Signals) -> Outcome:
    """Fail where sorts take enough of the device's time."""
    if signals.predicted:
        raise Unavailable("a predicted run has no time for sorts: the TPU compiler states no cycles for them")
    sorts = _sorts(signals)
    share = _share(sorts, signals)
    evidence = op_evidence(sorts)
    if share < OPS_FROM_SHARE:
        return passed(evidence)
    permutes = _share(signals.ops.where(signals.scoped_ops(_PERMUTES, _is_made_by_a_sort)), signals)
    part_of = _share(signals.part_sorts, signals)
    random, in_part = permutes >= MOSTLY * share, part_of >= MOSTLY * share
    what = "Random permutations" if random else "Sorts"
    least = SAVED_AT_LEAST * part_of if in_part else 0.0
    return failed(
        share * signals.busy_share,
        evidence,
        title=f"{what}{', of whose result the program uses a part,' if in_part else ''} "
        f"take {format_share(share)} of the device's time",
        price=counterfactual(
            Change(device={part.COMPUTE: 1 - share}),
            Change(device={part.COMPUTE: 1 - least}),
            ops=ms_of(sorts),
        ),
        confidence="medium" if in_part else "low",
        cases=frozenset({"random" if random else "values"}),
    )


def _sorts(signals: Signals) -> OpRows:
    names = signals.ops.column("name")
    # Of custom calls the framework's scope tells. Without any, no scope of thousands of ops is looked at.
    custom = [name[: len(CUSTOM_CALL)] == CUSTOM_CALL for name in names]
    made = [False] * len(names)
    for word in _MADE_BY if True in custom else ():
        made = [a or b for a, b in zip(made, signals.scoped_ops(word, _is_made_by_a_sort), strict=True)]
    columns = zip(names, signals.ops.column("kind"), custom, made, strict=True)
    return signals.ops.where(
        [
            kind == "compute" and ((own and by) or (name[:3] in _BEGINS and bool(SORTS.match(name))))
            for name, kind, own, by in columns
        ]
    )


def _is_made_by_a_sort(scope: str) -> bool:
    """Whether the op itself is a sort: a path in lower case ends in what the op does, on TPU before a colon."""
    return scope.rpartition("/")[2].partition(":")[0].endswith(_MADE_BY)


def _share(ops: OpRows, signals: Signals) -> float:
    return ops.ms_per_step() / signals.compute_ms
