"""torch.compile cuts a step into several functions.

## What it detects

TorchTPU steps that call several different functions made by torch.compile, where the time between them takes at least
a tenth of the step. A function that is called inside of another shows a break: dynamo left that one in the middle. Then
the calls beyond one count too, and those of their backward passes: from four breaks on all but the shortest, of fewer
0.05 ms each, which a call takes however small its function is.

So do steps that call one function several times in a pass, where dynamo noted a break. Dynamo cannot break inside a
loop: it leaves the function that holds the loop to Python, and compiles what the loop calls.

PyTorch/XLA steps that call several in one pass, where dynamo noted breaks, and all calls but the shortest of each pass,
with what is between them, take at least a tenth of the step. Waits for a device that works are left out.

PyTorch/XLA steps that do not call what torch.compile made, where it gave a function up: dynamo compiled that as often
as `torch._dynamo.config.recompile_limit` allows, and traces further calls op by op in each step.

## Why it costs time

At a graph break dynamo ends one function and begins another. In between Python runs, ops are called one by one, and
the compiler cannot fuse over the break.

## Evidence

Different compiled functions per step, how many are called inside of another, how many calls repeat one of the same
pass, and the time from the first to the last in
which nothing that was compiled runs; where the graph breaks, also what calling each part takes. Under PyTorch/XLA the
calls of a forward and of a backward pass, and that time. In captures by tpuprof each line of a break, with dynamo's own
reason.

## How to fix

[limit] torch.compile compiled the named function as often as `torch._dynamo.config.recompile_limit` allows, and traces
further calls op by op. Make what changed the same in each call: count calls outside of the compiled module or in a
tensor (an int attribute such as `self.seen += len(x)` is a constant of the graph), pass a number that changes as a
tensor, and pad batches to one shape.

Compile with `torch.compile(model, backend="openxla", fullgraph=True)`: it raises an error at the first break and names
its line. `TORCH_LOGS=graph_breaks` prints each with its reason. Usual reasons are a branch on a tensor's value,
`.item()`, `print`, and calls that dynamo does not know. `torch.where` replaces a branch. Let a guard against NaN look
at the loss, outside of the compiled function, and every so many steps.

## How to fix in TorchTPU

Compile with `torch.compile(model, fullgraph=True)`: it raises an error at the first break and names its line.
`TORCH_LOGS=graph_breaks` prints each with its reason. Usual reasons are a branch on a tensor's value, `.item()`,
`print`, and calls that dynamo does not know. `torch.where` replaces a branch.

## Limits and false positives

A program that compiles several modules on purpose (a model and its loss, a generator and a discriminator) calls
several functions without a break. Where no function is called inside of another and dynamo noted no break, the
confidence is low. A function that is called again after its backward pass is of another micro-batch, and no part. A
program may call one function several times in a pass on purpose, as for two views of a batch; where dynamo noted a
break elsewhere, it counts as parts. Dynamo's notes are of the whole process so far, not of the captured steps.

There is a price where the graph breaks often and the device is this machine's CPU, whose threads' time was counted. At
least the calls beyond one are saved, each as long as the shortest, and what dynamo takes to enter them: so long a call
takes whatever it does. At most one call is left of each pass, as long as the shortest, and nothing of what is between
them. Elsewhere it is unknown what the device does meanwhile.

Under PyTorch/XLA there is no price. Without a break the host runs ahead of the device where a branch on a value made
them take turns, and programs in parts may take the device as long as one. Breaks in four layers of a small encoder took
an eighth to a third of a training step on the CPU, and one break in another encoder nothing that could be measured. So
less than a tenth is no proof that breaks cost little: the rule then says that it is unknown. Where dynamo noted no
break, several calls are of functions that were compiled apart, or around ops that its backend leaves out.

## References

- https://docs.pytorch.org/docs/stable/torch.compiler.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.host.eager_dispatch import CompiledParts, EagerDispatch
from tpuprof.model.host.event_times import COMPILED_REGION
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, not_checked, passed, rule
from tpuprof.rules.shared.compile_limits import LIMIT, gave_up, limit_evidence
from tpuprof.rules.shared.compiled_functions import breaks_of, functions_called
from tpuprof.rules.shared.host_price import host_price
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.signals.telemetry import CompileLimit, GraphBreak
from tpuprof.units import PS_PER_MS, format_share, times

# Different compiled functions of a step from which a break is likely (functions).
BREAKS_FROM = 2
# Breaks of a step from which calling its parts counts whole (breaks). Of two or three large parts most of a call may be
# work that one function would do as well; of five, four calls are there for the breaks alone. On the CPU plugin the
# calls of a model in eight parts took 1.2 ms, and the one call of the whole model 0.6 ms.
CALLS_COUNT_FROM = 4
# What a call takes however small the function is (ms). Calls of one layer took 0.10 ms in the middle on the CPU plugin
# while captured, and one of eight layers 0.17: 0.09 are for the call. Backward 0.08 and 0.15: 0.07. Other machines may
# be faster.
CALL_AT_LEAST_MS = 0.05
# Calls of compiled functions per step from which a function that was given up may be another one (calls per step):
# each step then calls one, as far as a mean tells. A judgement.
CALLED_FROM = 1.0
# Breaks listed as evidence (rows).
SHOWN = 8
_UNKNOWN = "what one function would take is unknown"


@rule(
    about="graph breaks of torch.compile",
    good="Graph breaks cost little or nothing",
    bad="torch.compile cuts the step into several functions",
    of_one_host=True,
    reads=(
        *("step_ms", "typical_ms", "noted_graph_breaks", "eager_dispatch", "device_at_most_ms"),
        *("event_count", "compiled_parts", "info", "framework", "noted_compile_limits", "steps"),
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where several compiled functions run in a step and what is between them takes enough of it."""
    found = signals.eager_dispatch
    if found is None:
        return _where_programs_are_traced(signals)
    if not found.compiled_regions:
        return not_applicable("no function of torch.compile ran")
    noted = signals.noted_graph_breaks
    breaks = breaks_of(found, noted)
    often = breaks >= CALLS_COUNT_FROM
    least, most, evidence = _costs(found, breaks)
    most = min(most, signals.typical_ms)
    share = most / signals.typical_ms
    # After a break inside of a loop it may be one function that is called for each turn.
    if max(found.compiled_regions, breaks + 1 if breaks else 0.0) < BREAKS_FROM or share < FAILS_FROM_SHARE:
        return passed(evidence)
    evidence += _lines(noted)
    # What runs between the parts goes on elsewhere in the step, or becomes part of the one function: how much of it is
    # saved is unknown. The calls are there for the breaks alone. All this is of typical steps, a price of the mean one.
    mean = signals.step_ms / signals.typical_ms
    price = host_price(signals, least * mean, most * mean) if often else None
    return failed(
        share,
        evidence,
        title=_title(found, noted, share, breaks),
        price=price,
        reason="" if price else f"it cannot be priced: {_UNKNOWN}",
        confidence="medium" if found.graph_breaks or noted else "low",
    )


