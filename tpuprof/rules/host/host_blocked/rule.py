"""The device waits while the training thread does something else than train.

## What it detects

Steps in which the device idles while the training thread sleeps, reads or writes files, waits for a lock or for
Python's global lock (GIL), or runs code that traces no op: logging, tokenizing, numpy, JSON.

A program of JAX that calls Python itself (`jax.pure_callback`, `io_callback`, `jax.debug.print`) is shown here too:
the device waits for that function.

## Why it costs time

The thread that builds and hands over the graphs is the one that does this work. Until it comes back, the device has
nothing to do.

[callback] The program on the device calls a function on the host, and does not end before that has returned. The
training loop does not call that function: it runs when the program gets there.

## Evidence

The lines of the program, with what they call and how long the device idles meanwhile, by samples of the thread's
Python stack. Where the same work goes on beside the device's for long, or other such work takes long, the title says
how long: the price takes out all of it. Work that is mostly beside the device's is a finding only where a replay
without it is shorter. Samples come with the ops traced and the CPU time used since the sample before, so that tracing
is not counted.

## How to fix

[own] Take this work out of the training thread: make once what is the same in each step, do the rest in a loader's
workers or in a thread of its own, do it less often, or buffer what is written.

[dependent] Where this work uses a value that the step has just read from the device (`.cpu()`, `.item()`), and its
result goes back to the device, no other thread can take it over. Write it in torch ops on the device: then neither the
work nor the read holds the step up. What the device computes instead is not in the price.

[module] Where a module computes on tensors in the host's memory (a teacher or a metric that was not moved), move it and
its inputs to the device: `teacher.to(device)`. What the device then computes is not in the price's upper end.

[lock] Where it waits for a queue, another thread or a process (`queue.get`, `acquire`, `join`, `subprocess.run`), that
one is the slower of the two: let more threads or processes fill the queue, hold the lock for less time, and let a
process run beside training (`subprocess.Popen`) or start it less often. A wait with a timeout may end by it each time:
make the timeout shorter, or wait for fewer items (a server's batch that is larger than the requests there are).

[python] Where it is a Python loop over elements, write it as operations on whole arrays (NumPy, torch): each round of
such a loop takes as long as thousands of elements do.

[gil] Where another thread holds Python's lock (the GIL), move that thread's Python to a process of its own (of a
DataLoader: `num_workers`). Where training has all CPUs busy already, such a process takes them from it. Where
that thread looks again and again whether something is done (`while worker.is_alive()`), let it wait: `worker.join()`,
`event.wait()`.

[gc] Where it is garbage collections, leave `gc.collect()` out of the step, and call `gc.freeze()` when training begins:
what exists then is not walked again.

## How to fix in TorchTPU

[own] Take this work out of the training thread: make once what is the same in each step, do the rest in a loader's
workers or in a thread of its own, do it less often, or buffer what is written. `torch.accelerator.synchronize()` in the
step makes the thread wait for the device: leave it out.

[dependent] Where this work uses a value that the step has just read from the device (`.cpu()`, `.item()`), and its
result goes back to the device, no other thread can take it over. Write it in torch ops on the device: then neither the
work nor the read holds the step up. What the device computes instead is not in the price.

[module] Where a module computes on tensors in the host's memory (a teacher or a metric that was not moved), move it and
its inputs to the device: `teacher.to(device)`. What the device then computes is not in the price's upper end.

[lock] Where it waits for a queue, another thread or a process (`queue.get`, `acquire`, `join`, `subprocess.run`), that
one is the slower of the two: let more threads or processes fill the queue, hold the lock for less time, and let a
process run beside training (`subprocess.Popen`) or start it less often. A wait with a timeout may end by it each time:
make the timeout shorter, or wait for fewer items (a server's batch that is larger than the requests there are).

[python] Where it is a Python loop over elements, write it as operations on whole arrays (NumPy, torch).

[gil] Where another thread holds Python's lock (the GIL), move that thread's Python to a process of its own. Where that
thread looks again and again whether something is done (`while worker.is_alive()`), let it wait: `worker.join()`,
`event.wait()`.

[gc] Where it is garbage collections, leave `gc.collect()` out of the step, and call `gc.freeze()` when training begins:
what exists then is not walked again.

## How to fix in JAX

[own] Take this work out of the training thread: make once what is the same in each step, load and prepare batches in
worker processes (Grain, a DataLoader), log and save from another thread, do it less often. Call `jax.device_put` for
the next batch before you wait for this step.

[read] `np.asarray` and `np.array` of a JAX array wait until the device has computed it, and copy it: read the result of
the step before while this one runs, read it in every hundredth step only, or compute what you need of it in the step.

[dependent] Where this work uses a value that the step has just read from the device (`np.asarray`, `float`), and its
result goes back to the device, no other thread can take it over. Write it in `jax.numpy` inside the jitted step: then
neither the work nor the read holds the step up. What the device computes instead is not in the price.

[lock] Where it waits for a queue, another thread or a process (`queue.get`, `acquire`, `join`, `subprocess.run`), that
one is the slower of the two: let more threads or processes fill the queue, hold the lock for less time, and let a
process run beside training (`subprocess.Popen`) or start it less often. A wait with a timeout may end by it each time:
make the timeout shorter, or wait for fewer items (a server's batch that is larger than the requests there are).

[python] Where it is a Python loop over elements, write it as operations on whole arrays (NumPy, `jax.numpy`).

[program] `lower`, `cost_analysis`, `as_text` and `jax.eval_shape` look at a program and run nothing. Their answer is
the same in each step: ask once, before the loop, and keep it.

[gil] Where another thread holds Python's lock (the GIL), move that thread's Python to a process of its own. Where that
thread looks again and again whether something is done (`while worker.is_alive()`), let it wait: `worker.join()`,
`event.wait()`.

[gc] Where it is garbage collections, leave `gc.collect()` out of the step, and call `gc.freeze()` when training begins.
Where they come as `jnp.array` or `jnp.asarray` takes a nested Python list, make a NumPy array of it first
(`jnp.asarray(np.asarray(rows))`): JAX makes objects for each number of a list, and takes many times as long.

[callback] Write functions of a callback (`jax.pure_callback`, `io_callback`, `jax.debug.callback`, `jax.debug.print`)
in `jax.numpy`, or call them in every hundredth step only, by `jax.lax.cond`. Where each turn of a `jax.lax.scan` calls
one, return the values as the scan's outputs, and call back once for all of them. Where a callback returns a batch, make
the batch before the call, and pass it as an argument, such as the `xs` of `jax.lax.scan`.

[flax] In Flax, `nnx.jit` walks the whole module in Python at each call: bind the module once with `nnx.cached_partial`,
or split it once with `nnx.split` and give its state to a function of `jax.jit`.

## Limits and false positives

How much a callback costs while other ops of the program run beside it is unknown: its price begins at the time in
which it runs alone. It ends where only reads of its results wait for the program: XLA's CPU client lets the thread that
calls such a program run it, and JAX waits for the callback before, where callbacks are ordered. What the callback
itself calls in JAX is part of it, but for what other threads compute of it: that looks like other ops. On a CPU device
an op may end as late as the callback because a part of it waits for the callback's thread: such an op counts where
another thread works. What the device takes for the same in `jax.numpy` is unknown and not in the price: medians of 256
rows took longer there on a CPU device than in NumPy.

The price takes the named time out of the step. Where the device is this machine's CPU and host and device take CPUs
from each other, it reaches up to all the time of the host's own code, also beside the device's work: augmentations that
held the device up for 5 ms of a step, and ran beside it for 15, took 17 ms of it. There it begins no higher than the
time in which the device idles for this work: where other work of the host runs beside the device in its place, both
take CPUs from each other (features in Python: 101 to 108 of 218 ms by the replay alone, and 65 to 82 ms were saved).
Work that moves to another thread of the same process can still hold the GIL. A line is known where the program's source
is; code of installed packages is shown by the line that calls it.

## References

- https://docs.python.org/3/library/logging.handlers.html#queuehandler
- https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
"""

