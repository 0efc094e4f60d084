"""Device time and memory as treemaps and flame graphs: by module, by source line, by op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc

from tpuprof_dashboard.components.layout import chart, current, link, section
from tpuprof_dashboard.figures.share_tree import FLAME, TREEMAP, Leaf, share_tree
from tpuprof_dashboard.words import byte_unit

if TYPE_CHECKING:
    from tpuprof.report.memory import BufferRow, Memory
    from tpuprof.report.schema import OpRow, Report
    from tpuprof_dashboard.pages.page import View

# The parameters of the address that choose what parts are, and how they are drawn.
TREE, SHAPE = "tree", "shape"
_BY = {"module": "module", "source": "source line", "op": "op"}
_SHAPES = {TREEMAP: "treemap", FLAME: "flame graph"}
_NO_MODULE, _NO_SOURCE = "(no annotation)", "(no source line)"
# Kinds of buffers that are not in the device's memory.
_ELSEWHERE = ("host",)


def op_tree(view: View) -> Any:
    """Where the device's time goes; nothing where no op takes any."""
    leaves, unit = op_leaves(view.report, _chosen(view, TREE, _BY))
    if not leaves:
        return None
    note = "Device self time of the ops in the table below. A click goes into a part; a click on its head goes back."
    return _tree(view, "Where the time goes", leaves, "device time", unit, note, "ops-tree")


def memory_tree(view: View) -> Any:
    """What memory is full of at the peak; nothing where no single buffer is known."""
    leaves, unit = buffer_leaves(view.report.memory, _chosen(view, TREE, _BY))
    if not leaves:
        return None
    note = "Buffers at the peak; what those listed below do not explain is one part."
    return _tree(view, "What fills it", leaves, "at the peak", unit, note, "memory-tree")


def op_leaves(report: Report, by: str) -> tuple[list[Leaf], str]:
    """Ops as leaves, and the unit of their sizes: ms per step where all of them have it, else ms in all."""
    per_step = all(op.self_ms_per_step is not None for op in report.ops)
    left = report.ops_left_out
    per_step = per_step and (not left.ops or left.self_ms_per_step is not None)
    rest = (left.self_ms_per_step if per_step else left.self_ms) or 0.0
    leaves = [
        Leaf(
            _op_path(op, by),
            (op.self_ms_per_step if per_step else op.self_ms) or 0.0,
            op.source or op.category,
        )
        for op in report.ops
    ]
    leaves += [Leaf((f"({left.ops:,} ops that take next to no time)",), rest)] if rest else []
    return [each for each in leaves if each.size > 0], "ms per step" if per_step else "ms in all"


def buffer_leaves(memory: Memory, by: str) -> tuple[list[Leaf], str]:
    """Buffers of the device as leaves, and the unit of their sizes; what is left of the peak is one more."""
    buffers = [each for each in memory.buffers if each.kind not in _ELSEWHERE and each.bytes > 0]
    if not buffers:
        return [], "bytes"
    size, unit = byte_unit(memory.peak_bytes or max(each.bytes for each in buffers))
    leaves = [Leaf(_buffer_path(each, by), each.bytes / size, each.shape) for each in buffers]
    rest = (memory.peak_bytes or 0) - sum(each.bytes for each in buffers)
    return [*leaves, *([Leaf(("(not in the list of buffers)",), rest / size)] if rest > 0 else [])], unit


def _op_path(op: OpRow, by: str) -> tuple[str, ...]:
    if by == "op":
        return op.category or op.kind, op.name
    if by == "source":
        return (*_place(op.source), op.name)
    return op.program or "(no program)", op.annotation or _NO_MODULE, op.name


def _buffer_path(buffer: BufferRow, by: str) -> tuple[str, ...]:
    if by == "op":
        return buffer.kind.replace("_", " ") or "(no kind)", buffer.name
    if by == "source":
        return (*_place(buffer.source), buffer.name)
    return buffer.annotation or _NO_MODULE, buffer.name


def _place(source: str) -> tuple[str, ...]:
    """File and line of `file:line`."""
    file, colon, line = source.rpartition(":")
    if not source:
        return (_NO_SOURCE,)
    return (file, f"line {line}") if colon and line.isdecimal() else (source,)


def _tree(view: View, title: str, leaves: list[Leaf], root: str, unit: str, note: str, chart_id: str) -> Any:
    by, shape = _chosen(view, TREE, _BY), _chosen(view, SHAPE, _SHAPES)
    figure = share_tree(leaves, root, unit, shape, view.template)
    label = f"{title} by {_BY[by]}, as a {_SHAPES[shape]}; the table below has it"
    return section(
        title,
        dmc.Group(
            [*_links(view, TREE, _BY, by), dmc.Text("as", size="sm"), *_links(view, SHAPE, _SHAPES, shape)],
            gap="md",
        ),
        chart(figure, chart_id, label),
        note=note,
    )


def _chosen(view: View, key: str, known: dict[str, str]) -> str:
    wanted = view.state.get(key, "")
    return wanted if wanted in known else next(iter(known))


def _links(view: View, key: str, known: dict[str, str], chosen: str) -> list[Any]:
    return [
        link(title, view.here(**{key: each}), fw=700 if each == chosen else 400, **current(each == chosen))
        for each, title in known.items()
    ]
