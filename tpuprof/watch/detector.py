"""Finds anomalies in rows of the ledger, one by one, with robust statistics and without a clock of its own."""

from __future__ import annotations

from collections import deque
from typing import Any

from tpuprof.ledger.rows import Row
from tpuprof.units import NS_PER_S, NS_PER_US, US_PER_S
from tpuprof.watch import anomalies as kinds
from tpuprof.watch.anomalies import Anomaly, Settings
from tpuprof.watch.memory import MemoryGrowth
from tpuprof.watch.rolling import Recent, Rolling

# Columns that may explain why a step took longer, with the name of the part. The rest is other host code.
EXPLAIN = {
    "input_us": "input_wait",
    "read_us": "device_to_host_sync",
    "wait_us": "device_wait",
    "cut_us": "graph_cut",
    "restore_us": "checkpoint_restore",
}
REST = "host"
# Standard error of a median, in standard errors of a mean of normal values.
_MEDIAN_ERROR = 1.2533
# Spreads above the median from which a value counts as a peak (ratio), and peaks that make tails heavy (count).
_PEAK_SPREADS, _MANY_PEAKS = 4.0, 4


class Pauses:
    """Keeps an anomaly that comes again and again from being reported each time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last: dict[str, tuple[int, int]] = {}

    def allow(self, kind: str, step: int) -> bool:
        """Whether to report; where it comes again soon, the next pause is twice as long."""
        pause = self._settings.pause
        if kind in self._last:
            when, before = self._last[kind]
            if step - when < before:
                return False
            if step - when < 4 * before:
                pause = min(2 * before, self._settings.longest_pause)
        self._last[kind] = (step, pause)
        return True


class Detector:
    """Fed with the rows of one process. `feed` returns what each row reveals."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        size = self.settings.window
        self._usual = Rolling(size)
        self._parts = {name: Recent(size) for name in (*EXPLAIN, REST)}
        self._saves = Rolling(32)
        self._memory = MemoryGrowth(self.settings)
        self._pauses = Pauses(self.settings)
        self._quiet = self._seen = 0
        self.warm = False
        self._peaks: deque[tuple[int, float]] = deque()
        self._suspect: tuple[Row, int, int] | None = None
        self._behind = 0
        self._hung: int | None = None

    @property
    def median_ns(self) -> float:
        """The usual length of a step (ns), 0 before the first."""
        return self._usual.median()

    def feed(self, row: Row) -> list[Anomaly]:
        """A step ended."""
        self._seen += 1
        found: list[Anomaly | None] = []
        hung, self._hung = self._hung is not None, None
        if row.compiles > 0:
            found.append(self._compiled(row))
            self._quiet = 0
            return [each for each in found if each]
        self._quiet += 1
        self.warm = self.warm or self._quiet >= self.settings.warm_steps
        own = float(row.duration_ns - NS_PER_US * max(row.save_us, 0))
        # Around a save a program reads its state back: such a step says nothing about the others.
        judged = row.save_us <= 0 and not hung
        if row.save_us > 0:
            found.append(self._saved(row))
        if self.warm and judged:
            found.append(self._level(row, own))
        if self.warm:
            found.append(self._grown(row))
        if not judged:
            return [each for each in found if each]
        self._usual.add(own)
        for name, value in parts_of(row).items():
            self._parts[name].add(value)
        return [each for each in found if each]

    def _report(self, kind: str, row: Row, message: str, part: str = "", **facts: Any) -> Anomaly | None:
        # Counted by rows, not by the program's step numbers: those may start again.
        if not self._pauses.allow(kind, self._seen):
            return None
        return Anomaly(kind, row.step, message, part, facts)

    def _compiled(self, row: Row) -> Anomaly | None:
        if not self.warm:
            return None
        seconds = max(row.compile_us, 0) / US_PER_S
        return self._report(
            kinds.RECOMPILE,
            row,
            f"step {row.step} compiled {row.compiles} graph(s) in {seconds:.2f} s after training was warm",
            "compile",
            compiles=row.compiles,
            seconds=seconds,
        )

    def _saved(self, row: Row) -> Anomaly | None:
        seconds, usual = row.save_us / US_PER_S, self._saves.median()
        many = len(self._saves) >= 3
        self._saves.add(seconds)
        slow = seconds > self.settings.save_ratio * usual and seconds - usual > self.settings.save_seconds
        if not (many and slow):
            return None
        message = f"the checkpoint in step {row.step} took {seconds:.1f} s, the median is {usual:.1f} s"
        return self._report(kinds.SLOW_SAVE, row, message, "checkpoint_save", seconds=seconds, median=usual)

    def _level(self, row: Row, own: float) -> Anomaly | None:
        """A slow step, an input stall, or a shift of the median."""
        if len(self._usual) < self.settings.warm_steps:
            return None
        slow = own > self._slow_limit()
        if own > self._usual.median() + _PEAK_SPREADS * self._usual.spread():
            self._peaks.append((self._seen, own))
        while self._peaks and self._seen - self._peaks[0][0] > self.settings.peak_steps:
            self._peaks.popleft()
        if self._suspect is not None:
            return self._confirm(row, slow=slow)
        if slow:
            self._suspect = (row, 0, 0)
            return None
        return self._shift(row)

    def _slow_limit(self) -> float:
        median, settings = self._usual.median(), self.settings
        limit = max(settings.slow_ratio * median, median + settings.slow_spreads * self._usual.spread())
        if len(self._peaks) >= _MANY_PEAKS:
            third = sorted((value for _, value in self._peaks), reverse=True)[2]
            limit = max(limit, settings.peak_ratio * third)
        return limit

    def _confirm(self, row: Row, *, slow: bool) -> Anomaly | None:
        assert self._suspect is not None
        first, looked, also = self._suspect
        looked, also = looked + 1, also + slow
        self._suspect = (first, looked, also)
        if looked < self.settings.confirm:
            return None
        self._suspect = None
        if also == looked:
            return self._shifted(row, first.duration_ns, self._usual.median(), self._excess(first))
        part, seconds = self._excess(first)
        ratio = first.duration_ns / self._usual.median()
        kind = kinds.INPUT_STALL if part == "input_wait" else kinds.SLOW_STEP
        message = f"step {first.step} took {ratio:.1f} times the median; {part} took {seconds:.2f} s more than usual"
        return self._report(kind, first, message, part, ratio=ratio, extra_seconds=seconds)

    def _shift(self, row: Row) -> Anomaly | None:
        settings = self.settings
        count = settings.shift_steps
        if len(self._usual) < settings.window or self._seen % (count // 4):
            return None
        recent = sorted(self._usual.last(count))[count // 2]
        base, spread = self._usual.median(), self._usual.spread()
        error = _MEDIAN_ERROR * spread / count**0.5
        if recent < settings.shift_ratio * base or recent < base + settings.shift_errors * error:
            return None
        part = max(self._parts, key=lambda name: self._recent_growth(name, count))
        return self._shifted(
            row, recent, base, (EXPLAIN.get(part, part), self._recent_growth(part, count) / NS_PER_S)
        )

    def _recent_growth(self, name: str, count: int) -> float:
        values = self._parts[name]
        return sorted(values.last(count))[count // 2] - values.median()

    def _shifted(self, row: Row, recent: float, base: float, why: tuple[str, float]) -> Anomaly | None:
        part, seconds = why
        ratio = recent / base if base else 0.0
        message = f"from about step {row.step} on, steps take {ratio:.2f} times as long: {part} {seconds:.3f} s more"
        # From here on this level is the usual one.
        kept = self._usual.last(self.settings.confirm)
        self._usual.clear()
        for value in kept:
            self._usual.add(value)
        self._peaks.clear()
        return self._report(kinds.SHIFT, row, message, part, ratio=ratio, before_seconds=base / NS_PER_S)

    def _excess(self, row: Row) -> tuple[str, float]:
        """The part that grew most beyond its median, and by how much (s)."""
        grown = {name: value - self._parts[name].median() for name, value in parts_of(row).items()}
        name = max(grown, key=lambda each: grown[each])
        return EXPLAIN.get(name, name), grown[name] / NS_PER_S

    def _grown(self, row: Row) -> Anomaly | None:
        grown = self._memory.feed(row)
        if grown is None:
            return None
        where, amount, steps = grown
        size = f"{amount / 2**20:.0f} MiB"
        message = (
            f"{where} memory grew by {size} in the {steps} steps before step {row.step}, and never shrank"
        )
        return self._report(kinds.MEMORY_GROWTH, row, message, where, bytes=amount, steps=steps)

    def behind(self, step: int, own_ns: float, all_ns: float) -> Anomaly | None:
        """Compare this host's own work per step with the median of all hosts; called every few seconds."""
        ratio = own_ns / all_ns if all_ns > 0 else 0.0
        self._behind = self._behind + 1 if ratio > self.settings.behind_ratio else 0
        if self._behind < self.settings.behind_checks or not self._pauses.allow(kinds.BEHIND, self._seen):
            return None
        message = f"at step {step} this host works {ratio:.2f} times as long per step as the median host"
        return Anomaly(kinds.BEHIND, step, message, "", {"ratio": ratio})

    def hang(self, step: int, since_ns: int, *, in_cut: bool = False) -> Anomaly | None:
        """No step has ended for so long; reported once per hang. A graph cut may compile, which takes longer."""
        limit = max(self.settings.hang_ratio * self.median_ns, self.settings.hang_seconds * NS_PER_S)
        limit *= self.settings.hang_in_cut if in_cut else 1.0
        if not self.warm or self._hung == step or since_ns < limit:
            return None
        self._hung = step
        ratio = since_ns / self.median_ns if self.median_ns else 0.0
        message = f"no step has ended for {since_ns / NS_PER_S:.0f} s after step {step}, {ratio:.0f} times the median"
        return Anomaly(kinds.HANG, step, message, "", {"seconds": since_ns / NS_PER_S, "ratio": ratio})


def parts_of(row: Row) -> dict[str, float]:
    """The parts of a step (ns) by column, with what is left as other host code."""
    found = {name: NS_PER_US * max(getattr(row, name), 0) for name in EXPLAIN}
    rest = row.duration_ns - sum(found.values()) - NS_PER_US * (max(row.save_us, 0) + max(row.compile_us, 0))
    return found | {REST: max(rest, 0.0)}
