"""Compiles of one host, each with its cause."""

from __future__ import annotations

import numpy as np

from tpuprof.decode.debug_text import DebugCompile
from tpuprof.model.compile.compiles import Compile
from tpuprof.model.compile.growth import graphs_grow
from tpuprof.model.compile.recurrence import AGAIN, Returns, are_regular, late_of, returns
from tpuprof.model.host_run import HostRun
from tpuprof.model.notes import Notes
from tpuprof.model.steps.phase import ONE_OFF_COMPILE, Phase
from tpuprof.model.steps.table import StepSource
from tpuprof.model.telemetry import (
    compile_seconds_before,
    compiles_before,
    longest_compile_before,
    no_line_compiled_longest,
)
from tpuprof.report.labels import source_of
from tpuprof.report.schema import Cause, CompileRow
from tpuprof.report.sections import CompileHistory
from tpuprof.rules.shared.mask_compiles import counts_changed
from tpuprof.units import PS_PER_NS, ps_to_ms

# Part of the path of every installed library.
_LIBRARIES = "/site-packages/"


def compile_rows(host: HostRun, notes: Notes) -> list[CompileRow]:
    """One row a compile, in time order; frames from telemetry, else from what PT_XLA_DEBUG printed."""
    seen: set[str] = set()
    rows = []
    once = [each for each in host.steps.phases if each.name == ONE_OFF_COMPILE]
    callers = _callers(host, notes)
    for each in host.compiles:
        number = int(host.steps.number[each.step]) if each.step is not None else None
        # A step that is left out for its compile has frames all the same.
        noted = number if number is not None else _step_of(once, each.start_ps)
        told = notes.compiles.get(each.graph_hash)
        frames = list(each.frames) or (host.compile_frames.get(noted, []) if noted is not None else [])
        frames = frames or (told.frames if told else [])
        rows.append(
            CompileRow(
                step=number,
                host=host.name,
                graph_hash=each.graph_hash,
                program=each.program,
                start_ns=each.start_ps // PS_PER_NS,
                duration_ms=ps_to_ms(each.duration_ps),
                cause=_cause(each, frames, callers, told),
                frames=frames,
                novelty="again" if each.graph_hash in seen else "new",
                in_read=each.in_read,
                defined=each.defined,
            )
        )
        if each.graph_hash:
            seen.add(each.graph_hash)
    return rows


def _callers(host: HostRun, notes: Notes) -> dict[str, list[str]]:
    """The program's own line that calls a library's line (`file:line`), as the only frame of a list.

    TorchTPU's log names the innermost Python line of an op: that of `torch/nn/modules/linear.py`, say. Where the
    capture did not note who calls that, it is the line that called it in most samples.
    """
    places = {place for each in host.compiles for place in (each.cause.source, *each.cause.also)}
    wanted = {place for place in places if _LIBRARIES in place}
    noted = {place: [f"line ({line})"] for place in wanted if (line := notes.caller_of(place))}
    return {**_sampled_callers(host, wanted), **noted}


def _sampled_callers(host: HostRun, wanted: set[str]) -> dict[str, list[str]]:
    samples = host.activity.samples
    if samples is None or not wanted:
        return {}
    counts = np.bincount(samples.seen[samples.seen >= 0], minlength=len(samples.stacks))
    votes: dict[str, dict[str, int]] = {}
    for stack, count in zip(samples.stacks, counts.tolist(), strict=True):
        for place in wanted.intersection(map(source_of, stack.frames)) if stack.source else ():
            lines = votes.setdefault(place, {})
            lines[stack.source] = lines.get(stack.source, 0) + count
    return {place: [f"line ({max(lines, key=lambda line: lines[line])})"] for place, lines in votes.items()}


def steps_until_quiet(hosts: list[HostRun]) -> int | None:
    """How many steps of training it takes until none compiles any more, of the host that takes longest.

    None where no host has notes of its steps, or did not stop compiling.
    """
    return max((each for each in map(_until_quiet, hosts) if each is not None), default=None)


def _until_quiet(host: HostRun) -> int | None:
    steps = [each for each in host.records if each.is_step]
    if host.after is None or host.after.estimated or not steps:
        return None
    if host.later_part is not None:
        # Its steps are numbered from the first one without a record on.
        return len(steps) + host.later_part.quiet
    later = [each.last_and_gap for each in host.after.lines.values()]
    lasts = [each[0] for each in later if each is not None]
    if len(lasts) < len(later):
        return None
    captured = max((row for row, each in enumerate(steps) if each.captured), default=len(steps) - 1)
    # Steps after the capture are numbered from the first one behind the captured ones.
    return captured + 2 + max(lasts, default=-1)


