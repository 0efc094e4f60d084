"""A value is read from the device in the step, so host and device take turns.

## What it detects

Steps in which the training thread reads a value back (`.item()`, `print`, `float(loss)`, `if tensor:`) and thereby
waits for the device. Also reads before the graph cut that run programs of their own, where the step computes the same
again, in however few steps.

## Why it costs time

While the host waits it traces nothing; while it then traces, the device has nothing to do. Without the read the two
can work side by side, and the step takes about as long as the slower of them. Where the verdict names the device's idle
time in reads instead, as where the host works clearly longer than the device, the finding says that the read holds
training up.

A read before the graph cut runs all that its value needs, and keeps nothing else on the device: the next read and the
cut compute the same again. Fourteen norms of gradients that are read one by one run the backward pass fourteen times.

## Evidence

Each reading line with the time it blocks, and how many steps hold a read.

## How to fix

[early] Where the step itself does not need the value, read it after `torch_xla.sync()`: the step's graph has then run,
and the read computes nothing again.

[sized] A result whose size the device finds, as of `torchvision.ops.nms`, `nonzero` or `x[mask]`, is read by torch_xla
itself, as soon as its size is needed. Call `torch_xla.sync()` once before the first such op, so that what they need is
computed once; copy several small inputs to the host at once; or keep the size fixed (`topk`, `torch.where`).

[anomaly] Anomaly detection reads these values, one for each gradient: leave out
`torch.autograd.set_detect_anomaly(True)`, and capture again. It slows the host as well, so that a step may be shorter
without it by more than the price of the reads.

[backward] No call of the program reads in the backward pass. A tensor of the host that takes a gradient, and that
`.to(device)` copies in the forward pass, gets its gradient on the host: keep such parameters on the device. A result
whose size the device finds (`x[mask]`) may also have its size read there: keep the size fixed (`torch.where`).

[arrays] Where NumPy or Python computes with tensors that are copied to the host, write that in torch ops: they stay in
the graph. An average of the weights can live on the device too. What must be on the host, copy after
`torch_xla.sync()`, and rarely.

[value] Keep values on the device and read them rarely: sum the losses on the device and read the sum every hundredth
step. To log from inside a step, hand the read to `xm.add_step_closure(log, args=(loss,), run_async=True)`: a thread
then reads after the graph cut. Where the program itself needs the value in each step, let one read serve many cases.

[several] A step reads several values: stack them and read once.

[wait] Leave out waits that read nothing: call `torch_xla.sync()` without `wait=True`, and no `xm.wait_device_ops()`.

[branch] Where a value decides what is computed, let the device decide: `torch.where(condition, a, b)`, or a factor such
as `(limit / norm).clamp(max=1)`, which clips gradients without a branch. Where a value ends the Python loop, check the
value of an earlier step, which is there already, or check it every fiftieth step.

[optimizer] An optimizer that calls a closure, such as `torch.optim.LBFGS`, reads the loss and the gradients to decide
how to go on. Call `torch_xla.sync()` at the end of the closure, after `loss.backward()`: each of its reads then runs a
small graph, and none computes the forward and backward pass again. Results differ by rounding, which L-BFGS may
amplify.

[loop] This line reads several times per step. Where the value ends a Python loop (`if error.item() < limit: break`),
run a fixed number of rounds and keep the result that counts with `torch.where`, or check the value in every tenth
round.

[library] A library reads the value at this line, often to check its input: turn the check off. `torch.distributions`
and torchmetrics take `validate_args=False`, `clip_grad_norm_` takes `error_if_nonfinite=False`, and Pyro
`pyro.enable_validation(False)`. A trainer can log less often (`logging_steps`, `log_every_n_steps`), and count no
tokens (`include_num_input_tokens_seen`); `ReduceLROnPlateau` can look once per epoch. transformers looks at a mask of
two dimensions, and a causal model without a cache also where it gets none: pass one of four dimensions.
`nn.TransformerEncoder` compares its mask with a causal one: pass `is_causal=False` or `True` (a decoder takes
`tgt_is_causal`).

## How to fix in TorchTPU

[arrays] Where NumPy or Python computes with tensors that are copied to the host, write that in torch ops. An average of
the weights can live on the device too. What must be on the host, copy rarely.

[value] Keep values on the device: add the losses up with `total += loss.detach()` and read `total` every hundredth
step. With deferred and fused ops each read also ends a fused program.

[wait] Leave out `torch.accelerator.synchronize()`: it waits for the device and reads nothing.

[branch] Where a value decides what is computed, let the device decide: `torch.where(condition, a, b)`, or a factor such
as `(limit / norm).clamp(max=1)`. Where a value ends the Python loop, check it every fiftieth step.

[loop] This line reads several times per step. Where the value ends a Python loop (`if error.item() < limit: break`),
run a fixed number of rounds and keep the result that counts with `torch.where`, or check the value in every tenth
round.

[library] A library reads the value at this line, often to check its input: turn the check off. `torch.distributions`
and torchmetrics take `validate_args=False`, and `clip_grad_norm_` takes `error_if_nonfinite=False`. A trainer that
reads to log can log less often, and a scheduler that looks at the loss (`ReduceLROnPlateau`) can look once per epoch.

## How to fix in JAX

[arrays] Where NumPy computes with whole arrays, such as averages of the weights or metrics, write that with `jax.numpy`
inside the jitted step, and read its result where it is logged; or copy and compute less often.

[value] Keep values on the device: `float(loss)` and `np.asarray` make the host wait for it. Read the loss of the step
before while this one runs, or read every hundredth step.

[wait] `block_until_ready` reads nothing: leave it out, or wait for the step before while this one runs.

[branch] Where a value decides what is computed, let the device decide: `jnp.where(condition, a, b)` or `jax.lax.cond`
inside the jitted step. Where a value ends the Python loop, check the value of an earlier step, which is there already,
or check it every fiftieth step.

[loop] This line reads several times per step. Where it goes through the elements of an array (`for v in values`), make
it `np.asarray(values)` first: one read. Where Python needs each value, as an environment in NumPy needs actions, let
one read serve several cases. Where the value ends a Python loop (`if float(error) < limit: break`), write the loop with
`jax.lax.while_loop` inside a jitted function: all rounds are then one program. That also saves the calls of the rounds,
which the price leaves out.

[library] A library reads the value at this line. Where that is a check of its input, look for the option that turns it
off; where it is a log, let it log less often.

## Limits and false positives

A multiplication is done again where another program of the steps has one with the same shapes, traced from the same
lines. At least half of those of the read's program must be: what an evaluation computes is its own work. Programs
captured without IR debugging have no lines, so nothing is said of them. A program that computes its forward pass
twice on purpose looks the same.

A device that is the machine's own CPU shares its CPUs with the host. Working side by side, both take as long as their
work needs on all of them: the price begins at what the program left of the CPUs' time, and at nothing where that is
unknown or its threads waited for a CPU. It is of medium confidence where the device is busy for 70 % of the step or
more: 5 % was said of a small classifier that computed metrics in each step and read them, and without both a step took
17 % less. It begins at nothing too where XLA's CPU client waits in graph cuts, for programs that take over buffers, as
those that update weights do. One program waited there in 3 of 12 steps with a read, in 7 of 16 without, and removing
the read saved 6 to 19 %, where side by side would have saved 31 %. So it does for `block_until_ready` in JAX on a CPU
device: without it four pairs of runs saved nothing, where 13 % was said.

Where a read waits for its own graph alone, what it blocks, what the host makes of that graph and what the device
computes again are parts of one time: they are asked together, and no part counts twice. Captured steps of 98 ms were
blocked for 8 ms, 6 ms of which were computed again, so that no part alone was 10 %; without the read a step of 86 ms
took 64 ms. The graph cut waited for the device as well there. How much of that goes with the read is unknown, and not
in the price: the finding says how long it is.

Right after a read that ran a graph the host traces more slowly, as the device's threads had the CPUs: the price of such
reads reaches up to 1.45 times what they block.

Where a step reads several values, all but the first are ready, and the device idles while the host reads them. A part
of that time is the profiler's own, so the price begins without it. On a device that is this machine's CPU, a read
during which the device has nothing to do waits for nothing: it is the host's work, and no turn. 200 small results that
are read one by one cost what calling 200 programs costs; without the reads 1 to 8 % of a step was saved.

Where the runtime itself waits for the device before the read does, either makes the turns: there is then no price.

Where arrays are copied for what the host computes with them, the fix computes that on the device. A device that is this
machine's CPU gains little by that: an average of the weights that moved into the jitted step saved nothing, where 31 %
was said. The price then begins at nothing.

Compiles do not count in what reads are compared with: where they take nearly all of the captured steps, reads that take
much of what is left are still a finding. What a read waits for a compile is not the read's: the next graph cut would
wait for it. Graphs that were compiled in captured steps have no source lines: what of them the step does again is
unknown, and only the upper end of the price has it.

A read the algorithm needs (early stopping, dynamic loss scaling) cannot simply go; torch.where often keeps the
decision on the device.

## References

- https://docs.pytorch.org/xla/release/r2.9/learn/troubleshoot.html
- https://github.com/pytorch/xla/issues/3434
"""

