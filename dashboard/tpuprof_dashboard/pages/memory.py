"""Device memory: peak against capacity, by kind, and the largest buffers."""

from __future__ import annotations

from typing import Any

from tpuprof.units import format_bytes
from tpuprof_dashboard.components.comparison import changed_times
from tpuprof_dashboard.components.layout import chart, empty, section, tile, tiles
from tpuprof_dashboard.components.rows import rows_of
from tpuprof_dashboard.components.share_trees import SHAPE, TREE, memory_tree
from tpuprof_dashboard.components.tables import table
from tpuprof_dashboard.figures.bars import stacked_bars
from tpuprof_dashboard.figures.memory_course import memory_course
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.words import UNAVAILABLE, byte_unit, reason


def _render(view: View) -> list[Any]:
    memory = view.report.memory
    if memory.peak_bytes is None:
        advice = "Capture on TPU with the graphs kept: `tpuprof capture` writes them into the run folder."
        return [
            empty("Memory unavailable", f"{reason(memory.unavailable) or 'the trace does not tell'}.", advice)
        ]
    capacity = memory.capacity_bytes
    left = memory.headroom_bytes
    top = tiles(
        tile("Peak", format_bytes(memory.peak_bytes), memory.method),
        tile(
            "Capacity", format_bytes(capacity) if capacity is not None else UNAVAILABLE, "of one device (HBM)"
        ),
        *_fragmented(memory.fragmented_bytes),
        tile("Headroom", UNAVAILABLE if left is None else format_bytes(max(left, 0)), _left_note(left)),
    )
    return [top, memory_tree(view), _kinds(view), _over_program(view), _buffers(view)]


def _fragmented(size: int | None) -> list[Any]:
    if size is None:
        return []
    return [
        tile(
            "Fragmented",
            format_bytes(size),
            "of the temporaries' space, filled by no live buffer at its peak",
        )
    ]


def _left_note(left: int | None) -> str:
    if left is None:
        return "the capacity is unknown"
    return "at the peak" if left >= 0 else f"{format_bytes(-left)} more than there is"


def _kinds(view: View) -> Any:
    kinds = view.report.memory.by_kind
    if not kinds:
        return None
    size, unit = byte_unit(max(kinds.values()))
    names = sorted(kinds, key=lambda name: -kinds[name])
    figure = stacked_bars(
        ["host memory (not HBM)" if name == "host" else name.replace("_", " ") for name in names],
        [(unit, [kinds[name] / size for name in names], "#0072B2", "")],
        unit,
        view.template,
    )
    return section("At the peak, by kind", chart(figure, "memory-kinds", "Bytes at the peak by kind"))


def _over_program(view: View) -> Any:
    memory, title = view.report.memory, "Over the program"
    if not memory.over_program:
        reason = (
            "The compiler's simulation of the program's memory is not in this run: only its total is known."
        )
        return section(title, empty("Unavailable", reason))
    rows = rows_of(memory.over_program)
    note = f"What {memory.program or 'the program'} has in use as it goes on, from the compiler's own simulation."
    label = "Memory in use over the program; the table below has it"
    figure = memory_course(memory.over_program, memory.capacity_bytes, view.template)
    return section(title, chart(figure, "memory-course", label), table("memory-course", rows), note=note)


def _buffers(view: View) -> Any:
    buffers = view.report.memory.buffers
    if not buffers:
        return section("Largest buffers", empty("No buffers", "The trace does not tell single buffers."))
    return section(
        "Largest buffers", table("buffers", rows_of(buffers)), note="Live at the peak, the largest first."
    )


PAGE = Page(
    "memory",
    "Memory",
    "What fills the device's memory at its peak.",
    _render,
    keys=(TREE, SHAPE),
    changes=(changed_times,),
    signals=(
        "memory",
        "hbm_share",
        "allocated",
    ),
)
