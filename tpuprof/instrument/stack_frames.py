"""The Python frames that led to a moment, the user's before the libraries'."""

from __future__ import annotations

import sys
import traceback
from types import FrameType

MAX_FRAMES = 8
_OWN = ("/tpuprof/instrument/", "/tpuprof/capture/", "tpuprof_capture_hook")
_LIBRARY = ("/torch/", "/torch_xla/", "/torch_tpu/", "/jax/", "/jaxlib/")


def user_frames(innermost: FrameType | None = None) -> list[str]:
    """The Python frames that led here, `function (file:line)`, innermost first, the user's before libraries'."""
    frames = [
        frame
        for frame in traceback.extract_stack(innermost or sys._getframe(1))
        if not any(part in frame.filename for part in _OWN)
    ]
    frames.reverse()
    users = [frame for frame in frames if not any(part in frame.filename for part in _LIBRARY)]
    libraries = [frame for frame in frames if frame not in users]
    return [f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in (users + libraries)[:MAX_FRAMES]]