from __future__ import annotations

from dataclasses import replace

from tpuprof import parts as part
from tpuprof.model.host.reads import spoken_read
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE
from tpuprof.own_events import WAITS_ALONE
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import FAILED, STABLE, Outcome, counterfactual, failed, passed, rule
from tpuprof.rules.pricing import REPLACEMENT_COSTS, ROUNDS_NOT_IN_IT
from tpuprof.rules.programs import JAX
from tpuprof.rules.shared.named_reads import (
    at_place,
    blocked_by_reads,
    blocked_evidence,
    spoken,
)
from tpuprof.rules.shared.read_cases import IN_BACKWARD, LIBRARY, LOOP, OPTIMIZER, read_cases
from tpuprof.rules.shared.read_graphs import GONE, computed_again, own_graphs
from tpuprof.rules.shared.step_shares import of_each_step
from tpuprof.rules.shared.uncut import SEE, uncut
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import counted, format_share

# Share of the step that a CPU device is busy from which the gain of a read is uncertain. Not fitted: it is between a
# program whose price was right at 54 % busy and programs that are busy nearly all of the step, whose measured gains
# (paired runs on a shared machine) reached from nothing to a quarter of the step.
DEVICE_MOSTLY_BUSY_FROM = 0.7
# Why reads cost little: the device works beside them, or they take time and wait for nothing.
HAS_WORK = "values are read, but the device has work meanwhile"
IN_FEW_STEPS = "Values are read from the device in few steps"
ARE_READY = "values are read when they are ready: that is the host's own work, and no wait"


