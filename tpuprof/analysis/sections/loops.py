"""Loops of the programs, layers repeated without one, and lines that much of a program comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuprof.model.compile.hlo_metadata import scope_label
from tpuprof.model.device.loops import Loop
from tpuprof.model.device.unrolled import Repetition
from tpuprof.model.host_run import HostRun
from tpuprof.report.schema import LoopRow
from tpuprof.units import PS_PER_MS, format_share, ps_to_ms

if TYPE_CHECKING:
    from tpuprof.model.device.lines_of_program import ProgramLine


def loop_rows(hosts: list[HostRun]) -> list[LoopRow]:
    """Loops and repetitions of the first host that has any: hosts of one run execute the same programs."""
    for host in hosts:
        rows = [_loop_row(each, len(host.steps)) for each in host.loops]
        if host.repetition is not None:
            rows.append(_repetition_row(host.repetition))
        rows += map(_line_row, host.program_lines)
        if rows:
            return rows
    return []


def _loop_row(each: Loop, steps: int) -> LoopRow:
    return LoopRow(
        name=each.name,
        kind="while",
        program=each.program,
        direction=each.direction,
        trip_count=each.trip_count,
        occurrences=each.occurrences,
        total_ms_per_step=ps_to_ms(each.total_ps) / steps if steps else None,
        iteration_ms=[ps / PS_PER_MS for ps in each.iteration_ps] if each.iteration_ps is not None else None,
        outliers=each.outliers,
        source=each.source,
        detail=each.detail or scope_label(each.scope),
        within=each.within,
    )


def _repetition_row(each: Repetition) -> LoopRow:
    what = f"{each.layers} equal layers" + (f" ({each.path})" if each.path else "")
    products = f"{each.matmuls} matrix multiplications each"
    detail = f"{what} with {products}, {format_share(each.share)} of the program's matmul work"
    low, high = each.ops_share or (None, None)
    if each.differs:
        detail += f"; not in all of them: {', '.join(each.differs)}"
    return LoopRow(
        name=each.path or "repeated block",
        kind="unrolled",
        program=each.program,
        direction="",
        trip_count=each.layers,
        occurrences=1,
        total_ms_per_step=None,
        iteration_ms=None,
        outliers=[],
        source=each.source,
        detail=detail,
        ops_share_low=low,
        ops_share_high=high,
    )


def _line_row(each: ProgramLine) -> LoopRow:
    ops = f"{each.ops:,} of the program's ops, {format_share(each.share)} of those that name a line"
    return LoopRow(
        name=each.source,
        kind="line",
        program=each.program,
        direction="",
        trip_count=None,
        occurrences=1,
        total_ms_per_step=None,
        iteration_ms=None,
        outliers=[],
        source=each.source,
        detail=f"{ops}, come from {each.source}",
        ops_share_low=each.share,
    )
