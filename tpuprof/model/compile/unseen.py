"""Compiles that a TorchTPU program asked for in the captured steps, and that the capture does not show."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.model.compile.compiles import Compile
from tpuprof.model.telemetry import StepRecord
from tpuprof.units import counted

# What such a warning says after the counts. What to do about it, the rule `truncated-trace` says.
_AHEAD = "the host runs ahead of its compiles, so steps look shorter than they are"


def unseen_compiles(compiles: Sequence[Compile], records: Sequence[StepRecord]) -> list[str]:
    """A warning where the trace has fewer compiles than the captured steps asked for: the host runs ahead of them."""
    asked = sum(record.new_graphs for record in records if record.captured)
    seen = len(compiles)
    if seen >= asked:
        return []
    return [
        f"the captured steps asked for {counted(asked, 'new program')}, and the trace shows "
        f"{counted(seen, 'compile')}: {_AHEAD}, and the verdict may name what is left instead of compiling"
    ]


def is_of_unseen_compiles(warning: str) -> bool:
    """Whether a warning of a host is this one."""
    return _AHEAD in warning
