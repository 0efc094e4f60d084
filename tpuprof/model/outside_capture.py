"""Whether the captured steps are like those that followed, by what the process counted after them."""

from __future__ import annotations

from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture
from tpuprof.model.intervals import Int64
from tpuprof.units import PS_PER_S, format_ms, ps_to_ms

# How much longer than a captured step one after the capture must take on average to be worth a word (ratio). Of 36
# programs of the zoo without a known reason, all lay between 0.79 and 1.29 on a busy machine, but one (1.37).
SLOWER_FROM = 1.3


def outside_capture(wall_ps: Int64, after: AfterCapture | None) -> list[str]:
    """What to say of a run whose steps took longer after the capture; empty where they did not, or were not counted.

    `wall_ps` is each captured step's time.
    """
    if after is None or after.estimated or after.steps < MIN_STEPS_AFTER or not len(wall_ps):
        return []
    captured = float(wall_ps.mean())
    # Compiles have findings of their own.
    later = max(after.wall_seconds - after.seconds, 0.0) / after.steps * PS_PER_S
    if not captured or later < SLOWER_FROM * captured:
        return []
    return [
        f"the {after.steps} steps after the capture took {format_ms(ps_to_ms(later))} on average, without compiles; "
        f"the captured ones took {format_ms(ps_to_ms(captured))}. What the others spent is not in this capture: "
        "batches may have been ready before it, evaluations or checkpoints may have come later, or the device was "
        "behind. Capture more steps (`--steps`), or later (`--warmup`)"
    ]
