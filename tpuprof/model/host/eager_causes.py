"""Why TorchTPU compiled in a step, as far as its own events tell: uploads state the shape and dtype of each array.

A step that uploads a shape which no step before it uploaded, and compiles, does so for that shape. Where all shapes
were seen before, a number that changes in an op, an op used for the first time, or a shape made on the device may be
the cause: TORCH_TRACE tells which.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from tpuprof.model.compile.cause import CompileCause
from tpuprof.model.compile.compiles import Compile
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host
from tpuprof.units import listed

# `PjRtCApiCompiler::BufferFromHostBuffer(f32[64,256])`; a name without brackets, or a scalar, tells no shape.
_UPLOAD = re.compile(r"BufferFromHostBuffer\((\w+)\[([\d,]+)\]\)$")
# Shapes shown of a change (count).
_SHOWN = 3
FIRST_STEP = "it is in the first captured step, so there is no step before it to compare with"
SAME_UPLOADS = (
    "the step uploads no shape that is new: a number that changes in an op, a shape made on the device, or an op used "
    "for the first time; TORCH_TRACE tells which"
)
_Shape = tuple[str, str]


def with_upload_causes(compiles: list[Compile], host: Host, steps: Steps) -> list[Compile]:
    """The compiles with a cause each, by the shapes their steps upload."""
    if not compiles:
        return compiles
    uploaded = _uploads(host, steps)
    if not any(uploaded):
        return compiles
    new = _new_by_step(uploaded)
    return [
        replace(each, cause=_cause(each.step, uploaded, new)) if each.step is not None else each
        for each in compiles
    ]


def _uploads(host: Host, steps: Steps) -> list[dict[_Shape, None]]:
    """The (dtype, dimensions) that each step uploads, each once, in the order of the uploads."""
    found: list[dict[_Shape, None]] = [{} for _ in range(len(steps))]
    for track in host.threads:
        shapes = {
            row: match.group(1, 2)
            for row, name in enumerate(track.plane.events.names)
            if (match := _UPLOAD.search(name))
        }
        rows = np.flatnonzero(np.isin(track.name_row, list(shapes)))
        rows = rows[steps.hold(track.start[rows])]
        at = np.searchsorted(steps.start, track.start[rows], "right") - 1
        for step, name in zip(at.tolist(), track.name_row[rows].tolist(), strict=True):
            found[step][shapes[name]] = None
    return found


def _new_by_step(uploaded: list[dict[_Shape, None]]) -> list[list[_Shape]]:
    """Shapes that each step uploads and no step before it did; none where those uploaded nothing."""
    seen: set[_Shape] = set()
    found = []
    for own in uploaded:
        found.append([shape for shape in own if seen and shape not in seen])
        seen |= own.keys()
    return found


def _cause(step: int, uploaded: list[dict[_Shape, None]], new: list[list[_Shape]]) -> CompileCause:
    """The cause of a compile in a step: the host runs ahead, so the step before it may have asked for it."""
    row = next((each for each in (step, step - 1) if each > 0 and new[each]), None)
    if row is None:
        return CompileCause("unknown", SAME_UPLOADS if step else FIRST_STEP)
    gone = [shape for shape in uploaded[row - 1] if shape not in uploaded[row]]
    kind = "dtype" if gone and {each[1] for each in new[row]} == {each[1] for each in gone} else "shape"
    return CompileCause(kind, f"{_text(new[row])} was not uploaded in any captured step before{_last(gone)}")


def _last(gone: list[_Shape]) -> str:
    return f"; the step before it uploaded {_text(gone)} instead" if gone else ""


def _text(shapes: list[_Shape]) -> str:
    return listed([f"{dtype}[{dims}]" for dtype, dims in shapes], _SHOWN)