def _where_programs_are_traced(signals: Signals) -> Outcome:
    """The same for torch_xla, whose trace shows each call, and not which of them dynamo left in the middle."""
    found = signals.compiled_parts if signals.event_count.get(COMPILED_REGION) else None
    limits = signals.noted_compile_limits if signals.framework == "torch_xla" else []
    if limits and (found is None or found.forward < CALLED_FROM):
        return _given_up(signals, limits, found)
    if found is None:
        return not_applicable("no function of torch.compile ran in the captured steps")
    took = found.parts_ps / PS_PER_MS
    evidence = [
        Evidence("calls of what torch.compile made, forward", found.forward, "per step"),
        Evidence("the same, backward", found.backward, "per step"),
    ]
    if found.most < BREAKS_FROM:
        return passed(evidence)
    evidence.append(Evidence("all but the shortest of a pass, and what is between them", took, "ms per step"))
    noted = signals.noted_graph_breaks if signals.info else []
    if not noted:
        return passed(evidence, reason="dynamo noted no graph break")
    evidence += _lines(noted)
    share = took / signals.typical_ms
    if share < FAILS_FROM_SHARE:
        return not_checked(f"the graph breaks at {noted[0].source}, and {_UNKNOWN}", evidence)
    return failed(
        share, evidence, title=_title_of_parts(found, noted, share), reason=f"it cannot be priced: {_UNKNOWN}"
    )


