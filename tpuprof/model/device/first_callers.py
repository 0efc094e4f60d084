"""Lines of JAX's ops that are called by themselves: such a program has the line that called it first.

An op outside of a jitted function is a program of its own, compiled once for each shape. Its metadata names the line of
the first call, as in `init`, whichever line calls it in the steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tpuprof.model.device.op_table import FEW_OPS, OpTotals
from tpuprof.model.host.samples import HostSamples
from tpuprof.report.labels import source_of


def without_first_callers(ops: OpTotals, samples: Sequence[HostSamples | None]) -> OpTotals:
    """The ops, those of such programs without a line where the training thread was never seen at it.

    Without samples all is left as it is.
    """
    if not samples or any(each is None for each in samples):
        return ops
    seen = {
        source_of(frame)
        for each in samples
        if each is not None
        for stack in each.stacks
        for frame in stack.frames
    }
    count = Counter(ops.program)
    sources = [
        source if count[program] > FEW_OPS or source in seen else ""
        for source, program in zip(ops.source, ops.program, strict=True)
    ]
    return replace(ops, source=sources)
