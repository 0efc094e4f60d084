"""The optimizer updates each parameter with ops of its own.

## What it detects

Steps in which `optimizer.step()` takes at least a tenth of the time. On PyTorch/XLA, samples of the training thread's
stack show how long the device idles while the host is in `torch.optim`: at least half of all exposed tracing. What a
closure does inside `optimizer.step(closure)` is the model's, and does not count. Optimizers of your own or of a library
count where they build on `torch.optim.Optimizer`. On TorchTPU, it must call at least thirty ops as well, most of them
for a single parameter.

## Why it costs time

A model has hundreds of parameters, and Adam needs about ten ops for each. PyTorch/XLA traces them one by one in each
step; on TorchTPU each is a dispatch and a program of its own.

## Evidence

On PyTorch/XLA the time in optimizer calls, exposed and hidden behind device work, the samples it is from, and the
lines of the program that call them; of an optimizer of your own the lines that trace, too. On TorchTPU ops per step in
optimizer calls, how many of them update many parameters at once, and the time of the calls.

## How to fix

[torch] Let one op update each parameter: derive your optimizer from `torch_xla.amp.syncfree.AdamW` (or `Adam`, `SGD`),
with `def step(self, closure=None): return super().step(closure, found_inf=torch.zeros((), device="xla"))`. Without
`found_inf` it traces as many ops as torch's own does. Any other optimizer: `torch.compile(optimizer.step,
backend="openxla")`. Compare steps before you keep either: some models' became longer, as with large embedding tables.

[trainer] The Trainer makes the optimizer, so give it this class: `Trainer(..., optimizer_cls_and_kwargs=(AdamW, {"lr":
1e-3}))`.

[own] In your optimizer, update lists of parameters with one call, `torch._foreach_mul_(moments, beta)`, in place of a
loop over them. Each op of such a loop is traced again in every step.

## How to fix in TorchTPU

Update all parameters in one call: leave `foreach=False` out, or pass `foreach=True`; where the optimizer has it, pass
`fused=True`. Or put the whole step in one program with `torch.tpu.optimizers.SingleTraceTrainer`. Each op of a loop
over parameters is a program of its own. On a device none of these was tried.

## Limits and false positives

The price of PyTorch/XLA begins at nothing, since the device may take longer afterwards. Compare both programs
(`tpuprof prove`). Measured with AdamW over 32 parameters (torch_xla 2.9, CPU time of the host): 20 ms per update as it
is, 11 ms with `foreach=True`, 10 ms compiled, 1.4 ms with the syncfree one; with parameters that are sharded that was
not tried. With a Lion of 152 parameters, `torch._foreach_mul_` and such made steps of 76 ms 53 ms long. One flat
parameter that the model is called with views of is traced in 3 ms, but the device may take longer: a step of 7.7 ms
took 21.4 ms, and compiled updates made three steps of 7.7, 10.5 and 12.3 ms 7.6, 14.8 and 17.4 ms long (8 to 12
parameters, CPU device). On TorchTPU's CPU plugin, with AdamW over 6 to 60 parameters, `foreach` and `fused` left 12 to
30 % of the time of its calls. What an optimizer reads, such as a norm by `.item()`, is left
out of its time in TorchTPU: `device-to-host-sync` names it. An optimizer that is written by hand, with a loop over
parameters and without `torch.optim.Optimizer`, leaves no event and is not seen. LBFGS works on one flat gradient
already, so it is left out. A function that `step` calls is a closure if it is called so, or calls the model or its
backward pass. Samples are right to about a sixth; a graph cut inside the call (`xm.optimizer_step`) counts as the cut.

## References

- https://docs.pytorch.org/docs/stable/optim.html
- https://github.com/pytorch/xla/issues/7923
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tpuprof import parts as part
from tpuprof.report.host_lines import LINE_FROM_SHARE, lines_of, running
from tpuprof.report.schema import Evidence
from tpuprof.report.sections import HostStackRow
from tpuprof.report.user_frames import places_of_users
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, not_checked, passed, rule
from tpuprof.rules.shared.host_price import host_price
from tpuprof.rules.shared.turns import takes_turns
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import PS_PER_MS, format_share

# Ops of one optimizer call from which it is a loop (ops): AdamW over six parameters calls 23 with foreach and 60
# without (counted, torch 2.13), and more parameters add ops only without.
LOOP_FROM_OPS = 30
# Share of those ops that update many parameters, from which it is none: foreach has 9 of 23 there, the loop has none.
MANY_FROM_SHARE = 0.2

# Lines that call the optimizer listed as evidence (rows).
SHOWN = 3
# Samples in optimizers from which a finding is made (samples): sums over some 30 samples are right to about a sixth.
KNOWN_FROM_SAMPLES = 30
# Share of exposed tracing that optimizer calls must make up (share): below it, the model is what is worth a change, and
# tracing-bound names it. A judgement.
OF_TRACING_FROM = 0.5
# How much of the host's time in optimizer calls the advice leaves (ratio). Measured with AdamW, torch_xla 2.9: 1.4 of
# 20.2 ms with the syncfree one, 2.7 of 36.3 with one flat parameter, and 9.5 with a compiled update.
LEFT_AT_LEAST = 0.1
# The same on TorchTPU, where `foreach` or `fused` updates all parameters in a few ops: of calls of AdamW over 6, 18 and
# 60 parameters 0.12 to 0.30 were left, of SGD with momentum over 18 parameters 0.21 (CPU time of the training thread,
# torch_tpu 0.2 on the CPU plugin, other work beside it).
LEFT_BY_FOREACH_AT_LEAST, LEFT_BY_FOREACH_AT_MOST = 0.12, 0.30
# Calls of `step` in the files of torch's optimizers, or in what wraps the step of every optimizer: not `zero_grad`.
_STEP = re.compile(r"(?:step|wrapper|_use_grad) \(\S*\btorch/optim/(?!lr_scheduler)")
# An optimizer of the program's own, or of another library, below the wrapper that torch puts around its `step`. Torch's
# frames between them do not count: `@torch.no_grad()` has one.
_OWN_STEP = re.compile(r"step \(")
# How a frame says that Hugging Face's Trainer has the training loop.
_TRAINER = "/transformers/trainer.py:"
# It works on one flat gradient already.
_FLAT = re.compile(r"\(\S*\btorch/optim/lbfgs")
_LIBRARY = re.compile(r"\(\S*\b(?:torch|torch_xla)/")
# What a closure calls, and no update: the model, and its backward pass. Closures are called so in torch's examples.
_TRAINS = re.compile(
    r"\(\S*\btorch/nn/modules/|(?:backward|grad) \(\S*\btorch/(?:_tensor|autograd/__init__)\.py"
)
_CLOSURE = re.compile(r"\w*closure\w* \(")


@rule(
    about="the optimizer's loop over parameters",
    good="The optimizer updates many parameters at once, or takes little of the step",
    bad="The optimizer updates parameters one by one",
    of_one_host=True,
    reads=(
        "step_ms",
        "steps",
        "bound",
        "framework",
        "host_stacks",
        "eager_dispatch",
        "optimizer_reads_ms",
        "device_at_most_ms",
        "tracing_hidden_ms",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where optimizer calls take enough of the step and call ops parameter by parameter."""
    found = signals.eager_dispatch
    if found is None or found.optimizer_ps is None:
        if signals.framework == "torch_xla":
            return _traced(signals)
        return not_applicable("JAX traces the update once, not in every step")
    # What an optimizer of the program's own reads, it waits for, however it updates parameters.
    reads = signals.optimizer_reads_ms
    took = max(found.optimizer_ps / PS_PER_MS - reads, 0.0)
    evidence = [
        Evidence("ops in optimizer calls", found.optimizer_ops, "per step"),
        Evidence("of them, ops that update many parameters", found.optimizer_many, "per step"),
        Evidence("time of optimizer calls", took, "ms per step"),
        *(
            [Evidence("waits for values read in optimizer calls, beside that", reads, "ms per step")]
            if reads
            else []
        ),
    ]
    share = took / signals.step_ms
    if share < FAILS_FROM_SHARE:
        return passed(
            evidence, reason="optimizer calls read values: see device-to-host-sync" if reads > took else ""
        )
    if found.optimizer_ops < LOOP_FROM_OPS or found.optimizer_many >= MANY_FROM_SHARE * found.optimizer_ops:
        return passed(evidence, reason="the optimizer calls few ops, or many parameters share one")
    price = host_price(signals, took * (1 - LEFT_BY_FOREACH_AT_MOST), took * (1 - LEFT_BY_FOREACH_AT_LEAST))
    return failed(
        share,
        evidence,
        title=f"The optimizer calls {found.optimizer_ops:,.0f} ops per step, parameter by parameter: "
        f"{format_share(share)} of the step",
        price=price,
        reason=""
        if price
        else "it cannot be priced: what one call for all parameters takes was not measured on a device",
        confidence="medium",
    )


