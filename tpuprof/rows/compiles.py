"""Compiles of one host, each with its cause."""

from __future__ import annotations

from tpuprof.decode.debug_text import DebugCompile
from tpuprof.model.compiles import Compile
from tpuprof.model.notes import Notes
from tpuprof.model.run import HostRun
from tpuprof.report.schema import Cause, CompileRow
from tpuprof.units import PS_PER_NS, ps_to_ms

# Part of the path of every installed library.
_LIBRARIES = "/site-packages/"


def compile_rows(host: HostRun, notes: Notes) -> list[CompileRow]:
    """One row a compile, in time order; frames from telemetry, else from what PT_XLA_DEBUG printed."""
    seen: set[str] = set()
    rows = []
    for each in host.compiles:
        number = int(host.steps.number[each.step]) if each.step is not None else None
        told = notes.compiles.get(each.graph_hash)
        frames = (host.compile_frames.get(number, []) if number is not None else []) or (
            told.frames if told else []
        )
        rows.append(
            CompileRow(
                step=number,
                host=host.name,
                graph_hash=each.graph_hash,
                program=each.program,
                start_ns=each.start_ps // PS_PER_NS,
                duration_ms=ps_to_ms(each.duration_ps),
                cause=_cause(each, frames, told),
                frames=frames,
                novelty="again" if each.graph_hash in seen else "new",
            )
        )
        if each.graph_hash:
            seen.add(each.graph_hash)
    return rows


def _cause(each: Compile, frames: list[str], told: DebugCompile | None) -> Cause:
    """The cause with a source line: of the op that changed, or where the user's code cut the graph.

    Ops inside libraries say less of what to change than the user's own frame does.
    """
    place = each.cause.source
    if (not place or _LIBRARIES in place) and frames:
        place = frames[0].rpartition(" (")[2].rstrip(")")
    detail = each.cause.detail
    if each.cause.kind == "unknown" and told is not None and told.cause:
        detail += f"; torch_xla says: {told.cause}, {told.inputs} inputs, {told.outputs} outputs"
    file, _, line = place.rpartition(":")
    if not line.isdigit():
        return Cause(each.cause.kind, detail)
    return Cause(each.cause.kind, detail, file, int(line))
