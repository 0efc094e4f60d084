"""Whether a profiler records the events of this process, whoever started it."""

from __future__ import annotations

from typing import Any

from tpuprof.instrument.frameworks.base import Framework
from tpuprof.instrument.state import pass_on

# Of the profiler's levels of host events the lowest, which every recording of the host has.
_LEVEL = 1


def profiler_on(extension: Any | None) -> bool | None:
    """Whether events of torch_xla's extension, or of the framework that stands for it, are recorded now.

    None where it does not tell. torch_xla is asked for a level, JAX is not.
    """
    enabled = getattr(extension.profiler.TraceMe, "is_enabled", None) if extension is not None else None
    if enabled is None:
        return None
    try:
        return bool(enabled() if isinstance(extension, Framework) else enabled(_LEVEL))
    except TypeError as error:  # another version asks for something else
        pass_on(error)
        return None