def _traced(signals: Signals) -> Outcome:
    """What samples show of optimizers that torch_xla traces."""
    stacks = signals.host_stacks
    closures = closures_of([row.frames for row in stacks])
    rows = [row for row in stacks if row.part == part.TRACING and in_update(row.frames, closures)]
    samples = sum(row.samples for row in rows)
    exposed = sum(row.exposed_ms_per_step for row in rows)
    called = [_at_its_call(row) for row in rows]
    lines = lines_of([row for row in called if row.source], part.TRACING)
    inner = [row for row, at in zip(rows, called, strict=True) if row.source != at.source]
    own = lines_of(inner, part.TRACING)
    evidence = [
        Evidence("device idle while optimizer calls are traced", exposed, "ms per step"),
        Evidence(
            "the same, hidden behind device work", sum(row.hidden_ms_per_step for row in rows), "ms per step"
        ),
        Evidence("samples of the training thread in optimizer calls", samples, "samples"),
        *_named("the optimizer is called", lines),
        *_named("of that, an optimizer of your own traces", own),
    ]
    share = exposed / signals.step_ms
    if share < FAILS_FROM_SHARE:
        return passed(evidence)
    turns = takes_turns(signals)
    if turns is not None:
        title = f"Tracing the optimizer costs time only because {turns[0]} makes host and device take turns"
        return passed(evidence, title=title, reason=turns[1])
    saved = min(exposed / signals.steps.mean_parts()[part.TRACING], 1.0)
    if saved < OF_TRACING_FROM:
        return passed(
            evidence, reason=f"{format_share(saved)} of the exposed tracing: see tracing-bound for the rest"
        )
    if samples < KNOWN_FROM_SAMPLES:
        return not_checked(f"only {samples} samples are in optimizer calls: capture more steps", evidence)
    return failed(
        share,
        evidence,
        title=f"Tracing optimizer.step(){_at(lines, exposed)} keeps the device waiting {format_share(share)} of each "
        "step",
        # What the device does for another update may take longer than tracing did.
        price=counterfactual(Change(host={part.TRACING: 1 - saved * (1 - LEFT_AT_LEAST)}), Change()),
        cases=_cases(rows, own),
    )


