"""Why TorchTPU compiled in a step, as far as its own events tell: uploads state the shape and dtype of each array.

A step that uploads a shape which no step before it uploaded, and compiles, does so for that shape. Where all shapes
were seen before, a number that changes in an op, an op used for the first time, or a shape made on the device may be
the cause: TORCH_TRACE tells which.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from tpuprof.model.compile.cause import CompileCause
from tpuprof.model.compile.compiles import Compile
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host

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
    return [
        replace(each, cause=_cause(each.step, uploaded)) if each.step is not None else each
        for each in compiles
    ]


def _uploads(host: Host, steps: Steps) -> list[Counter[_Shape]]:
    """How often each step uploads each (dtype, dimensions)."""
    found: list[Counter[_Shape]] = [Counter() for _ in range(len(steps))]
    for track in host.threads:
        shapes = [_UPLOAD.search(name) for name in track.plane.events.names]
        for row, name in enumerate(track.name.tolist()):
            shape = shapes[name] if 0 <= name < len(shapes) else None
            if shape is not None:
                step = int(steps.start.searchsorted(track.start[row], "right")) - 1
                if step >= 0 and track.start[row] < steps.end[step]:
                    found[step][shape.group(1), shape.group(2)] += 1
    return found


def _cause(step: int, uploaded: list[Counter[_Shape]]) -> CompileCause:
    """The cause of a compile in a step: the host runs ahead, so a step before it may have asked for it."""
    found = [(row, _new(row, uploaded)) for row in range(step, 0, -1)]
    row, new = next(((row, new) for row, new in found if new), (0, []))
    if not new:
        return CompileCause("unknown", SAME_UPLOADS if step else FIRST_STEP)
    gone = [shape for shape in uploaded[row - 1] if shape not in uploaded[row]]
    kind = "dtype" if gone and {each[1] for each in new} == {each[1] for each in gone} else "shape"
    return CompileCause(kind, f"{_text(new)} was not uploaded in any captured step before{_last(gone)}")


def _new(row: int, uploaded: list[Counter[_Shape]]) -> list[_Shape]:
    """Shapes that a step uploads and no step before it did; none where those uploaded nothing."""
    before: Counter[_Shape] = sum(uploaded[:row], Counter())
    return [shape for shape in uploaded[row] if before and shape not in before]


def _last(gone: list[_Shape]) -> str:
    return f"; the step before it uploaded {_text(gone)} instead" if gone else ""


def _text(shapes: list[_Shape]) -> str:
    shown = ", ".join(f"{dtype}[{dims}]" for dtype, dims in shapes[:_SHOWN])
    return f"{shown} and {len(shapes) - _SHOWN} more" if len(shapes) > _SHOWN else shown
