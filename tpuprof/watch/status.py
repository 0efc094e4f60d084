"""A small file per process that says how it is doing, for whoever follows the job; and how this host compares."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

from tpuprof.json_notes import read_json
from tpuprof.ledger.rows import Row
from tpuprof.ledger.writer import LedgerWriter
from tpuprof.run_folder import STATUS, STATUS_SCHEMA
from tpuprof.units import NS_PER_S
from tpuprof.watch.anomalies import Anomaly
from tpuprof.watch.collector import Collector

# How often a process writes its status, and how often it compares itself with the others (s).
WRITE_SECONDS, COMPARE_SECONDS = 4.0, 20.0
# Processes that one compares itself with at most (count): a sample tells the median of thousands.
MOST_COMPARED = 64
# A status is of a living process if it is no older than this (s).
FRESH_SECONDS = 30.0
_NO_MFU = "the FLOPs of a step are known from a capture only: see `tpuprof analyze` on one"


class Status:
    """Writes the status of this process, and reads those of others."""

    def __init__(self, folder: Path, name: str, ledger: LedgerWriter) -> None:
        self._path = folder / STATUS / f"{name}.json"
        self._ledger = ledger
        self._written = self._compared = 0.0
        self._best_ns = 0.0

    def facts(self, collector: Collector, anomalies: list[Anomaly]) -> dict[str, Any]:
        """What is known of this process now. Times in seconds, unknown is None."""
        sums, row = collector.sums, collector.last_row
        own = collector.own_work_ns()
        self._best_ns = min(self._best_ns or own, own) if own else self._best_ns
        return {
            "schema": STATUS_SCHEMA,
            **self._ledger.about("job", "host", "rank", "pid", "commit"),
            "wall_seconds": time.time(),
            "step": row.step if row is not None else None,
            "steps": collector.steps,
            "median_step_seconds": collector.detector.median_ns / NS_PER_S or None,
            "last_step_seconds": row.duration_ns / NS_PER_S if row is not None else None,
            "own_work_seconds": own / NS_PER_S or None,
            "own_best_seconds": self._best_ns / NS_PER_S or None,
            "seconds": {name: spent / NS_PER_S for name, spent in sums.items()},
            "compiles": collector.compiles,
            "host_bytes": _known(row, "host_bytes"),
            "device_bytes": _known(row, "device_bytes"),
            "samples_per_second": _samples_per_second(row),
            **collector.counters.chips.values,
            "unavailable": {"mfu": _NO_MFU, **collector.counters.chips.unavailable},
            "anomalies": len(anomalies),
            "last_anomalies": [each.to_dict() for each in anomalies[-5:]],
            "problem": self._ledger.problem,
        }

    def write(self, collector: Collector, anomalies: list[Anomaly], *, ended: str = "") -> None:
        """Replace the file. Raises nothing: the ledger has it all."""
        self._written = time.monotonic()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            scratch = self._path.with_suffix(".tmp")
            scratch.write_text(json.dumps(self.facts(collector, anomalies) | {"ended": ended}), "utf-8")
            scratch.replace(self._path)
        except OSError:
            return

    def look(self, collector: Collector, anomalies: list[Anomaly]) -> Anomaly | None:
        """Write and compare when it is time; the anomaly of a host that fell behind."""
        now = time.monotonic()
        if now - self._written >= WRITE_SECONDS:
            self.write(collector, anomalies)
        if (
            now - self._compared < COMPARE_SECONDS
            or not collector.detector.warm
            or collector.last_row is None
        ):
            return None
        self._compared = now
        others = self._others()
        if len(others) < 2:
            return None
        # Of two hosts the quicker one is what is usual: the mean of both would hide how far the other is behind.
        usual = statistics.median_low(others)
        return collector.detector.behind(collector.last_row.step, collector.own_work_ns(), usual)

    def _others(self) -> list[float]:
        """The own work per step (ns) of living processes of this job, this one among them."""
        found = []
        job = self._ledger.about("job")["job"]
        paths = sorted(self._path.parent.glob("*.json"))
        for path in paths[:: max(1, len(paths) // MOST_COMPARED)]:
            facts = read_status(path)
            own = facts.get("own_work_seconds")
            fresh = time.time() - float(facts.get("wall_seconds") or 0) < FRESH_SECONDS
            if facts.get("job") == job and fresh and isinstance(own, (int, float)):
                found.append(own * NS_PER_S)
        return found


def read_status(path: Path) -> dict[str, Any]:
    """A status file, empty where it cannot be read."""
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _known(row: Row | None, name: str) -> int | None:
    value = getattr(row, name) if row is not None else -1
    return value if value >= 0 else None


def _samples_per_second(row: Row | None) -> float | None:
    if row is None or row.samples_milli < 0 or row.duration_ns <= 0:
        return None
    return row.samples_milli * (NS_PER_S / 1000) / row.duration_ns
