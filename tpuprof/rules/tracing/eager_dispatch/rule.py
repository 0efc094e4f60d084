"""The host calls ops one by one, and most become a program each.

## What it detects

Steps of TorchTPU or JAX in which the training thread spends at least a tenth of the time on calling ops and handing
over programs while nothing hides it, and hands over at least eight programs. In JAX the device's work for programs of
one or two ops counts for up to half of that tenth.

In TorchTPU calls of the parts of a broken graph are left out: graph-breaks counts those. So are ops on tensors in the
host's memory, where ops are not deferred: no graph is built of them, and they are the host's own work.

## Why it costs time

TorchTPU's default mode runs one program per op, and so does JAX outside of `jax.jit`. Each costs the host a dispatch,
and the compiler cannot fuse ops: every value between two of them goes through device memory.

## Evidence

Ops called and programs run per step, calls of what torch.compile made, and the time of dispatch per step.

## How to fix in TorchTPU

[ops] Compile the model: `model = torch.compile(model)`. Or let ops wait until a value is needed, so that many become
one program: set TORCH_TPU_DEFER_AND_FUSE=1, or train under
`with torch.tpu.set_eager_mode(torch.tpu.EagerMode.DEFER_AND_FUSE):`. Where ops are deferred already, read values less
often: each read ends a fused program (see frequent-flushes). Compiling and deferring were tried on the CPU plugin. On a
device neither was tried.

[beside] torch.compile made a part of the step, and the ops beside it run one by one. Put them into a function of
`torch.compile` as well: the loss and the metrics, say, with the model or in one function of their own.

[backward] Most of the calls are in `backward()`: autograd hands over each part of what torch.compile made, and adds the
gradient of each parameter to `.grad` by an op of its own, in each micro-batch after the first. Where a step accumulates
gradients over micro-batches, make these fewer and larger, as far as memory allows. One batch in place of four took 40 %
off the steps of a small transformer on the CPU plugin (measured).

[limit] torch.compile compiled the named function as often as `torch._dynamo.config.recompile_limit` allows, and runs
other calls of it op by op. Make what changed the same in each call: a number that changes goes in as a tensor, an int
that counts steps stays outside of the function, and batches are padded to one shape. Where a few more kinds of call are
all there are, raise the limit.

## How to fix in JAX

[buffer] `jnp.concatenate` of a large array copies all of it in each step. Keep an array of a fixed size, and write new
rows into it with `jax.lax.dynamic_update_slice` in a jitted function with `donate_argnums`: that changes it in place.

[slices] A batch is made of many slices or small arrays, and each slice, and each array that `jnp.stack` joins, is a
program. Take all of them at once in a jitted function: with an array of all indices,
`data[starts[:, None] + jnp.arange(length)]`, or by `jax.vmap` of `jax.lax.dynamic_slice`. Where the data is in the
host's memory, slice and stack it in NumPy, and copy the batch once.

Put `jax.jit` around the whole step: loss, gradients, update and metrics, and around an evaluation's `model.apply`. What
is called outside of a jitted function is a program of its own, an op as well as a small jitted function of yours;
called from inside of one, it is a part of that one's program. A list comprehension over parameters belongs inside, too.
Where one function of yours is called many times in a step, give each call more: `jax.lax.scan` over the calls
(`jax.lax.while_loop` where a value ends them), `jax.vmap` over the cases. Where Python must run between two calls, as
an environment in NumPy does, give each call more cases. Where these calls make a batch, sample by sample, make it in
NumPy (`np.stack`), and hand it over at once. Keras' `fit` jits its step by itself, unless `compile` was given
`run_eagerly=True` or `jit_compile=False`.

[torchax] With torchax, functions of torch tensors are jitted by `torchax.interop.jax_jit`.

## Limits and false positives

In JAX, Python at lines that call programs counts with the calls, and so does tracing where nothing compiles: a model
outside of a jitted function runs its Python in each step, and traces the loops in it. An evaluation of that kind took a
third of a run, and the calls alone a twentieth.

Where the trace has no device plane, the host may run ahead of a busy device, and its dispatch then costs nothing. The
price in JAX is of all calls: the one call that is left takes next to nothing beside them. It begins with the device's
work as it is, and ends without the work of programs of one or two ops, which one program fuses, and without the time
from each call to the start of its program: 2,527 programs of gradients per sample were priced at 111 of 171 ms at most,
and one program saved 93 % of a step. A device that is this machine's CPU shares its CPUs with the calls and with their
programs, so that the price ends at what is saved where all runs of an op take as long as the short ones: 7.0 to 7.3 ms
was said of batches of slices, where one program saved 10 of 25 ms. Where most calls are of one function, it is not
known how many of them can go: the price begins at nothing. In TorchTPU there is no price: what a compiled step takes to
call is not known.

## References

- https://developers.googleblog.com/torchtpu-running-pytorch-natively-on-tpus-at-google-scale/
- https://github.com/pytorch/xla/issues/9684
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from tpuprof import parts as part
from tpuprof.model.host.eager_dispatch import EagerDispatch
from tpuprof.report.host_lines import LINE_FROM_SHARE, PYTHON, lines_of, running
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, not_checked, passed, rule
from tpuprof.rules.programs import JAX
from tpuprof.rules.shared.compile_limits import LIMIT, gave_up, limit_evidence
from tpuprof.rules.shared.compiled_functions import breaks_of, functions_called
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, PRICED_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.signals.device import JOIN
from tpuprof.simulate.change import Change
from tpuprof.units import PS_PER_MS, count_of, counted, format_share

# Programs of a step from which its ops run one by one (programs), as for torch_xla's eager mode: a fused step of the
# smallest model has four (measured with torch_tpu 0.2), its forward and backward pass and update one by one over 20.
EAGER_FROM_PROGRAMS = 8

# Share of the calls from which they are of one function (share): ops that run one by one are of several kinds.
ONE_FUNCTION_FROM_SHARE = 0.8
# The same where Python may need each result before the next call: how many calls can go is not known.
CALLED_LESS = counterfactual(Change(host={part.DISPATCH: 0.0}, as_one=True), Change())

# What JAX calls the programs of slices (`data[at : at + length]`), and those that make shapes fit for these and for
# joins, which other code has as well.
_SLICES = frozenset({"dynamic_slice", "slice"})
_RESHAPES = frozenset({"broadcast_in_dim", "reshape", "squeeze"})
# Share of a step's calls from which it is those that make a batch (share): most of them.
SLICES_FROM_SHARE = 0.5
# How the program calls autograd.
_BACKWARD = re.compile(r"\bbackward\(")
# How a frame of a stack says that it is torchax's.
_TORCHAX = "/torchax/"

# Lines named that call ops (lines), and the share of the sampled time in calls from which a line is: below it a sample
# or two say so. A judgement.
SHOWN, SHOWN_FROM_SHARE = 3, 0.2
# Programs of a function that torch.compile made: its forward and its backward pass.
OF_A_FUNCTION = 2
# Calls of a function from which a title names it (per step): of fewer it would say "0 of".
CALLED_FROM = 0.5
# Functions of torch.compile in a step from which its other ops are beside them (per step): in every second step, one.
BESIDE_FROM_REGIONS = 0.5


@rule(
    about="ops run one by one",
    good="Calling ops one by one costs little or nothing",
    bad="Ops run one by one, as a program each",
    broad=True,
    of_one_host=True,
    reads=(
        "typical_parts",
        "typical_ms",
        "sees_device",
        "unfinished_ms",
        "framework",
        "eager_dispatch",
        "defers_ops",
        "noted_compile_limits",
        "noted_graph_breaks",
        "stacks_if_sampled",
        "one_op_programs_share",
        "joining_share",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where dispatch, and ops computed by themselves, take enough of a typical step, and it is many programs."""
    found = signals.eager_dispatch
    if found is None:
        return not_applicable("only TorchTPU and JAX call ops one by one")
    dispatch = signals.typical_parts.get(part.DISPATCH, 0.0)
    evidence = [
        Evidence("programs run", found.programs, "per step"),
        # Of JAX each call is of a program, of one op or of a function of the program's own.
        *([] if found.called else [Evidence("ops called", found.ops, "per step")]),
        Evidence(f"time of calling {_what(found)} and handing programs over", dispatch, "ms per step"),
    ]
    if found.compiled_regions is not None:
        evidence.insert(2, functions_called(found))
    if not found.programs and found.ops >= EAGER_FROM_PROGRAMS:
        return not_checked("no program ran in the captured steps: the host ran ahead of them", evidence)
    # Functions of torch.compile are programs too, and no ops.
    alone = _alone(found)
    if min(alone, found.ops) < EAGER_FROM_PROGRAMS:
        programs = counted(round(found.programs), "program")
        return passed(evidence, reason=f"a step is {programs}: its ops are fused or compiled")
    # Without a device plane the host may run ahead, and a typical step be over long before its work is done.
    step_ms = signals.typical_ms + (0.0 if signals.sees_device else signals.unfinished_ms)
    if _is_broken(signals, found):
        # Calling the parts of a broken graph is what graph-breaks counts.
        parts = min(found.calls_ps / PS_PER_MS, dispatch)
        dispatch -= parts
        evidence.append(
            Evidence("calling all but one part of the broken graph, left out here", parts, "ms per step")
        )
    around = [each for each in _around_calls(signals) if each.ms]
    evidence += [Evidence(f"{each.what} around these calls", each.ms, "ms per step") for each in around]
    share = (dispatch + sum(each.ms for each in around)) / step_ms
    alone_share = _alone_share(signals, found) * signals.typical_parts.get(part.COMPUTE, 0.0) / step_ms
    if share < PRICED_FROM_SHARE or share + alone_share < FAILS_FROM_SHARE:
        return passed(
            evidence, reason=f"{_what(found)} run one by one, but calling them takes little of the step"
        )
    return _failed(signals, found, evidence, around, (share, alone_share))


