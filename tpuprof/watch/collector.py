"""Makes rows of steps. The training thread takes a few clock and counter readings per step; the rest is done by a
thread that wakes once per second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tpuprof.instrument.stack_frames import user_frames
from tpuprof.instrument.state import note_failure
from tpuprof.ledger.clock import Clock
from tpuprof.ledger.rows import UNKNOWN, Row, whole
from tpuprof.ledger.writer import LedgerWriter
from tpuprof.units import NS_PER_S, NS_PER_US
from tpuprof.watch.anomalies import Anomaly, Settings
from tpuprof.watch.counters import Counters, Totals
from tpuprof.watch.detector import Detector
from tpuprof.watch.graph_sizes import GraphSizes
from tpuprof.watch.rolling import Rolling
from tpuprof.watch.timers import INPUT, RESTORE, SAVE, WAIT

# Frames that a compile's event keeps (count).
_FRAMES = 8
# Steps whose median says what a host itself needs (steps).
OWN_STEPS = 64


@dataclass
class _Open:
    """The step that runs."""

    number: int
    start_ns: int
    cpu_ns: int
    compiles: int
    graphs: int
    samples: float | None = None
    compile_ns: int = 0
    wait_ns: int = 0
    cut_ns: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)


# A step, the one that follows it, what was timed in it by kind (ns), and whether a recording touched it.
_Ended = tuple[_Open, _Open, dict[str, int], bool]


class Collector:
    """Fed by the training thread at boundaries and graph cuts, emptied by `flush` in another thread."""

    def __init__(
        self,
        ledger: LedgerWriter,
        counters: Counters,
        clock: Clock,
        take: Callable[[], dict[str, int]],
        settings: Settings | None = None,
    ) -> None:
        self.ledger, self.counters = ledger, counters
        self.detector = Detector(settings)
        self.steps = 0
        self.compiles = 0
        self.last_row: Row | None = None
        # Sums over all steps so far (ns), by part, for whoever asks how the process is doing.
        self.sums = dict.fromkeys(("steps", "compile", "input_wait", "checkpoint_save", "device_wait"), 0)
        self._clock, self._take = clock, take
        self._open: _Open | None = None
        # Steps that ended since the last flush, which makes rows of them: in the training thread each call counts.
        self._ended: list[_Ended] = []
        self._own = Rolling(OWN_STEPS)
        self._cut = (0, 0)
        self._in_cut = False
        self._totals: Totals | None = None
        self._sizes = GraphSizes()

    @property
    def open_since(self) -> tuple[int, int] | None:
        """Number and start of the step that runs, None before the first."""
        current = self._open
        return (current.number, current.start_ns) if current is not None else None

    def boundary(self, number: int | None, samples: float | None, now: int, *, quiet: bool = False) -> None:
        """A step ends and the next begins; `quiet` says that a recording touched it. Raises nothing."""
        try:
            self._boundary(number, samples, now, quiet=quiet)
        except Exception as error:
            note_failure("watching the steps", error)

    def own_work_ns(self) -> float:
        """What this host itself needs per step: the median of steps without waits for the device, which hosts share."""
        return self._own.median()

    def _boundary(self, number: int | None, samples: float | None, now: int, *, quiet: bool) -> None:
        compiles, graphs = self.counters.graphs()
        ended = self._open
        following = number if number is not None else (ended.number + 1 if ended is not None else 0)
        self._open = following_step = _Open(following, now, self._clock.cpu_ns(), compiles, graphs, samples)
        spent = self._take()
        if ended is None:
            return
        if compiles != ended.compiles:
            self._drain(ended)
        self.steps += 1
        self._ended.append((ended, following_step, spent, quiet))

    def _drain(self, ended: _Open) -> None:
        """Take over compiles of a framework without graph cuts."""
        for graphs, seconds, frames in self.counters.drain_compiles():
            ended.compile_ns += int(seconds * NS_PER_S)
            self._compiled(ended.number, graphs, seconds, frames)

    def before_cut(self) -> None:
        """A graph cut begins."""
        self._in_cut = True
        self._cut = (self._clock.now_ns(), self.counters.compiles())

    def after_cut(self, waited: bool = False) -> None:
        """It ended; `waited` says that it was asked to wait for the device."""
        self._in_cut = False
        began, compiles = self._cut
        now, current = self._clock.now_ns(), self._open
        made = self.counters.compiles() - compiles
        if made:
            seconds = (now - began) / NS_PER_S
            self._compiled(current.number if current else -1, made, seconds, user_frames())
        if current is None:
            return
        if made:
            current.compile_ns += now - began
        elif waited:
            current.wait_ns += now - began
        else:
            current.cut_ns += now - began

    def _compiled(self, step: int, graphs: int, seconds: float, frames: list[str]) -> None:
        ops = self.counters.last_graph_ops()
        self.ledger.event(
            "compile", None, step=step, graphs=graphs, seconds=seconds, ops=ops, frames=frames[:_FRAMES]
        )

    def span(self, name: str, began: int, until: int) -> None:
        """A phase of the program ended: a checkpoint, or one that it marked."""
        self.ledger.event("span", began, name=name, until_ns=until)

    def flush(self) -> list[Anomaly]:
        """Complete the rows of the last second and hand them on; returns what they reveal."""
        taken, self._ended = self._ended, []
        rows = self._complete([_row(ended, following, spent) for ended, following, spent, _ in taken])
        found = []
        for row, (*_, quiet) in zip(rows, taken, strict=True):
            self.ledger.add(row)
            self._sum(row)
            # What our own recording adds to a step is not an anomaly of the program.
            found += [] if quiet else self.detector.feed(row)
        if rows:
            self.last_row = rows[-1]
        found += self._hang()
        for anomaly in found:
            self.report(anomaly)
        self.ledger.flush()
        return found

    def report(self, anomaly: Anomaly) -> None:
        """Put an anomaly into the ledger."""
        self.ledger.event("anomaly", None, **anomaly_facts(anomaly))

    def _sum(self, row: Row) -> None:
        waits = NS_PER_US * (max(row.wait_us, 0) + max(row.read_us, 0))
        self.compiles += row.compiles
        parts = (
            row.duration_ns,
            NS_PER_US * row.compile_us,
            NS_PER_US * row.input_us,
            NS_PER_US * row.save_us,
            waits,
        )
        for name, value in zip(self.sums, parts, strict=True):
            self.sums[name] += max(value, 0)
        if not row.compiles:
            self._own.add(float(max(0, row.duration_ns - waits - NS_PER_US * max(row.save_us, 0))))

    def _hang(self) -> list[Anomaly]:
        current = self.open_since
        if current is None:
            return []
        since = self._clock.now_ns() - current[1]
        hung = self.detector.hang(current[0] - 1, since, in_cut=self._in_cut)
        return [hung] if hung is not None else []

    def _complete(self, rows: list[Row]) -> list[Row]:
        """Add what is read once per second: memory as it is, totals spread over the time that nothing else explains."""
        if not rows:
            return rows
        before, self._totals = self._totals, self.counters.totals()
        device, host = whole(self.counters.device_bytes()), whole(self.counters.host_bytes())
        left = [
            max(0, row.duration_ns // NS_PER_US - row.compile_us - row.input_us - row.wait_us - row.save_us)
            for row in rows
        ]
        tracing = _spread(_difference(before, self._totals, "tracing_ns"), left)
        reads = _spread(_difference(before, self._totals, "read_ns"), left)
        fallbacks = self._totals.fallbacks - (before.fallbacks if before else 0)
        hits = self._totals.cache_hits - (before.cache_hits if before else 0)
        offset = self._clock.wall_ns() - self._clock.now_ns()
        sizes = self._sizes.of_steps(rows, self.counters.graph_sizes(), offset)
        done = [
            row._replace(
                device_bytes=device, host_bytes=host, tracing_us=trace, read_us=max(read, 0), graph_ops=ops
            )
            for row, trace, read, ops in zip(rows, tracing, reads, sizes, strict=True)
        ]
        done[-1] = done[-1]._replace(fallbacks=fallbacks, cache_hits=hits)
        return done


def _row(ended: _Open, following: _Open, spent: dict[str, int]) -> Row:
    return Row(
        whole(ended.number),
        ended.start_ns,
        following.start_ns - ended.start_ns,
        compile_us=ended.compile_ns // NS_PER_US,
        input_us=spent[INPUT] // NS_PER_US,
        wait_us=(ended.wait_ns + spent[WAIT]) // NS_PER_US,
        save_us=spent[SAVE] // NS_PER_US,
        restore_us=spent[RESTORE] // NS_PER_US,
        cut_us=ended.cut_ns // NS_PER_US,
        compiles=following.compiles - ended.compiles,
        graphs=following.graphs - ended.graphs,
        cpu_us=(following.cpu_ns - ended.cpu_ns) // NS_PER_US,
        samples_milli=whole(None if ended.samples is None else 1000 * ended.samples),
    )


def anomaly_facts(anomaly: Anomaly) -> dict[str, Any]:
    """An anomaly as the facts of an event; its kind goes by `what`."""
    facts = anomaly.to_dict()
    return {"what": facts.pop("kind")} | facts


def _difference(before: Totals | None, after: Totals, name: str) -> float | None:
    new, old = getattr(after, name), getattr(before, name) if before is not None else None
    return new - (old or 0.0) if new is not None else None


def _spread(total_ns: float | None, left: list[int]) -> list[int]:
    """Share a total out by the time that is left in each step, and never more than that."""
    room = sum(left)
    if total_ns is None or room <= 0:
        return [UNKNOWN if total_ns is None else 0 for _ in left]
    share = min(1.0, total_ns / NS_PER_US / room)
    return [int(share * each) for each in left]