def _cases(rows: list[HostStackRow], own: list[tuple[str, str, float, float]]) -> frozenset[str]:
    """Whose optimizer it is, and whether the loop around it is Hugging Face's: each has advice of its own."""
    if own:
        return frozenset({"own"})
    in_trainer = any(_TRAINER in frame for row in rows for frame in row.frames)
    return frozenset({"torch", "trainer"} if in_trainer else {"torch"})


def _named(what: str, lines: list[tuple[str, str, float, float]]) -> list[Evidence]:
    """The lines with most of the exposed time."""
    return [
        Evidence(f"{what}{running(call)}", ms, "ms per step", source=source)
        for source, call, ms, _ in lines[:SHOWN]
    ]


def _at(lines: list[tuple[str, str, float, float]], exposed: float) -> str:
    """The line that calls for half of the exposed time, with " at" before it; empty where there is none."""
    return f" at {lines[0][0]}" if lines and lines[0][2] >= LINE_FROM_SHARE * exposed > 0 else ""


def in_update(frames: Sequence[str], closures: frozenset[str] = frozenset()) -> bool:
    """Whether a stack, outermost frame first, is in an optimizer's update, and not in a closure that `step` calls."""
    inside = frames[_begin(frames) :]
    if not inside or any(map(_FLAT.search, frames)):
        return False
    own = [frame for frame in inside if not _LIBRARY.search(frame)]
    if own and not _OWN_STEP.match(own[0]):
        return False
    return not any(
        _TRAINS.search(frame) or _CLOSURE.match(frame) or _function(frame) in closures for frame in inside
    )


def closures_of(stacks: Iterable[Sequence[str]]) -> frozenset[str]:
    """The functions that call the model, or its backward pass, in an optimizer's `step`: they are its closures."""
    found: set[str] = set()
    for frames in stacks:
        inside = frames[_begin(frames) :]
        trains = next((at for at, frame in enumerate(inside) if _TRAINS.search(frame)), 0)
        own = [frame for frame in inside[:trains] if not _LIBRARY.search(frame)]
        # A `step` that calls them itself has an update as well.
        if own and not _OWN_STEP.match(own[-1]):
            found.add(_function(own[-1]))
    return frozenset(found)


def _begin(frames: Sequence[str]) -> int:
    """Which frame is the outermost one of an optimizer's `step`; behind the last where none is."""
    return next((at for at, frame in enumerate(frames) if _STEP.match(frame)), len(frames))


def _function(frame: str) -> str:
    """A frame without its line."""
    return frame.rpartition(":")[0]


def _at_its_call(row: HostStackRow) -> HostStackRow:
    """The row at the user's line that calls the optimizer, not at one inside of an optimizer of the user's own."""
    begin = _begin(row.frames)
    callers = places_of_users(row.frames[:begin])
    if not callers or row.source not in places_of_users(row.frames[begin:]):
        return row
    return replace(row, source=max(callers, key=lambda place: callers[place]), call="", user_call="")