class _Around(NamedTuple):
    """What the host does around calls of a typical step: a part, in words, its time (ms), and the share of the part."""

    part: str
    what: str
    ms: float
    of_part: float


def _around_calls(signals: Signals) -> list[_Around]:
    """Python and tracing that come with ops of JAX run one by one: jitted, the step runs none of that.

    Python counts at lines that hand programs over as well. A model outside of a jitted function runs its Python in each
    step, and a loop in it (`lax.scan`) is traced each time.
    """
    if signals.framework != JAX:
        return []
    stacks = [row for row in signals.stacks_if_sampled if row.source]
    lines = {row.source for row in stacks if row.part == part.DISPATCH}
    rows = [row for row in stacks if row.part == PYTHON]
    whole = sum(row.exposed_ms_per_step for row in rows)
    there = sum(row.exposed_ms_per_step for row in rows if row.source in lines)
    python = signals.typical_parts.get(PYTHON, 0.0)
    found = [_Around(PYTHON, "Python", python * there / whole, there / whole)] if there else []
    tracing = signals.typical_parts.get(part.TRACING, 0.0)
    compiles = signals.typical_parts.get(part.COMPILE, 0.0)
    return [*found, _Around(part.TRACING, "tracing", tracing, 1.0)] if tracing and not compiles else found


