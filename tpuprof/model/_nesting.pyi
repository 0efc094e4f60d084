"""Types of the compiled pass; see `_nesting.pyx`."""

import numpy as np
import numpy.typing as npt

_Int64 = npt.NDArray[np.int64]

def nesting(start: _Int64, end: _Int64) -> _Int64 | None: ...
def self_time(start: _Int64, end: _Int64) -> _Int64 | None: ...
