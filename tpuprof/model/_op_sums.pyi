"""Types of the compiled walk; see `_op_sums.pyx`."""

import numpy as np
import numpy.typing as npt

_Int64 = npt.NDArray[np.int64]

def add_up(
    op: _Int64, start: _Int64, end: _Int64, own: _Int64, ops: int, step_start: _Int64, step_end: _Int64
) -> tuple[_Int64, npt.NDArray[np.float64]]: ...