def _alone(found: EagerDispatch) -> float:
    """Programs that are of no function of torch.compile: after a graph break one may be called for each layer."""
    parts = found.graph_breaks + 1 if found.graph_breaks else 0.0
    functions = max(found.compiled_regions or 0.0, parts)
    return found.programs - max(OF_A_FUNCTION * functions, found.compiled_calls)


def _is_broken(signals: Signals, found: EagerDispatch) -> bool:
    return bool(found.compiled_regions and breaks_of(found, signals.noted_graph_breaks))


def _alone_share(signals: Signals, found: EagerDispatch) -> float:
    """Share of the computing that is ops by themselves: with others in one program it is from all of it to nothing."""
    if signals.framework != JAX or not signals.sees_device or _is_one_function(found):
        return 0.0
    return signals.one_op_programs_share


def _is_one_function(found: EagerDispatch) -> bool:
    name, calls = found.most_called
    return bool(name) and calls >= ONE_FUNCTION_FROM_SHARE * found.programs


def _failed(
    signals: Signals,
    found: EagerDispatch,
    evidence: list[Evidence],
    around: list[_Around],
    shares: tuple[float, float],
) -> Outcome:
    """Calling the ops takes the first share of a typical step, and computing them by themselves the other one."""
    share, alone_share = shares
    one_function, limits = _is_one_function(found), signals.noted_compile_limits
    if one_function:
        name, calls = found.most_called
        evidence.append(Evidence(f"calls of {name}", calls, "per step"))
    title = _said(
        found,
        one_function=one_function,
        deferred=signals.defers_ops,
        programs=_alone(found) if _is_broken(signals, found) else found.programs,
    )
    if limits:
        title = f"{gave_up(limits)}. {title}"
    # Of a typical step: a mean over all of them, a few of which may hold most of the dispatch, is another number.
    title += f", and {format_share(share)} of a typical step goes to calling them"
    if around:
        title += f", with {' and '.join(each.what for each in around)} around the calls"
    if share < FAILS_FROM_SHARE:
        title += f"; {format_share(alone_share)} is work of the device that one program may leave out"
    price = None
    if signals.framework == JAX and signals.sees_device:
        left = {each.part: 1.0 - each.of_part for each in around}
        fused = counterfactual(
            _fused(_alone_share(signals, found), left), Change(host={part.DISPATCH: 0.0, **left})
        )
        # Calls and their programs run beside the step's own program as well, and share the CPUs with it.
        price = replace(CALLED_LESS if one_function else fused, frees_cpus=True)
    return failed(
        # Without a device plane the host may run ahead of a busy device: what is at stake is nothing to all of it.
        share + alone_share if signals.sees_device else share / 2,
        [*evidence, *limit_evidence(limits), *_lines(signals, _what(found))],
        title=title,
        price=price,
        reason=""
        if price
        else "it cannot be priced: what one program of the whole step would take is unknown",
        confidence="medium" if signals.sees_device else "low",
        cases=frozenset({LIMIT} if limits else _cases(signals, found)) | _cases_of_jax(signals, found),
    )


