"""Programs of JAX whose work another program of the step does as well: loss, accuracy and gradient, each by itself.

`jax.jit(loss)` and `jax.jit(jax.grad(loss))` both run the model. A trace does not show what arrays programs are given:
that the work is the same is likely where ops of the same shapes come from the same lines, and only who wrote the
program can be certain. So it is a note, and no finding; a verdict on the device names the programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from tpuprof.model.compile.traced_ops import TracedOp, traced_ops
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.intervals import Int64
from tpuprof.model.steps import Steps
from tpuprof.units import format_ms, listed, ps_to_ms

# Share of the device's time in steps that such programs take from which they are named: what rules on ops fail from.
NAMED_FROM_SHARE = 0.1
# Share of it that a program takes for it to be looked at (share): its text is long, and what it saves is less.
LEAST_SHARE = 0.02
# Share of a program's heavy ops that another one has as well from which its work is the other's (share): both come from
# one model, and the compiler may have merged or changed one of ten. A judgement.
SAME_FROM_SHARE = 0.9
# Share of the steps in which a program runs for it to be a part of the step (share): an evaluation comes seldom.
IN_STEPS_FROM_SHARE = 0.5
# Share of a program's time beside that of the one that does its work too, up to which it is the smaller one (ratio): of
# two that take as long, an evaluation, say, and another model, neither is a part of the other.
SMALLER_UP_TO = 0.75
# Frames of a stack, the innermost first, that tell where an op comes from (frames): a library's layer, and the line of
# the model that calls it. Frames behind them are those of each program's own function.
FRAMES = 2
# Programs that are named (programs).
PROGRAMS_NAMED = 3
_HEAVY = (b"dot", b"convolution")
# How the note goes on behind the programs.
SAME_WORK = ": the same lines and shapes"


def computed_twice(devices: Sequence[DeviceActivity], steps: Steps, protos: Mapping[str, bytes]) -> list[str]:
    """A note where programs take much of the step whose work a larger program of the step does as well."""
    if not devices or not len(steps):
        return []
    device = max(devices, key=lambda each: each.busy.total)
    took = _times(device, steps)
    total = sum(took.values())
    known = [name for name, ps in took.items() if name in protos and ps >= LEAST_SHARE * total > 0]
    candidates = _in_most_steps(device, known, steps) if len(known) > 1 else []
    work = {name: _work(protos[name]) for name in candidates if len(candidates) > 1}
    found = {name: larger for name in work if (larger := _larger(name, took, work))}
    if not found:
        return []
    largest = max(found.values(), key=lambda name: took[name])
    smaller = sorted((name for name in found if found[name] == largest), key=lambda name: -took[name])
    spent = sum(took[name] for name in smaller)
    if spent < NAMED_FROM_SHARE * total:
        return []
    said = {
        name: f"{_called(name)} ({format_ms(ps_to_ms(took[name] / len(steps)))})"
        for name in (largest, *smaller)
    }
    names = listed([said[name] for name in smaller], PROGRAMS_NAMED)
    return [
        f"{said[largest]} also runs the multiplications and convolutions of {names}{SAME_WORK}. If "
        "they are given the same arrays, one function that returns all results saves up to "
        f"{format_ms(ps_to_ms(spent / len(steps)))} per step (`jax.value_and_grad(f, has_aux=True)` gives the loss, "
        "what else `f` returns, and the gradient). The trace does not tell what they are given"
    ]


def said_of_twice(notes: Sequence[str]) -> str:
    """What a verdict on the device says where one of these notes is such a one; else empty."""
    found = next((note.partition(SAME_WORK)[0] for note in notes if SAME_WORK in note), "")
    return f" {found}; a note says how to run them once." if found else ""


def _times(device: DeviceActivity, steps: Steps) -> dict[str, float]:
    """Device time of each program in steps (ps)."""
    own = device.sums(steps.spans).self_ps_in_steps * device.wall_factor(steps.spans)[device.ops.kind]
    took: dict[str, float] = {}
    for program, ps in zip(device.ops.program, own.tolist(), strict=True):
        took[program] = took.get(program, 0.0) + ps
    return took


def _in_most_steps(device: DeviceActivity, names: Sequence[str], steps: Steps) -> list[str]:
    """Those programs that run in enough of the steps to be a part of the step."""
    events = device.op_events
    rows = {name: row for row, name in enumerate(names)}
    number = np.array([rows.get(each, -1) for each in device.ops.program], np.int64)
    at = np.searchsorted(steps.start, events.start, "right") - 1
    inside = (at >= 0) & (number[events.op] >= 0)
    inside &= events.start < steps.end[np.maximum(at, 0)]
    seen: Int64 = np.zeros((len(names), len(steps)), np.int64)
    seen[number[events.op[inside]], at[inside]] = 1
    return [name for name, row in zip(names, seen, strict=True) if row.mean() >= IN_STEPS_FROM_SHARE]


def _larger(name: str, took: Mapping[str, float], work: Mapping[str, Counter[TracedOp]]) -> str:
    """The program that takes longest of those that do nearly all of this one's heavy work as well; empty without."""
    whole = sum(work[name].values())
    found = [
        other
        for other in work
        if took[name] <= SMALLER_UP_TO * took[other]
        and sum((work[name] & work[other]).values()) >= SAME_FROM_SHARE * whole > 0
    ]
    return max(found, key=lambda each: took[each], default="")


def _work(data: bytes) -> Counter[TracedOp]:
    """A program's multiplications and convolutions by where they come from, result and operands; none without lines."""
    ops = traced_ops(data, _HEAVY.__contains__)
    return Counter(each._replace(stack=each.stack[:FRAMES]) for each in ops)


def _called(program: str) -> str:
    return program.partition("(")[0]
