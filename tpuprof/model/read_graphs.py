"""Programs that reads and ops on the host run by themselves in mid-step, and what the step computes again of them.

`.item()` before the graph cut runs what that one value needs, and nothing else stays on the device: the next read, and
the cut at the step's end, compute the same ops again. An evaluation that is read runs a program of its own as well,
whose work nothing else does: it has the same shapes, but its ops were traced from another line of the training loop. So
an op is the same where its whole Python stack is; programs without stacks (captured without IR debugging) tell nothing.

An op that XLA does not know, and that runs on the host, fetches its inputs in the same way: what they need is a program
of its own, and whatever else is kept for the backward pass is computed again. So does an op whose result has as many
elements as the device finds: `torchvision.ops.nms` reads their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.graph_cuts import cuts_with_causes, handed_over_unasked
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.intervals import EMPTY, Int64, Spans, covered, union
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Track
from tpuprof.own_events import HOST_READ
from tpuprof.records import record

if TYPE_CHECKING:
    from tpuprof.model.compile.traced_ops import TracedOp

# Share of step time that programs of reads take from which it is asked what they compute (share): below it, nothing of
# it is worth naming, and large programs take a while to read.
ASKED_FROM_SHARE = 0.05
# Share of a program's work that another program of the run has as well, from which it counts as computed again (share):
# a value that is read now and then needs the forward pass whole, a sum of its own little.
AGAIN_FROM_SHARE = 0.5
# Instructions that do most of a model's work. Programs with none of them are compared by all their instructions.
_HEAVY = (b"dot", b"convolution", b"custom-call")
_NO_WORK = (
    b"parameter",
    b"constant",
    b"tuple",
    b"get-tuple-element",
    b"fusion",
    b"call",
    b"bitcast",
    b"copy",
)
# The events of a thread that wait for a program that they ran (rows).
Waits = Callable[[Track, Vocabulary, Steps], Int64]
# The call and the line of an event of a thread.
Named = Callable[[Track, int], tuple[str, str]]
# What reads that run graphs save at most on a device that is this machine's CPU, over what they block (ratio). The host
# traces more slowly right after a read, as the device's threads had the CPUs and their caches: with 20 reads of tiny
# graphs per step a backward pass took 2.1 ms, without them 0.6. Captured steps of 15.9 ms, blocked for 8.5, were 3.6 ms
# without the reads; other programs gained 0.8 to 1.4 times what was blocked (torch_xla 2.9, 2 CPUs).
BESIDE_READS = 1.45


@record(frozen=True)
class ReadGraphs:
    """Programs that reads from one line ran in steps: how many, and their time on the device (ps).

    `again_ps` is the part of it that another program of the steps does as well, by the share of the program's work that
    both have; `by_step` holds that part for each step (ps). `untold_ps` is the time of programs whose ops have no
    Python stack: what of it is done again is unknown.
    """

    call: str
    source: str
    occurrences: int
    device_ps: int
    again_ps: int
    by_step: Int64
    untold_ps: int = 0


def read_graphs(
    waits: Waits,
    threads: list[Track],
    vocabulary: Vocabulary,
    steps: Steps,
    devices: list[DeviceActivity],
    protos: dict[str, bytes],
    compiling: Spans = EMPTY,
    named: Named | None = None,
) -> list[ReadGraphs]:
    """Programs that `waits` ran in steps, by line, those that take longest first; empty where they take little.

    `threads` are the training thread and those of autograd. `waits` is `cutting_reads`, or `fetching_inputs` where ops
    are known to have run on the host: these are one row. `named` gives the call and line of reads that have none in
    the trace. Little is asked of what steps take beside `compiling`.
    """
    if not threads or not len(steps) or not devices:
        return []
    device = max(devices, key=lambda each: each.busy.total)
    runs = [
        run
        for each in threads
        for run in _runs(
            each,
            waits(each, vocabulary, steps),
            handed_over_unasked(each, vocabulary, steps),
            steps,
            device,
            named,
        )
    ]
    rest = int(steps.wall_ps.sum()) - int(covered(compiling, steps.start, steps.end).sum())
    if sum(ps for *_, ps in runs) < ASKED_FROM_SHARE * rest:
        return []
    again = _again({program for *_, program, _ in runs}, device, steps, protos)
    found: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
    for call, source, step, program, ps in runs:
        found.setdefault((call, source), []).append((step, program, ps))
    rows = [_row(key, members, again, len(steps)) for key, members in found.items()]
    return sorted(rows, key=lambda each: -each.device_ps)


def again_by_step(rows: list[ReadGraphs], steps: int) -> Int64:
    """Work of the device in each of so many steps that reads ran by themselves, and that the step computes as well."""
    total: Int64 = sum(
        (each.by_step for each in rows if len(each.by_step) == steps), np.zeros(steps, np.int64)
    )
    return total


def again_alone(again: Int64) -> list[ReadGraphs]:
    """Rows of which only that is known: work done again in each step (ps). Empty where none is."""
    total = int(again.sum())
    return [ReadGraphs("", "", 0, total, total, again)] if total else []


def _row(
    key: tuple[str, str], members: list[tuple[int, str, int]], again: dict[str, float | None], steps: int
) -> ReadGraphs:
    by_step = np.zeros(steps, np.int64)
    untold = 0
    for step, program, ps in members:
        share = again.get(program, 0.0)
        by_step[step] += round(ps * (share or 0.0))
        untold += ps if share is None else 0
    return ReadGraphs(*key, len(members), sum(ps for *_, ps in members), int(by_step.sum()), by_step, untold)


def cutting_reads(thread: Track, vocabulary: Vocabulary, steps: Steps) -> Int64:
    """Reads of the program that ran a graph in steps."""
    rows = np.array(
        sorted({row for row in cuts_with_causes(thread, vocabulary, steps) if row >= 0}), np.int64
    )
    names = thread.plane.events.names
    return rows[thread.name_row[rows] == names.index(HOST_READ)] if HOST_READ in names else rows[:0]


def _runs(
    thread: Track, rows: Int64, cuts: Int64, steps: Steps, device: DeviceActivity, named: Named | None
) -> list[tuple[str, str, int, str, int]]:
    """(call, line, row of the step, program, its time on the device in ps) of each program that a read ran.

    A read returns when its program is done: that is the last one that the device ran meanwhile. An op on the host has
    its graph handed over before it waits for it, and the device may begin at once: a program runs from one of `cuts` on
    (ps), the last one behind the read before.
    """
    events = device.op_events
    order = np.argsort(events.start, kind="stable")
    start, end, op = events.start[order], events.end[order], events.op[order]
    stats = thread.stats("call", "source")
    calls = thread.plane.stat_text(stats, "call", len(thread))
    sources = thread.plane.stat_text(stats, "source", len(thread))
    found, before = [], 0
    for row in rows[np.argsort(thread.start[rows], kind="stable")].tolist():
        cut = int(np.searchsorted(cuts, thread.end[row], "right")) - 1
        begin = int(cuts[cut]) if cut >= 0 and cuts[cut] >= before else int(thread.start[row])
        before = int(thread.end[row])
        first, last = np.searchsorted(start, (min(begin, int(thread.start[row])), before))
        if first == last:
            continue
        programs = [device.ops.program[each] for each in op[first:last].tolist()]
        of_it = first + np.flatnonzero([name == programs[-1] for name in programs])
        # On a CPU its ops run side by side.
        ps = union(start[of_it], end[of_it]).total
        step = int(np.searchsorted(steps.start, thread.start[row], "right")) - 1
        call, source = named(thread, row) if named else (calls[row], sources[row])
        found.append((call, source, step, programs[-1], ps))
    return found


def _again(
    programs: set[str], device: DeviceActivity, steps: Steps, protos: dict[str, bytes]
) -> dict[str, float | None]:
    """How much of each program's work another program that ran in steps has as well (share), where that is enough.

    None of a program whose ops have no stacks: that is unknown. Empty where programs are not known.
    """
    events = device.op_events
    inside = (events.start >= steps.start[0]) & (events.start < steps.end[-1])
    ran = {device.ops.program[row] for row in np.unique(events.op[inside]).tolist()}
    work = {name: _work(protos[name]) for name in ran | programs if name in protos}
    shared = {
        name: max((_shared(work[name], other) for each, other in work.items() if each != name), default=0.0)
        for name in programs & set(work)
    }
    enough = {name: share for name, share in shared.items() if share >= AGAIN_FROM_SHARE}
    return enough | dict.fromkeys(name for name in shared if not work[name])


def _shared(one: Counter[TracedOp], other: Counter[TracedOp]) -> float:
    """Share of one program's instructions that the other has as well."""
    whole = sum(one.values())
    return sum((one & other).values()) / whole if whole else 0.0


@lru_cache(maxsize=PROGRAMS_KEPT)
def _work(data: bytes) -> Counter[TracedOp]:
    """A program's heavy instructions that have a Python stack, else all such: opcode, stack, result, operand shapes.

    Ops of a backward pass have no stack: they are done again where those of their forward pass are.
    """
    from tpuprof.model.compile.traced_ops import traced_ops

    rows = list(traced_ops(data, lambda opcode: opcode not in _NO_WORK))
    return Counter([row for row in rows if row.opcode in _HEAVY] or rows)


def reads_cost_at_most(idle: float, again: float, blocked: float, *, on_cpu: bool) -> float:
    """What a step is shorter without such reads at most, in the unit of the times given.

    The device idles for `idle` and computes for `again` what the step computes as well. The host goes on earlier by
    what the reads block, which holds the run of their graphs: `again` is no time beside it. `on_cpu`: the device is
    this machine's CPU.
    """
    beside = BESIDE_READS if on_cpu else 1.0
    return max(min(idle + again, beside * blocked), again)
