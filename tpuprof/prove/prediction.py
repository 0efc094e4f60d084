"""What a finding says that its fix saves, and what that is of the step that the program takes without a capture."""

from __future__ import annotations

from tpuprof.records import record
from tpuprof.units import format_ms, format_ms_range, format_share, text_range


@record(frozen=True)
class Prediction:
    """From `low_ms` to `high_ms` of a captured step of `step_ms` on average, which is None where it is unknown."""

    low_ms: float
    high_ms: float
    step_ms: float | None = None

    def expected(self, step_ms: float) -> tuple[float, float]:
        """The least and the most that the fix saves (ms) of a step of `step_ms`.

        A captured step is longer than others, and a busy machine stretches it further; the share of it that a fix saves
        stays. Where the captured step is unknown the times themselves are expected.
        """
        if not self.step_ms or self.step_ms <= 0:
            return self.low_ms, self.high_ms
        low, high = (min(each / self.step_ms, 1.0) * step_ms for each in (self.low_ms, self.high_ms))
        return low, high

    def text(self) -> str:
        """As the finding states it, and the share of the captured step."""
        times = format_ms_range(self.low_ms, self.high_ms)
        if not self.step_ms or self.step_ms <= 0:
            return times
        shares = (format_share(min(each / self.step_ms, 1.0)) for each in (self.low_ms, self.high_ms))
        return f"{times} of {format_ms(self.step_ms)} ({text_range(*shares)})"
