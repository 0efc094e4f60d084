"""Whether the program had the CPUs that it wanted while it was captured."""

from __future__ import annotations

from typing import Any

from tpuprof.units import format_share

# Share of waiting from which what the host does is doubtful: at one half it takes twice the time that it would alone.
DOUBTFUL_FROM_SHARE = 0.5


def cpu_wait(info: dict[str, Any]) -> float | None:
    """Share of the time that its threads could run in which they waited for a CPU, None where the capture has none."""
    capture = info.get("capture")
    found = capture.get("cpu_wait_share") if isinstance(capture, dict) else None
    return min(max(float(found), 0.0), 1.0) if isinstance(found, int | float) else None


def busy_machine(info: dict[str, Any]) -> list[str]:
    """What to say of a machine that had too few CPUs; empty where it had enough."""
    share = cpu_wait(info)
    if share is None or share < DOUBTFUL_FROM_SHARE:
        return []
    return [
        f"the program's threads waited for a CPU for {format_share(share)} of the time that they could have run: "
        "other work had the CPUs, or these threads had too few. What the host does takes longer here than on a free "
        "machine, so the verdict may be about that; capture again on a free machine"
    ]