def _cases_of_jax(signals: Signals, found: EagerDispatch) -> set[str]:
    """Whether a batch is made of slices or small arrays, or a buffer grows, and whether the program uses torchax."""
    if signals.framework != JAX:
        return set()
    of_slices = {name: calls for name, calls in found.called if name in (*_SLICES, JOIN, *_RESHAPES)}
    many = sum(of_slices.values()) >= SLICES_FROM_SHARE * found.programs
    cases = {"slices"} if many and not of_slices.keys() <= _RESHAPES else set()
    computing = signals.typical_parts.get(part.COMPUTE, 0.0) / signals.typical_ms
    if signals.joining_share * computing >= FAILS_FROM_SHARE:
        cases = {"buffer"}  # a buffer that new rows are joined to, and its oldest are cut off
    frames = (frame for row in signals.stacks_if_sampled for frame in row.frames)
    return cases | ({"torchax"} if any(_TORCHAX in frame for frame in frames) else set())


def _cases(signals: Signals, found: EagerDispatch) -> set[str]:
    """Whether a part of the step is compiled already, so that other advice is due, and which lines call the rest.

    Where `backward()` calls most, the loss and the metrics are not what to move; where it calls a good part, both are.
    """
    if not _is_beside(found):
        return {"ops"}
    if _is_broken(signals, found):
        # Most that `backward()` calls are parts of the broken graph, and fewer micro-batches would not join them.
        return {"beside"}
    lines = lines_of(signals.stacks_if_sampled, part.DISPATCH)
    whole = sum(exposed for _, _, exposed, _ in lines)
    backward = sum(exposed for _, call, exposed, _ in lines if _BACKWARD.search(call))
    if not whole or backward < SHOWN_FROM_SHARE * whole:
        return {"beside"}
    return {"backward"} if backward >= LINE_FROM_SHARE * whole else {"backward", "beside"}


def _is_beside(found: EagerDispatch) -> bool:
    return (found.compiled_regions or 0.0) >= BESIDE_FROM_REGIONS


def _fused(share: float, around: dict[str, float]) -> Change:
    """One call of one program, nothing left of that share of the computing, and so much of the parts around calls."""
    host = {part.DISPATCH: 0.0, **around}
    return Change(host=host, device={part.COMPUTE: 1 - share} if share else {}, as_one=True)


def _lines(signals: Signals, what: str) -> list[Evidence]:
    """The lines of the program that call ops for longest, as far as samples of the training thread show them."""
    lines = [each for each in lines_of(signals.stacks_if_sampled, part.DISPATCH) if each[0] and each[2]]
    enough = SHOWN_FROM_SHARE * sum(exposed for _, _, exposed, _ in lines)
    return [
        Evidence(f"the host calls {what}{running(call)}", exposed, "ms per step", source=source)
        for source, call, exposed, _ in lines[:SHOWN]
        if exposed >= enough
    ]


def _what(found: EagerDispatch) -> str:
    return "jitted functions" if found.called else "ops"


def _named(found: EagerDispatch) -> str:
    """What is called most often: ops, or jitted functions of the program's own, which have the same events.

    The calls add up to all programs: "394 programs (3 times 128 of them and 2 others)" read as a wrong sum.
    """
    most = [(name, calls) for name, calls in found.called if calls > CALLED_FROM]
    named = ", ".join(count_of(calls, name) for name, calls in most)
    kinds, left = found.kinds - len(most), round(found.programs - sum(calls for _, calls in most))
    return (
        f"{named} and {counted(left, 'call')} of {counted(kinds, 'other')}"
        if kinds > 0 and left > 0
        else named
    )


def _said(found: EagerDispatch, *, one_function: bool, deferred: bool, programs: float) -> str:
    if deferred:
        return f"Deferred ops are run in {found.programs:,.0f} programs for {found.ops:,.0f} ops in a step"
    if one_function:
        return f"A step calls jitted functions {found.programs:,.0f} times, most often {found.most_called[0]}"
    if found.called:
        return f"A step runs {found.programs:,.0f} programs one by one ({_named(found)})"
    beside = " beside what torch.compile made" if _is_beside(found) else ""
    return f"Ops run one by one{beside}: {programs:,.0f} programs for {found.ops:,.0f} ops in a step"
