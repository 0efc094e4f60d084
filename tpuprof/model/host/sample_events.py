"""The samples of the training thread as a trace has them: moment, stack, and what happened since the one before."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from tpuprof.model.host.op_cost import Sample
from tpuprof.model.host.stacks import FRAMEWORK, IO, LOCK, PLAIN, SLEEP, Stack, family
from tpuprof.model.intervals import EMPTY, Int64, Spans, union
from tpuprof.model.timeline import Host, Track
from tpuprof.own_events import GRAPH_CUT, STEP, THREAD_JOINS
from tpuprof.safe_text import FROM_SAFE
from tpuprof.units import PS_PER_US

# Share of an interval's running time that its ops must explain for all of it to be tracing: what an op takes is known
# to about a quarter.
TRACING_FROM_SHARE = 0.5
# Families of calls that may block.
BLOCKING = (SLEEP, IO, LOCK)
_COLUMNS = (
    "stack",
    "gap_us",
    "ops",
    "cpu_us",
    "wait_us",
    "python_us",
    "process_us",
    "holder",
    "prompt",
    "asleep",
    "late_us",
)
_TEXTS = ("frames", "call", "source", "user_call", "iterator")
# Share of the samples in which a thread waits for the end of another one, from which it does not train: one that trains
# and saves in a thread may join that one for most of a step, and hands over programs between. A judgement.
JOINS_FROM_SHARE = 0.98
_JOINS = re.compile(rf"(?:{'|'.join(THREAD_JOINS)}) \(.*\bthreading\.py:\d+\)$")


def times_of(driver: Track | None, *events: str) -> Spans:
    """When the training thread is in one of these events."""
    if driver is None:
        return EMPTY
    rows = driver.named(*events)
    return union(driver.start[rows], driver.end[rows])


def cuts_of(host: Host, reads: Spans) -> tuple[Int64, Int64]:
    """When graphs were cut on any thread (ps), and the same with when steps began. Compiled functions may cut none.

    Where nothing else cuts, `reads` do: inference that takes each result to the host.
    """
    cuts, steps = (
        np.sort(np.concatenate([EMPTY.start, *(each.start[each.named(event)] for each in host.threads)]))
        for event in (GRAPH_CUT, STEP)
    )
    cuts = cuts if len(cuts) else reads.start
    return cuts if len(cuts) else steps, np.sort(np.concatenate([cuts, steps]))


def joins_throughout(samples: list[Sample], stacks: list[Stack]) -> bool:
    """Whether the sampled thread waits for the end of another one all along: that one trains, and was not sampled.

    A program may compile its step in the main thread, and then start a thread and join it.
    """
    joins = [bool(each.frames) and _JOINS.match(each.frames[-1]) is not None for each in stacks]
    waits = sum(each.stack >= 0 and joins[each.stack] for each in samples)
    return bool(samples) and waits >= JOINS_FROM_SHARE * len(samples)


def samples_of(track: Track, rows: Int64, holders: Int64) -> tuple[list[Sample], list[Stack]]:
    """The samples in order, and their stacks; `holders` are the events that tell stacks of other threads (rows)."""
    stats = track.stats(*_COLUMNS, *_TEXTS)
    columns = {
        name: track.plane.stat_integers(stats, name, len(track), missing=-1)[rows].tolist()
        for name in _COLUMNS
    }
    both = np.concatenate([rows, holders])
    stacks, numbers = _stacks(track, both, _numbers(track, both))
    families = [family(stack) for stack in stacks]
    samples = []
    for row, at in enumerate(track.start[rows].tolist()):
        gap, cpu, waited, others = (
            max(columns[name][row], 0) * PS_PER_US for name in ("gap_us", "cpu_us", "wait_us", "python_us")
        )
        stack = numbers.get(columns["stack"][row], -1)
        kind = families[stack] if stack >= 0 else PLAIN
        ops = max(columns["ops"][row], 0)
        holder = numbers.get(columns["holder"][row], -1)
        prompt, asleep = columns["prompt"][row] == 1, columns["asleep"][row]
        sample = Sample(at, gap, cpu, waited, others, ops, stack, kind, holder, prompt=prompt)
        sample.asleep = None if asleep < 0 else bool(asleep)
        sample.process = max(columns["process_us"][row], 0) * PS_PER_US
        sample.late = max(columns["late_us"][row], 0) * PS_PER_US
        samples.append(sample)
    samples.sort(key=lambda each: each.at)
    _settle(samples)
    return samples, stacks


def _numbers(track: Track, rows: Int64) -> list[int]:
    found: list[int] = track.plane.stat_integers(track.stats("stack"), "stack", len(track), missing=-1)[
        rows
    ].tolist()
    return found


def _stacks(track: Track, rows: Int64, numbers: list[int]) -> tuple[list[Stack], dict[int, int]]:
    """The stacks, and their row by the number that samples know them by."""
    stats = track.stats(*_TEXTS)
    texts = {name: track.plane.stat_text(stats, name, len(track)) for name in _TEXTS}
    stacks: list[Stack] = []
    found: dict[int, int] = {}
    for row, number in zip(rows.tolist(), numbers, strict=True):
        frames = texts["frames"][row]
        if frames and number not in found:
            found[number] = len(stacks)
            words = {name: texts[name][row].translate(FROM_SAFE) for name in _TEXTS}
            stacks.append(Stack(tuple(words.pop("frames").split(";")), **words))
    return stacks, found


def _settle(samples: list[Sample]) -> None:
    """Put waits for a CPU where they were: the scheduler counts one when it ends, which may be a sample later."""
    for each, after in pairwise(samples):
        blocked = each.gap - each.cpu - each.waited
        if each.family in (FRAMEWORK, PLAIN) and each.others < TRACING_FROM_SHARE * blocked:
            # Nothing in this stack blocks, so it was ready and got no CPU.
            late = max(min(blocked, after.waited), 0)
        else:
            late = max(after.cpu + after.waited - after.gap, 0)
        each.waited += late
        after.waited -= late
    for each in samples:
        each.blocked = max(each.gap - each.cpu - each.waited, 0)
    for each, after in pairwise(samples):
        blocks_after = after.was_blocked and (after.stack == each.stack or after.family not in BLOCKING)
        awake = not (each.was_blocked or blocks_after) if each.asleep is None else not each.asleep
        each.works = each.prompt and each.family in BLOCKING and awake
