"""Processes on several hosts agree on the step to record from, over a folder that all of them see.

Each says that its training is steady. The first of them then names a step that none has come to yet, and all begin
there. Nobody waits: training goes on, and a process that sees the others' files too late begins late and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

# How often the folder is looked at (s): a shared file system answers in milliseconds, and a step must not feel it.
LOOK_EVERY_SECONDS = 0.2
# How far ahead the agreed step lies (s, and steps at least): time for every host to look, and for NFS to show a new
# file, which it may keep from others for some seconds.
AHEAD_SECONDS, AHEAD_STEPS = 4.0, 3
# How long the first waits for the others, and they for it (s); a host that compiles longer than this is not steady.
PATIENCE_SECONDS = 60.0


class Together:
    """One process of those that record at the same step; `member` counts from 0, `count` is how many there are."""

    def __init__(
        self, folder: Path, member: int, count: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.note = ""
        self._folder, self._member, self._count = folder, member, count
        self._clock = clock
        self._start: int | None = None
        self._ready: tuple[float, int] | None = None
        self._looked = float("-inf")

    def may_start(self, seen: int, tell: Callable[[str], object] = lambda _: None) -> bool:
        """Whether recording may begin after that many steps; asked at each step once training is steady.

        `tell` gets what the user should know, if anything.
        """
        if self._start is None:
            now = self._clock()
            if now - self._looked < LOOK_EVERY_SECONDS:
                return False
            self._looked = now
            try:
                self._start = self._agreed(now, seen)
            except (OSError, ValueError) as error:
                self._start, self.note = (
                    seen,
                    f"the hosts could not agree on a step ({error}): each began by itself",
                )
            if self._start is not None and seen > self._start and not self.note:
                self.note = f"this host began {seen - self._start} steps after the agreed one"
        if self._start is None or seen < self._start:
            return False
        if self.note:
            tell(self.note)
        return True

    def _agreed(self, now: float, seen: int) -> int | None:
        """The agreed step, None while there is none."""
        if self._ready is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            _write(self._folder / f"{self._member}.ready", str(seen))
            self._ready = now, seen
        agreed = self._folder / "start"
        if agreed.exists():
            return int(agreed.read_text("ascii"))
        since, first = self._ready
        late = now - since >= PATIENCE_SECONDS
        if self._member == 0:
            there = len(list(self._folder.glob("*.ready")))
            if there < self._count and not late:
                return None
            per_step = (now - since) / max(seen - first, 1)
            ahead = max(AHEAD_STEPS, round(AHEAD_SECONDS / per_step) if per_step and seen > first else 0)
            _write(agreed, str(seen + ahead))
            if there < self._count:
                self.note = f"{self._count - there} of {self._count} hosts were not steady in {PATIENCE_SECONDS:.0f} s"
            return seen + ahead
        if late:
            self.note = f"the first host named no step in {PATIENCE_SECONDS:.0f} s: this one began by itself"
            return seen
        return None


def _write(path: Path, text: str) -> None:
    scratch = path.with_suffix(".tmp" + path.suffix)
    scratch.write_text(text, "ascii")
    scratch.replace(path)
