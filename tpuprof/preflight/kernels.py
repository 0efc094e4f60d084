"""Pallas kernels in a script: torch_xla traces them for the machine's own platform, which under preflight is a CPU.

torch_xla takes a kernel's code from jax's lowering of it. Mosaic, which lowers for TPU, needs no TPU: what is asked for
is the platform alone.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from tpuprof.instrument.after_import import watch

MODULE = "torch_xla.experimental.custom_kernel"


def lower_for_tpu() -> None:
    """Have torch_xla's `trace_pallas` lower kernels for a TPU, from when its module is imported."""
    watch((MODULE,), _wrap)


def _wrap(name: str) -> None:
    module: Any = sys.modules[name]
    trace = module.trace_pallas

    @functools.wraps(trace)
    def trace_for_tpu(*arguments: Any, **options: Any) -> Any:
        from jax.stages import Traced

        lower = Traced.lower

        def lower_on(self: Any, **more: Any) -> Any:
            return lower(self, **{**more, "lowering_platforms": ("tpu",)})

        Traced.lower = lower_on
        try:
            return trace(*arguments, **options)
        finally:
            Traced.lower = lower

    module.trace_pallas = trace_for_tpu