from __future__ import annotations

from dataclasses import replace

from tpuprof import parts as part
from tpuprof.model.device.op_kind import OpKind, with_the_host
from tpuprof.model.host.unended_read import WAIT, unended_read
from tpuprof.report.host_lines import (
    LINE_FROM_SHARE,
    PYTHON,
    Where,
    beside,
    calls_programs,
    hidden_at,
    hidden_of,
    holder_of,
    is_at,
    lines_told,
    verb_at,
    verb_of,
    where_of,
)
from tpuprof.report.library_lines import inside
from tpuprof.report.schema import Evidence
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.base import STABLE, Outcome, counterfactual, failed, passed, rule
from tpuprof.rules.shared.half_hidden import half_hidden
from tpuprof.rules.shared.host_cases import host_cases, runs_module
from tpuprof.rules.shared.own_cpus import takes_cpus
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, SAMPLED_FROM_MS
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change
from tpuprof.units import format_ms

# Lines listed as evidence of each kind of host time (rows).
SHOWN = 3
# Share of the time at the line in the title from which the title has other time that the price takes out as well: a
# saving that is larger than the only time in the title looks wrong. A judgement.
TOLD_FROM_SHARE = 0.2
# Share of a callback's time from which a title names what else the price may take out (share): times have three digits,
# and of less the sum of both reads like the callback's time.
SEEN_FROM_SHARE = 0.01
_SLEEP, _GIL = "host:sleep", "host:gil"
# Why nothing is said where a capture is a few milliseconds long.
TOO_FEW = "the capture is so short that the sampler looked once or twice: capture more steps"
# Samples that make the time at a line certain to about a sixth (samples): the error goes with their square root.
SAMPLES_FOR_HIGH = 36


