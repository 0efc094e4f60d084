"""Holds the precision of matrix products at one value, whatever the script asks. Runs inside the script's process."""

from __future__ import annotations

import os
from typing import Any

VARIABLE = "TPUPROF_PREFLIGHT_PRECISION"


def pin() -> None:
    """Set the precision that a search tries, and ignore the script's own calls; nothing where none is asked for."""
    value = os.environ.get(VARIABLE)
    if not value:
        return
    import torch_xla

    core: Any = torch_xla._XLAC
    core._xla_set_mat_mul_precision(value)
    core._xla_set_mat_mul_precision = lambda _value: None
