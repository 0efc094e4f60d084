"""What a user reads of recordings while the program runs: nothing twice, and nothing of those that do not count.

A program that shows no step may be recorded several times by the clock. One sentence says so when the first begins, and
one what came of it, once it is known which of them counts.
"""

from __future__ import annotations

from collections.abc import Callable

from tpuprof.capture.recording import Plan, Recording
from tpuprof.units import MS_PER_S, format_ms


class Told:
    """Hands each sentence to `say`."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        # Whether one by the clock was announced, and which one the last sentence was about.
        self._by_clock = False
        # Whether the one that was announced last did not begin.
        self._put_off = False
        self._last: Recording | None = None
        # Recordings since the last sentence, and what starting and ending the profiler for them took (s).
        self._made, self._took = 0, 0.0

    def begins(self, recording: Recording, plan: Plan) -> None:
        """A recording begins."""
        if not (self._put_off or (recording.by_clock and self._by_clock)):
            self._say(recording.announced(plan))
        self._by_clock = self._by_clock or recording.by_clock
        self._put_off = False

    def put_off(self) -> None:
        """The one that was announced did not begin, and one like it will."""
        self._put_off = True

    def ended(self, recording: Recording) -> None:
        """It has ended. Of one by the clock nothing is said until it is known whether it counts."""
        self._made += 1
        self._took += recording.profiler_seconds
        if not recording.by_clock:
            self._tell(recording)

    def counts(self, recording: Recording | None) -> None:
        """Tell of the one that counts, as far as is known; None where none does."""
        if recording is not None and recording.by_clock and recording is not self._last:
            self._tell(recording)

    def _tell(self, recording: Recording) -> None:
        several = f" in {self._made} recordings" if self._made > 1 else ""
        took = f"; starting and ending the profiler took {format_ms(self._took * MS_PER_S)}{several}"
        self._say(recording.result() + (took if self._made else ""))
        self._last, self._made, self._took = recording, 0, 0.0