@rule(
    status=STABLE,
    about="reads from the device in the step",
    good="Reads from the device cost little or nothing",
    bad="A read from the device makes host and device take turns",
    reads=(
        "step_ms",
        "steps",
        "busy_share",
        "cpus_taken",
        "cut_may_wait",
        "graphs_for_reads_ms",
        "cpus_free_share",
        "device_type",
        "sees_device",
        "unfinished_ms",
        "device_at_most_ms",
        "bound",
        "idles_in_reads",
        "turns_at_most",
        "idle_at_reads_ms",
        "falls_back",
        "python_tools_if_noted",
        "host_reads",
        "python_reads",
        "reads_in_steps_share",
        "runtime_wait_ms",
        "ready_reads_ms",
        "unwaited_reads_ms",
        "stacks_if_sampled",
        "computed_again_ms",
        "read_graphs",
        "uncut_steps",
        "cutting_reads",
        "compile_share",
        "uncompiled_ms",
        "step_compiles",
        "after_capture",
        "records_if_noted",
        "framework",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where reads make the device work twice, or where most steps hold one and its turns are worth naming."""
    if uncut(signals):
        return passed(reason=SEE)
    early, cases = computed_again(signals) or own_graphs(signals), read_cases(signals)
    if early:
        # A read in the backward pass has no line that could come later, and an optimizer needs what it reads.
        return replace(early, cases=cases | (set() if cases <= IN_BACKWARD | {OPTIMIZER} else {"early"}))
    if OPTIMIZER in cases:
        # Its closure cuts the graph already: what is left are reads of a library.
        cases = cases - {OPTIMIZER} | {LIBRARY}
    return replace(_with_doubts(signals, _turns(signals, cases), cases), cases=cases)


def _with_doubts(signals: Signals, found: Outcome, cases: frozenset[str]) -> Outcome:
    """What reads cost, with what the price leaves out, and how sure it is where the runtime waits for longer."""
    if found.status != FAILED or found.price is None:
        return found
    if LOOP in cases and not found.price.note:
        found = replace(found, price=replace(found.price, note=ROUNDS_NOT_IN_IT))
    if signals.sees_device and signals.runtime_wait_ms > blocked_by_reads(signals):
        # Turns may go on without the read: a step with it took 99 ms, and 100 without.
        found = replace(found, confidence="low")
    return found


def _turns(signals: Signals, cases: frozenset[str]) -> Outcome:
    """Fail where most steps hold a read and the turns it forces are worth naming; `cases` say what is read."""
    in_steps = signals.reads_in_steps_share
    evidence = blocked_evidence(signals)
    if in_steps < READS_IN_STEPS_SHARE:
        reason = f"{format_share(in_steps)} of the steps read a value from the device" if in_steps else ""
        return passed(evidence, title=IN_FEW_STEPS if in_steps else "", reason=reason)
    if not signals.python_reads and signals.falls_back:
        return passed(evidence, reason="ops without a lowering read their inputs back: see aten-fallback")
    if not signals.sees_device:
        return _host_alone(signals, evidence)
    # What a read waits for a compile it would wait for without the read too, at the next graph cut. Compiles that take
    # nearly all of a step do not make what reads take of the rest a little thing.
    rest = signals.uncompiled_ms / signals.step_ms
    enough = FAILS_FROM_SHARE * rest
    idle = max(rest - signals.busy_share, 0.0)
    # A read that waits for nothing is the host's own work, which host and device do not do in turns.
    unwaited = signals.unwaited_reads_ms
    blocked = max(blocked_by_reads(signals) - unwaited, 0.0) / signals.step_ms
    if unwaited:
        evidence.append(Evidence("reads during which the device has nothing to do", unwaited, "ms per step"))
    # What the turns cost is at most the shorter of the two, in the same steps: the host's work the device waits for,
    # the wait itself. A save in one step of sixty is not what the reads of the others wait for.
    share = min(idle, blocked, signals.idle_at_reads_ms / signals.step_ms)
    runtime = 0.0
    if share < enough and signals.bound == "sync":
        # The runtime waited first, so the read found the device done: without that wait the read would have waited.
        runtime = signals.runtime_wait_ms
        share = min(idle, blocked + runtime / signals.step_ms)
        evidence.append(Evidence("waits for the device inside the runtime", runtime, "ms per step"))
    if share < enough or not rest:
        taken = min(idle, blocked + unwaited / signals.step_ms)
        return passed(evidence, reason=HAS_WORK if taken < enough else ARE_READY)
    first = signals.python_reads[0] if signals.python_reads else None
    others = _other_lines(signals)
    title = _turns_title(signals, others)
    # The verdict knows the host's work as well, which is left without the read: of one thing there is one bound.
    at_most = min(share, signals.turns_at_most)
    at_stake = f", up to {of_each_step(signals, at_most * signals.step_ms)}"
    if runtime:
        return failed(
            share,
            evidence,
            title=f"{title}{at_stake}",
            reason="the runtime waits as well: how much is gained without the program's own wait is unknown",
            confidence="low",
        )
    free = Change(unblock=True)
    # What the host computes with copied arrays, a device that is this machine's CPU takes as long for.
    moves = signals.device_type == "CPU" and "arrays" in cases
    known, sure = (False, 0.0) if moves else _sure_gain(signals)
    # The profiler adds to each read: how much of what those of ready values took is saved is not sure.
    ready = signals.ready_reads_ms / signals.step_ms
    if ready:
        evidence.append(Evidence("reads of values that were ready", signals.ready_reads_ms, "ms per step"))
        known, sure = known and ready < FAILS_FROM_SHARE * share, min(sure, max(share - ready, 0.0))
    # Without one of several reads the next one waits instead: the price is of all of them.
    certain = known and bool(first) and not others
    price = counterfactual(
        GONE, free if sure and first else Change(), ceiling=share, sure=sure, judged_of=rest
    )
    if moves:
        price = replace(price, note=REPLACEMENT_COSTS)
    sure_of = "high" if certain else "medium"
    return failed(share, evidence, title=title, price=price, confidence=sure_of, at_stake=at_stake)


def _turns_title(signals: Signals, others: int) -> str:
    """The reads that make the turns, by the first line and how many others read in most steps."""
    first = signals.python_reads[0] if signals.python_reads else None
    read = "A read from the device"
    if first and first.source:
        read = f"{spoken(signals, first.call)}{at_place(signals, first.call, first.source)}"
    hold, make = ("holds", "makes") if not others else ("hold", "make")
    more = f" and reads at {counted(others, 'other line')}" if others else ""
    does = f"{hold} training up" if signals.idles_in_reads else f"{make} host and device take turns"
    return f"{read}{more} {does}"


def _other_lines(signals: Signals) -> int:
    """Lines that read in most steps, beside the first one."""
    often = READS_IN_STEPS_SHARE * len(signals.steps)
    lines = {row.source for row in signals.python_reads if row.source and row.occurrences >= often}
    return len(lines - {row.source for row in signals.python_reads[:1]})


def _sure_gain(signals: Signals) -> tuple[bool, float]:
    """Whether it is known what host and device gain side by side, and the share of the step that they gain at least.

    A device of its own works as before. One that is this machine's CPU shares CPUs with the host: both together take as
    long as their work needs on all CPUs. Where that was not counted, a device that is busy most of the step leaves
    little to gain, and the gain is not sure even where it was counted. Where threads wait for a CPU, two of them side
    by side take as long as in turns. And where the runtime itself may wait in a graph cut for the program that it hands
    over, turns may go on there.
    """
    if signals.device_type != "CPU":
        return True, 1.0
    # JAX's CPU client did not run further ahead without a wait that reads nothing.
    waits = signals.framework == JAX and any(row.call in WAITS_ALONE for row in signals.python_reads[:1])
    if signals.cpus_taken or signals.cut_may_wait or waits:
        return False, 0.0
    idle, free = signals.busy_share < DEVICE_MOSTLY_BUSY_FROM, signals.cpus_free_share
    return idle, float(idle) if free is None else free


def _host_alone(signals: Signals, evidence: list[Evidence]) -> Outcome:
    """Where the trace shows no device: what the reads block bounds what they cost, and so does the host's own work.

    A read that waits for a compile would wait without the read too: that time is the compile's.
    """
    waited = signals.steps.mean_parts().get(part.HOST_SYNC, 0.0)
    blocked = min(blocked_by_reads(signals), waited) / signals.step_ms
    if blocked < FAILS_FROM_SHARE:
        return passed(evidence)
    # What is read waits for is done without it too, and takes as long: that much of the step is left.
    left = signals.unfinished_ms / signals.step_ms
    share = min(blocked, max(1 - left, 0.0))
    if left:
        worked = "work that was handed over before, which reads wait for"
        evidence.append(Evidence(worked, signals.unfinished_ms, "ms per step"))
    if share < FAILS_FROM_SHARE:
        return passed(
            evidence, reason=f"values are read, but what they wait for is {format_share(left)} of the step"
        )
    rows = signals.python_reads or signals.host_reads
    place = at_place(signals, rows[0].call, rows[0].source)
    known = signals.device_at_most_ms
    sure = known is not None and known < DEVICE_MOSTLY_BUSY_FROM * signals.step_ms and not signals.cpus_taken
    free, taken = Change(unblock=True), f"{format_share(blocked)} of each step"
    return failed(
        share,
        evidence,
        title=f"{spoken(signals, rows[0].call)}{place} holds training up for {taken}"
        if sure
        else f"The host waits {taken} for {spoken_read(rows[0].call, signals.framework)}{place}",
        price=counterfactual(free, None if sure else Change()),
        reason="how much of that is the device's own work is unknown: the trace has no device plane",
    )
