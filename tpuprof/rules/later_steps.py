"""Prices of captured steps, beside steps after the capture that are shorter: recording stretches what the host does."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from tpuprof.model.host_run import HostRun
from tpuprof.model.outside_capture import STRETCHED_FROM, unrecorded_ps
from tpuprof.report.schema import Savings
from tpuprof.units import MS_PER_S, format_ms, ps_to_ms

# How a price says of which steps it is.
UNRECORDED = "without tpuprof a step takes "
_BEGINS = ", and the price begins with what such a step saves"
# How many times as long captured steps must take as those after the capture for a price to begin with what the latter
# save (ratio). Four prices of unseen programs began at 1.1 to 1.35 times what the cure saved, where captured steps took
# 1.07 to 1.13 times as long (measured). Below it lies what any two stretches of steps differ by.
BEGINS_LOWER_FROM = 1.05


class LaterSteps:
    """The steps after the capture of one host, None where there is no host."""

    def __init__(self, host: HostRun | None) -> None:
        self._host = host

    @cached_property
    def far_shorter_ms(self) -> float | None:
        """What such a step takes (ms), where captured ones take far longer; None where they do not."""
        return self._shorter_by(STRETCHED_FROM)

    @cached_property
    def shorter_ms(self) -> float | None:
        """The same where captured steps take somewhat longer."""
        return self._shorter_by(BEGINS_LOWER_FROM)

    def _shorter_by(self, ratio: float) -> float | None:
        host = self._host
        found = unrecorded_ps(host.steps.wall_ps, host.after_steps, ratio) if host is not None else None
        return ps_to_ms(found) if found is not None else None

    def savings_of(self, savings: Savings, step_ms: float) -> Savings:
        """The savings, which begin at the same share of a step after the capture where that is shorter.

        Where it is far shorter, what recording stretches is the host's time. So a price that such a step has room for
        begins at that share, and ends where it was: steps after the capture have a time, and their parts have none. The
        step that is left is such a one, too. Else nothing tells whether recording made captured steps longer, or other
        work: the range holds what both save. `step_ms` is the captured step's time, or less where steps hold what is
        priced as rarely as the price says already.
        """
        if self.shorter_ms is None or not step_ms or savings.per != "step":
            return savings
        share = min(self.shorter_ms / step_ms, 1.0)
        if self.far_shorter_ms is not None:
            return self._of_far_shorter(savings, self.far_shorter_ms, share)
        low = savings.low * share
        if low >= savings.low:
            return savings
        left = savings.step_high_ms
        return replace(
            savings,
            low=low,
            step_high_ms=left + savings.low - low if left is not None else None,
            note=self._note(savings, self.shorter_ms) + _BEGINS,
        )

    def _of_far_shorter(self, savings: Savings, takes: float, share: float) -> Savings:
        fits = savings.high <= takes
        begins = _BEGINS if savings.low else ""
        low, high = savings.low * share, savings.high * (1.0 if fits else share)
        return replace(
            savings,
            low=low,
            high=high,
            step_low_ms=takes - high,
            step_high_ms=takes - low,
            note=self._note(savings, takes) + (begins if fits else ": the price is that of such a step"),
        )

    def _note(self, savings: Savings, takes: float) -> str:
        note = f"{UNRECORDED}{format_ms(takes)}{self._with_compiles(takes)}"
        return f"{savings.note}; {note}" if savings.note else note

    def _with_compiles(self, takes: float) -> str:
        """That steps are meant with their compiles, where those show: a warning has them without."""
        after = self._host.after_steps if self._host is not None else None
        if after is None or not after.seconds:
            return ""
        bare = takes - after.seconds / after.steps * MS_PER_S
        return " with its compiles" if format_ms(bare) != format_ms(takes) else ""