@rule(
    status=STABLE,
    about="what the training thread does other than training",
    good="The training thread does little else than training that the device waits for",
    bad="The device waits while the training thread does something else",
    reads=(
        "step_ms",
        "steps",
        "ops",
        "callback_alone_ms",
        "host_stacks",
        "sampled_host_ms",
        "sampled_late",
        "cpus_taken",
        "cpus_short",
        "cpus",
        "busy_share",
        "device_type",
        "python_reads_if_seen",
        "framework",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where the device idles for long while samples show the training thread at something else than tracing."""
    in_callbacks = signals.steps.mean_parts().get(part.CALLBACK, 0.0)
    if in_callbacks / signals.step_ms >= FAILS_FROM_SHARE:
        return _callbacks(signals, in_callbacks)
    sampled = signals.sampled_host_ms
    stacks = signals.host_stacks
    total = sum(sampled.values())
    share = total / signals.step_ms
    evidence = [
        _at_place(name, each, stacks)
        for name in sorted(sampled, key=lambda each: -sampled[each])
        for each in lines_told(stacks, name)[:SHOWN]
        if each.ms
    ]
    holders = {holder for name in sampled if (holder := holder_of(stacks, name))}
    evidence += [Evidence(f"a thread that held Python's lock was at {each}") for each in sorted(holders)]
    if share < FAILS_FROM_SHARE:
        return _half_hidden(signals, sampled, evidence) or passed(evidence)
    if total * len(signals.steps) < SAMPLED_FROM_MS:
        raise Unavailable(TOO_FEW)
    largest = max(sampled, key=lambda each: sampled[each])
    if largest == WAIT and signals.framework == "torch_xla" and unended_read(stacks):
        raise Unavailable(
            "reads of values did not end while the profiler was on: what they wait for is unknown"
        )
    where = where_of(stacks, largest)
    evidence = _at_first(where, largest, evidence, stacks)
    samples = sum(row.samples for row in stacks if row.part == largest)
    # Where threads wait for a CPU, all but a sleep takes longer than it does by itself.
    stretched = largest != _SLEEP and signals.cpus_taken
    # Who needs the lock waits for it in calls of the framework as well, and nothing tells how long.
    stretched = stretched or largest == _GIL
    in_all = takes_cpus(signals, sampled)
    # What the device gains where the code leaves it its CPUs is unknown.
    stretched = stretched or in_all >= (1 + TOLD_FROM_SHARE) * share
    # Samples do not tell such a line's own code from what its calls do in the framework.
    stretched = stretched or (largest == PYTHON and where is not None and calls_programs(stacks, where))
    sure = samples >= SAMPLES_FOR_HIGH and not signals.sampled_late and not stretched
    return failed(
        share,
        evidence,
        title=_title(largest, where, sampled, stacks) + _held_at(holder_of(stacks, largest)),
        price=replace(
            counterfactual(
                Change(host={largest: _left(sampled[largest], where, stacks, largest)}),
                Change(host=dict.fromkeys(sampled, 0.0)),
            ),
            hidden=_hidden(signals, sampled) / signals.step_ms,
            in_all=in_all,
            exposed=_alone(signals, share),
        ),
        confidence="high" if sure else "medium",
        cases=_cases(signals, sampled),
    )


def _at_first(
    where: Where | None, name: str, evidence: list[Evidence], stacks: list[HostStackRow]
) -> list[Evidence]:
    """The evidence with the place that the title names before all others: the finding is shown with its first line."""
    if where is None or not evidence or evidence[0].source == where.source:
        return evidence
    return [_at_place(name, where, stacks), *evidence]


def _at_place(name: str, where: Where, stacks: list[HostStackRow]) -> Evidence:
    said = f"the host {verb_at(name, where, stacks)}{where.doing}"
    return Evidence(said, where.ms, "ms per step", source=where.source)


def _hidden(signals: Signals, sampled: dict[str, float]) -> float:
    """Time of the same kinds behind device work, as far as the device idles for something else (ms per step)."""
    idle = signals.step_ms - sum(signals.steps.mean_parts().get(name, 0.0) for name in part.DEVICE_PARTS)
    return hidden_of(signals.host_stacks, sampled, idle - sum(sampled.values()))


def _half_hidden(signals: Signals, sampled: dict[str, float], evidence: list[Evidence]) -> Outcome | None:
    """The finding on work that is partly behind the device's, where the replay says that it costs time all the same."""
    found = half_hidden(signals, sampled, _hidden(signals, sampled))
    if found is None:
        return None
    where, stacks = found.where, signals.host_stacks
    verb = verb_at(found.part, where, stacks)
    does = f"The host {verb} at {where.text}{inside(stacks, found.part, where)}"
    first = Evidence(
        f"the host {verb}{where.doing}, also while the device works",
        where.ms,
        "ms per step",
        source=where.source,
    )
    return failed(
        found.share,
        [first, *(each for each in evidence if each.source != where.source)],
        title=f"{does} for {format_ms(where.ms)} per step, and the device idles for {format_ms(found.exposed)} of that"
        + _beside(found.part, where, found.times, found.stacks),
        price=replace(
            counterfactual(Change(host={found.part: found.left}), Change(host=dict.fromkeys(sampled, 0.0))),
            decides=True,
            exposed=_alone(signals, sum(sampled.values()) / signals.step_ms),
        ),
        confidence="medium",
        cases=_cases(signals, sampled),
    )


def _alone(signals: Signals, exposed: float) -> float:
    """What of a saving needs no more of the host's work beside the device's than there was (share of the step).

    `exposed` is the time in which the device idles for the work that goes. A device that is this machine's CPU is
    slower while the host works, so that less may be saved than by a replay, in which both are as fast as alone.
    """
    return exposed if signals.device_type == "CPU" else 1.0


def _left(total: float, where: Where | None, stacks: list[HostStackRow], name: str) -> float:
    """How much of a kind of host time is left at most after the fix (ratio): what is at other lines than the named.

    Waits for Python's lock have one cause, whatever line they are at. A module that is moved to the device is work
    there: how long that takes is unknown.
    """
    if name == _GIL:
        return 0.0
    moved = sum(row.exposed_ms_per_step for row in stacks if row.part == name and runs_module(row))
    named = max(where.ms - moved, 0.0) if where is not None else 0.0
    return 1 - min(named / total, 1.0)


def _cases(signals: Signals, sampled: dict[str, float]) -> frozenset[str]:
    """The cases of advice that fit what the thread does."""
    reads = [row.source for row in signals.python_reads_if_seen if row.source]
    return host_cases(sampled, signals.host_stacks, jax="jax" in signals.framework, reads=reads)


def _callbacks(signals: Signals, ms: float) -> Outcome:
    """The program itself calls Python: what else the device does meanwhile may take as long."""
    callback = OpKind.HOST_CALLBACK.name.lower()
    rows = signals.ops.where(kind == callback for kind in signals.ops.column("kind"))
    exchanges = any(with_the_host(row.category) for row in rows)
    what = "exchanges data with" if exchanges else "calls Python on"
    evidence = [
        Evidence(
            f"{'transfer' if exchanges else 'callback'} {row.name}",
            row.self_ms_per_step,
            "ms per step",
            source=row.source,
        )
        for row in rows[:SHOWN]
    ]
    place = f" at {rows[0].source}" if rows and rows[0].source else ""
    # What the thread does beside hides behind the device where that no longer waits, or is no longer waited for.
    idle = sum(each for name, each in signals.steps.mean_parts().items() if name not in part.DEVICE_PARTS)
    title = f"The program {what} the host{place}, and waits for it up to {format_ms(ms)} per step"
    if idle >= SEEN_FROM_SHARE * ms:
        title += f"; without it, up to {format_ms(idle)} of the host's other work may run beside the device"
    return failed(
        min((ms + idle) / signals.step_ms, 1.0),
        evidence,
        title=title,
        price=counterfactual(
            # XLA's CPU client lets the thread that calls such a program run it; without the callback it may run ahead.
            Change(device={part.CALLBACK: 0.0}, let_go=True),
            Change(device={part.CALLBACK: 1 - min(signals.callback_alone_ms / ms, 1.0)}),
        ),
        confidence="medium",
        cases=frozenset({"callback"}),
    )


def _held_at(holder: str) -> str:
    return f"; that thread is at {holder}" if holder else ""


def _title(name: str, where: Where | None, sampled: dict[str, float], stacks: list[HostStackRow]) -> str:
    if where is None or not where.source:
        return f"The host {verb_of(name)} for {format_ms(sampled[name])} per step while the device idles"
    place = f"{verb_at(name, where, stacks)} at {where.text}{inside(stacks, name, where)}"
    at_line = f"The host {place} for {format_ms(where.ms)} per step while the device idles"
    hidden = hidden_at(stacks, name, where)
    # Work behind the device's delays the next graph all the same, so that the price may be more than what is exposed.
    behind = f", and for {format_ms(hidden)} while it works" if hidden >= TOLD_FROM_SHARE * where.ms else ""
    return at_line + behind + _beside(name, where, sampled, stacks)


def _beside(name: str, at: Where, sampled: dict[str, float], stacks: list[HostStackRow]) -> str:
    """What the price takes out beside the line in the title, where that is much, and the line of most of that."""
    named = at.ms
    others = {other: ms for other, ms in sampled.items() if other != name}
    others[name] = max(sampled[name] - named, 0.0)
    rest = sum(others.values())
    if rest < TOLD_FROM_SHARE * named:
        return ""
    most = max(others, key=lambda each: others[each])
    elsewhere = [row for row in stacks if not is_at(row, at)]
    next_one = beside(stacks, most, at)
    place = f", most of it at {next_one.text}" if next_one and next_one.ms >= LINE_FROM_SHARE * rest else ""
    # A call that holds Python's lock to the end of the capture has no sample there.
    seen = sum(row.exposed_ms_per_step for row in elsewhere if row.part == most)
    if most == name and seen < LINE_FROM_SHARE * others[most]:
        return f"; of {format_ms(rest)} more the line is unknown"
    if most == name:
        return f"; other lines take {format_ms(rest)} more{place}"
    and_such = "" if others[most] >= (1 - TOLD_FROM_SHARE) * rest else " and such"
    return f"; {format_ms(rest)} more go to {part.noun_of(most)}{and_such}{place}"