def compile_history(hosts: list[HostRun], rows: list[CompileRow]) -> CompileHistory:
    """How often steps compile before, in and after the capture, of the host with most steps."""
    host = max(hosts, key=lambda each: len(each.steps))
    once = sum(each.name == ONE_OFF_COMPILE for each in host.steps.phases)
    own = [row for row in rows if row.host == host.name and row.step is not None]
    inside = len({row.step for row in own})
    steps = [each for each in host.records if each.is_step]
    captured = [row for row, each in enumerate(steps) if each.captured]
    first = captured[0] if captured else len(steps)
    before = [bool(each.compiles) for each in steps[:first]]
    after = host.after
    return CompileHistory(
        steps_before=len(before) if steps else None,
        compiling_before=sum(before) if steps else None,
        steps_in=len(host.steps) + once,
        compiling_in=inside + once,
        steps_after=after.steps if after and not after.estimated else None,
        compiling_after=after.compiling_steps if after and not after.estimated else None,
        seconds_after=after.seconds if after else None,
        wall_seconds_after=after.wall_seconds if after else None,
        ended=bool(after and after.ended),
        returns=_returns(host, own) or (Returns.NEVER.value if once else ""),
        graphs_before=sum(each.compiles for each in host.records if each.before) if host.records else None,
        seconds_before=compile_seconds_before(host.records) if host.records else None,
        source_before="" if no_line_compiled_longest(host.records) else longest_compile_before(host.records),
        warmup_to_compiles=_warmup_to_compiles(host),
    )


def _warmup_to_compiles(host: HostRun) -> int | None:
    if host.after is None or not host.after.lines:
        return None
    from tpuprof.model.compile.compiling_later import warmup_to_compiles

    return warmup_to_compiles(host)


def _returns(host: HostRun, rows: list[CompileRow]) -> str:
    """Whether any of a host's compiles in captured steps comes again: the surest answer of their lines, or empty."""
    if rows and host.steps.source is StepSource.READS and graphs_grow(host.compiles):
        return Returns.YES.value  # each graph holds the steps before it, so that none is like another
    lines = {row.line for row in rows}
    numbers = {row.step for row in rows if row.step is not None}
    late = late_of(numbers, host.steps.number)
    count = len(host.steps)
    again = {
        line: len({row.step for row in rows if row.line == line and row.cause.kind == AGAIN})
        for line in lines
    }
    regular = are_regular(numbers, host.steps.number)
    found = {
        returns(
            line,
            len(numbers),
            count,
            host.after,
            compiles_before(host.records, line),
            late,
            again[line],
            regular,
        )
        for line in lines
    }
    return next((each.value for each in (Returns.YES, Returns.UNKNOWN, Returns.NEVER) if each in found), "")


def _step_of(phases: list[Phase], time: int) -> int | None:
    return next((each.step for each in phases if each.start <= time < each.end), None)


def _cause(
    each: Compile, frames: list[str], callers: dict[str, list[str]], told: DebugCompile | None
) -> Cause:
    """The cause with a source line: of the op that changed, or where the user's code cut the graph.

    Ops inside libraries say less of what to change than the user's own frame does.
    """
    place = each.cause.source
    frames = frames or callers.get(place, [])
    # The program of a read is no other form of the step's, whatever ops it lacks of it. One for another count of a mask
    # has that of the ops before it, too: what uses those has done nothing.
    own = each.in_read and (each.cause.kind == "graph" or counts_changed(each.cause.detail))
    if (not place or _LIBRARIES in place or own) and frames:
        place = source_of(frames[0])
    called = (source_of(callers[at][0]) if at in callers else at for at in each.cause.also)
    also = [at for at in dict.fromkeys(called) if at != place and _LIBRARIES not in at]
    detail = each.cause.detail
    if each.cause.kind == "unknown" and told is not None and told.cause:
        detail += f"; torch_xla says: {told.cause}, {told.inputs} inputs, {told.outputs} outputs"
    file, _, line = place.rpartition(":")
    if not line.isdigit():
        return Cause(each.cause.kind, detail)
    return Cause(each.cause.kind, detail, file, int(line), also, each.cause.others)
