"""What a compile's program has that the nearest earlier one has not."""

from __future__ import annotations

from collections.abc import Mapping

from tpuprof.model.compile.compiles import Compile, earlier_programs, first_runs
from tpuprof.model.compile.hlo_difference import Difference, difference
from tpuprof.model.compile.programs import Programs
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.units import PS_PER_NS


def program_change(
    program: str,
    start_ns: int,
    compiles: list[Compile],
    devices: list[DeviceActivity],
    protos: Mapping[str, bytes],
) -> Difference | str:
    """The difference of a program, compiled at a time (ns), from the nearest earlier one; else why there is none.

    `protos` are the programs that the capture embeds.
    """
    if program not in protos:
        return (
            "unavailable: the capture holds no HLO of the graph this compile made, or it did not run in it."
        )
    compiled = next(
        (each for each in compiles if each.start_ps // PS_PER_NS == start_ns and each.program == program),
        None,
    )
    known = [*{**first_runs(devices), **protos}]
    earlier = earlier_programs(compiled, compiles, known) if compiled else []
    pair = Programs.of(protos).nearest(program, earlier)
    return difference(*pair) if pair else "unavailable: the capture holds no earlier graph to compare with."