def _given_up(signals: Signals, limits: list[CompileLimit], found: CompiledParts | None) -> Outcome:
    """A function that dynamo compiled as often as it may: most steps trace it op by op."""
    calls = found.forward if found is not None else 0.0
    tracing = signals.steps.mean_parts().get(part.TRACING, 0.0)
    evidence = [
        *limit_evidence(limits),
        Evidence("calls of what torch.compile made, forward", calls, "per step"),
        Evidence("tracing per step that leaves the device idle", tracing, "ms"),
    ]
    return failed(
        tracing / signals.step_ms,
        evidence,
        title=f"{gave_up(limits)}: it traces further calls op by op",
        reason="it cannot be priced: what the function takes as one compiled graph is unknown",
        cases=frozenset({LIMIT}),
    )


def _title_of_parts(found: CompiledParts, noted: list[GraphBreak], share: float) -> str:
    lines = "at" if len(noted) == 1 else f"at {len(noted)} lines, first at"
    passes = [(found.forward, "forward"), (found.backward, "backward")]
    parts = " and ".join(f"{count:,.0f} {name}" for count, name in passes if count >= BREAKS_FROM)
    return (
        f"The graph of torch.compile breaks {lines} {noted[0].source}: calling all but one part of a pass ({parts}), "
        f"and what is between them, takes {format_share(share)} of the step"
    )


def _lines(noted: list[GraphBreak]) -> list[Evidence]:
    return [
        Evidence(f"graph break in {each.function}: {each.reason or 'reason unknown'}", source=each.source)
        for each in noted[:SHOWN]
    ]


def _costs(found: EagerDispatch, breaks: float) -> tuple[float, float, list[Evidence]]:
    """What breaks cost at least and at most (ms per typical step), and what says so."""
    between = found.between_ps / PS_PER_MS
    calls, least = _calls(found, breaks)
    evidence = [
        functions_called(found),
        Evidence("of them, called inside of another: graph breaks", found.graph_breaks, "per step"),
        Evidence("time between the first and the last of them", between, "ms per step"),
    ]
    if found.repeats:
        again = "forward calls of a function that ran before in the same pass"
        evidence.insert(2, Evidence(again, found.repeats, "per step"))
    if breaks:
        evidence += [
            Evidence("calls of all but the shortest, backward passes too", calls, "ms per step"),
            Evidence("what they take at least because there are several", least, "ms per step"),
        ]
    if breaks < CALLS_COUNT_FROM:
        return least, between + least, evidence
    # With few parts, what autograd adds up between their passes is most of that.
    backward = found.between_backward_ps / PS_PER_MS
    evidence.append(
        Evidence("time between the first and the last backward pass of them", backward, "ms per step")
    )
    return least, between + calls + backward, evidence


def _calls(found: EagerDispatch, breaks: float) -> tuple[float, float]:
    """What calls beyond one take, and of that at least what one function would not need (ms per step).

    Nothing is known of functions that were compiled apart.
    """
    if not breaks:
        return 0.0, 0.0
    calls, least = found.calls_ps / PS_PER_MS, found.parts_ps / PS_PER_MS
    few = breaks < CALLS_COUNT_FROM
    return calls, min(least, CALL_AT_LEAST_MS * found.calls_beyond) if few else least


def _title(found: EagerDispatch, noted: list[GraphBreak], share: float, breaks: float) -> str:
    place = f", first at {noted[0].source}" if noted else ""
    if breaks and not found.graph_breaks:
        lines = "at" if len(noted) == 1 else f"at {len(noted)} lines, first at"
        beside = "all but one of them" if breaks >= CALLS_COUNT_FROM else "them one by one"
        return (
            f"The graph of torch.compile breaks {lines} {noted[0].source}, and its parts are called again "
            f"{times(round(breaks))} in a pass: calling {beside}, and what is between them, takes "
            f"{format_share(share)} of the step"
        )
    if found.graph_breaks >= CALLS_COUNT_FROM:
        return (
            f"The graph of torch.compile breaks {times(round(found.graph_breaks))} per step{place}: calling all "
            f"but one of its parts, and what is between them, takes {format_share(share)} of the step"
        )
    if found.graph_breaks:
        return (
            f"The graph of torch.compile breaks {times(round(found.graph_breaks))} per step{place}: calling its parts "
            f"one by one, and what is between them, takes at least {format_share(share)} of the step"
        )
    why = "" if noted else " (graph breaks, or functions compiled apart)"
    return (
        f"torch.compile made {found.compiled_regions:,.0f} functions of the step{place}: {format_share(share)} of it "
        f"is between them{why}"
    )
