"""Types of the compiled replay; see `_replay.pyx`."""

import numpy as np
import numpy.typing as npt

_Int64 = npt.NDArray[np.int64]
_Float64 = npt.NDArray[np.float64]

def play(
    begins: _Int64,
    cut: _Int64,
    length: _Float64,
    ended: _Int64,
    wake: _Int64,
    launch: _Int64,
    latency: _Int64,
    takes: _Float64,
    some_steps: bool,
    in_flight: int,
    rounds: int,
) -> list[float]: ...
