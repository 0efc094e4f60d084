"""What the threads of one host did, as sums that add up over hosts: tracing, input, annotations, sampled stacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from sys import intern
from typing import Any, TypeVar

import orjson

from tpuprof.analysis.sections.host_stacks import StackSums, stack_sums
from tpuprof.model.device.op_table import AnnotationTotal, annotation_times
from tpuprof.model.host.input_pipeline import InputPipeline
from tpuprof.model.host.stacks import Stack
from tpuprof.model.host.threads import TrainingThread
from tpuprof.model.host.tracing import Tracing, TracingShare
from tpuprof.model.host_run import HostRun
from tpuprof.model.telemetry import Counted, counted
from tpuprof.pod.squeeze import squeezed, unsqueezed
from tpuprof.records import record

# Sampled stacks, annotations and rows of tracing that a summary keeps (rows), those with most time: real captures have
# a few hundred of each. What a host has beyond is counted, and the report says so.
ROWS_KEPT = 2_000
_Row = TypeVar("_Row")


@record(frozen=True)
class HostWork:
    """One host's threads; times in ps. `stacks` is None where its capture sampled none.

    `left_out` has by table how many rows the host has that are not kept here.
    """

    tracing: Tracing
    input: InputPipeline | None
    threads: list[TrainingThread]
    annotations: list[AnnotationTotal]
    counted: Counted
    unexplained_reads_ps: int
    stacks: StackSums | None
    left_out: dict[str, int]


def work_of(host: HostRun) -> HostWork:
    """What one host's threads did."""
    annotations = annotation_times(host.activity.annotations, host.steps)
    tracing, stacks = host.tracing.annotations, stack_sums(host)
    rows = stacks.rows if stacks else []
    counts = {"annotations": len(annotations), "rows of tracing": len(tracing), "sampled stacks": len(rows)}
    kept = _most(rows, lambda each: each[2] + each[3])
    return HostWork(
        tracing=replace(
            host.tracing, annotations=_most(tracing, lambda each: each.exposed_ps + each.hidden_ps)
        ),
        input=host.input,
        threads=host.threads,
        annotations=_most(annotations, lambda each: each.host_ps),
        counted=counted(host.records),
        unexplained_reads_ps=host.unexplained_reads_ps,
        stacks=replace(stacks, rows=kept) if stacks else None,
        left_out={name: count - ROWS_KEPT for name, count in counts.items() if count > ROWS_KEPT},
    )


def _most(rows: list[_Row], time: Callable[[_Row], int]) -> list[_Row]:
    """So many of the rows, those with most time, in their order."""
    if len(rows) <= ROWS_KEPT:
        return rows
    longest = sorted(range(len(rows)), key=lambda row: (-time(rows[row]), row))[:ROWS_KEPT]
    return [rows[row] for row in sorted(longest)]


def packed(work: HostWork) -> bytes:
    """The work as packed JSON, in which each frame of the stacks stands once."""
    plain = {**asdict(work), "stacks": None}
    if work.stacks is not None:
        numbers: dict[str, int] = {}
        rows = [
            (
                [numbers.setdefault(frame, len(numbers)) for frame in stack.frames],
                stack.call,
                stack.source,
                stack.user_call,
                stack.iterator,
                *times,
            )
            for stack, *times in work.stacks.rows
        ]
        plain["stacks"] = {**vars(work.stacks), "frames": list(numbers), "rows": rows}
    return squeezed(orjson.dumps(plain))


def unpacked(data: bytes) -> HostWork:
    """The work in packed JSON; raises `KeyError`, `TypeError` or `ValueError` where it is none."""
    told = orjson.loads(unsqueezed(data))
    tracing = {
        name: [TracingShare(**row) for row in told["tracing"][name]] for name in ("phases", "annotations")
    }
    return HostWork(
        tracing=Tracing(**{**told["tracing"], **tracing}),
        input=InputPipeline(**told["input"]) if told["input"] else None,
        threads=[TrainingThread(**row) for row in told["threads"]],
        annotations=[AnnotationTotal(**row) for row in told["annotations"]],
        counted=Counted(**told["counted"]),
        unexplained_reads_ps=told["unexplained_reads_ps"],
        stacks=_stacks(told["stacks"]) if told["stacks"] else None,
        left_out=told["left_out"],
    )


def _stacks(told: dict[str, Any]) -> StackSums:
    # A frame of a thousand hosts is kept once.
    frames = [intern(frame) for frame in told["frames"]]
    rows = [
        (Stack(tuple(frames[at] for at in path), *map(intern, texts)), intern(part), *times)
        for path, *texts, part, exposed, hidden, count in told["rows"]
        for times in [(exposed, hidden, count)]
    ]
    return StackSums(told["steps"], told["wall_ps"], rows, told["holder"])
