"""What tpuprof's own notes on a capture (run.json) say of how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def was_sampled(info: Mapping[str, Any] | None) -> bool:
    """Whether the capture sampled the training thread's stack, though it may have got no sample of a short step."""
    capture = (info or {}).get("capture")
    return isinstance(capture, dict) and bool(capture.get("host_samples"))
