"""Watches one process: follows its steps, keeps the ledger, looks for anomalies once per second, acts on them."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpuprof.instrument.hidden_thread import HiddenThread
from tpuprof.instrument.state import OTHER_FRAMEWORKS, STATE, import_xlac, xlac
from tpuprof.ledger.clock import Clock, process_start_ns
from tpuprof.ledger.packing import pack_dead
from tpuprof.ledger.rows import UNKNOWN
from tpuprof.ledger.writer import LedgerWriter
from tpuprof.units import NS_PER_MS
from tpuprof.watch import anomalies as kinds
from tpuprof.watch.anomalies import Anomaly, Settings
from tpuprof.watch.collector import Collector
from tpuprof.watch.counters import Counters
from tpuprof.watch.exporters import Exporter, PrometheusExporter, exporters_of
from tpuprof.watch.follow_steps import StepFollower
from tpuprof.watch.options import WatchOptions, commit_of, job_name, rank_by_environment
from tpuprof.watch.short_capture import ShortCaptures
from tpuprof.watch.stacks import all_stacks, innermost
from tpuprof.watch.status import Status
from tpuprof.watch.timers import Timers

# How often the ledger is written (s): what a kill loses at most.
FLUSH_SECONDS = 0.8
# How often it is looked whether the device runtime is up, before the first step (s).
READY_SECONDS = 0.1
# How long the end of the program waits for the watching thread (s).
JOIN_SECONDS = 2.0
# Failures of our own that are noted (count): each second would bring one more.
MOST_FAILURES = 5
# Kinds that a capture of the steps that follow can say more about.
_RECORDED = (
    kinds.SLOW_STEP,
    kinds.SHIFT,
    kinds.RECOMPILE,
    kinds.INPUT_STALL,
    kinds.MEMORY_GROWTH,
    kinds.BEHIND,
)
# Watchers of this process, which phases are marked with.
RUNNING: list[Watcher] = []


class Watcher:
    """`start` and `stop` are called once; between them a thread of its own does all that need not be done at a step."""

    def __init__(self, options: WatchOptions, clock: Clock | None = None) -> None:
        self.options = options
        clock = clock or Clock()
        self._clock = clock
        self._host = socket.gethostname() or "localhost"
        name = f"{self._host}-{clock.wall_ns() // NS_PER_MS}-{os.getpid()}"
        self.ledger = LedgerWriter(Path(options.folder), name, self._about(clock), clock)
        settings = replace(Settings(), hang_seconds=options.hang_seconds, warm_steps=options.warm_steps)
        self.timers = Timers(clock, lambda: self.follower.thread, self._span)
        self.collector = Collector(self.ledger, Counters(None), clock, self.timers.take, settings)
        self.follower = StepFollower(None, self._ended, self.collector.before_cut, self.collector.after_cut)
        self.captures = ShortCaptures(options, name, self.ledger.event, clock)
        self.status = Status(Path(options.folder), name, self.ledger)
        self.anomalies: list[Anomaly] = []
        self._quiet = self._numbered = False
        self._ready = self._packed = False
        self._halt = threading.Event()
        self._thread: HiddenThread | None = None
        self._process = os.getpid()
        self._exporters: list[Exporter] = []

    def _about(self, clock: Clock) -> dict[str, Any]:
        return {
            "job": job_name(self.options),
            "host": self._host,
            "rank": rank_by_environment(),
            "pid": os.getpid(),
            "started_ns": process_start_ns(clock),
            "commit": commit_of(os.getcwd()),
            "numbered": False,
        }

    def start(self) -> None:
        """Begin to watch. Raises nothing."""
        self.follower.install()
        self.use_framework()
        self.timers.install()
        self.ledger.flush()
        self._start_exporters()
        self._thread = HiddenThread(self._run)
        self._thread.start()
        RUNNING.append(self)

    def _start_exporters(self) -> None:
        def failed(which: str, error: Exception) -> None:
            self.ledger.event("exporter_failed", None, which=which, why=f"{type(error).__name__}: {error}")

        job = str(self.ledger.about("job")["job"])
        self._exporters = exporters_of(self.options, job, self.ledger.path.name, failed)
        ports = [each.port for each in self._exporters if isinstance(each, PrometheusExporter)]
        if ports:
            self.ledger.describe(metrics_port=ports[0])

    def use_framework(self) -> None:
        """Follow the framework that the program has imported by now, if it has. Imports none."""
        if STATE.framework is None and xlac() is None and any(_imported(name) for name in OTHER_FRAMEWORKS):
            import_xlac()
        extension = STATE.framework if STATE.framework is not None else xlac()
        if extension is not None and extension is not self.collector.counters.extension:
            self.collector.counters.extension = extension
            self.follower.watch_framework(extension)
            self.ledger.describe(framework=getattr(extension, "name", "torch_xla") or "torch_xla")

    @property
    def saw_steps(self) -> bool:
        """Whether a step has begun."""
        return self.collector.open_since is not None

    def stop(self, how: str = "stopped") -> None:
        """Watch no more, and say in the ledger how it ended. Doing it twice is harmless. Raises nothing."""
        if self._halt.is_set() or os.getpid() != self._process:
            return
        self._halt.set()
        if self in RUNNING:
            RUNNING.remove(self)
        try:
            if self._thread is not None and not self._thread.is_current:
                self._thread.join(JOIN_SECONDS)
            self.captures.stop()
            self.follower.remove()
            self.timers.remove()
            self._tick()
            self.ledger.close(how)
            self.status.write(self.collector, self.anomalies, ended=how)
            for exporter in self._exporters:
                exporter.stop()
        except Exception as error:
            self.ledger.event("watch_failed", why=f"{type(error).__name__}: {error}")

    def abandon(self) -> None:
        """In a forked process: everything belongs to the parent."""
        self._halt.set()
        RUNNING.clear()
        self.ledger.abandon()
        self.follower.remove()
        self.timers.remove()

    def _ended(self, number: int | None, samples: float | None) -> None:
        """A step ended, in the thread that trains."""
        now = self._clock.now_ns()
        self._numbered = self._numbered or number is not None
        self.collector.boundary(number, samples, now, quiet=self._quiet)
        self._quiet = self.captures.boundary(number, self.collector.counters.extension)
        if self._quiet and not self.captures.active:
            # The recorder has taken its hooks away, and those of a framework with it.
            if STATE.framework is not None:
                STATE.framework.install()
            self.follower.watch_framework()

    def _span(self, name: str, began: int, until: int) -> None:
        self.collector.span(name, began, until)

    def _run(self) -> None:
        self._describe_command()
        flushed, failures = time.monotonic(), 0
        while not self._halt.wait(FLUSH_SECONDS if self.collector.steps else READY_SECONDS):
            try:
                self._look_for_runtime()
                if time.monotonic() - flushed >= FLUSH_SECONDS:
                    flushed = time.monotonic()
                    self._tick()
            except Exception as error:
                failures += 1
                if failures <= MOST_FAILURES:
                    self.ledger.event("watch_failed", why=f"{type(error).__name__}: {error}")

    def _describe_command(self) -> None:
        """Say which program this is, without its keys. It takes 40 ms to import what knows them: no work for a step."""
        try:
            from tpuprof.share.command_line import without_secrets

            self.ledger.describe(command=without_secrets(sys.orig_argv))
        except Exception as error:
            self.ledger.event("watch_failed", why=f"{type(error).__name__}: {error}")

    def _look_for_runtime(self) -> None:
        if self._ready:
            return
        from tpuprof.capture.environment import device_in_use, devices, process_place

        if not device_in_use():
            return
        self._ready = self.collector.counters.runtime_up = True
        self.ledger.event("runtime_ready")
        self.collector.counters.chips.begin((devices() or {}).get("type"))
        rank, processes = process_place()
        if processes > 1 or self.ledger.rank() in (None, UNKNOWN):
            self.ledger.describe(rank=rank, processes=processes)

    def _tick(self) -> None:
        """What is done once per second."""
        self.use_framework()
        self.timers.install()
        self.ledger.describe(numbered=self._numbered)
        self.collector.counters.chips.look()
        for anomaly in self.collector.flush():
            self.anomalies.append(anomaly)
            self._act(anomaly)
        behind = self.status.look(self.collector, self.anomalies)
        if behind is not None:
            self.collector.report(behind)
            self.anomalies.append(behind)
            self._act(behind)
        self.captures.look()
        if not self._packed and self.collector.steps:
            self._packed = True
            pack_dead(Path(self.options.folder), self._host, self.ledger.path.name)
        for exporter in self._exporters:
            exporter.update(self.status.facts(self.collector, self.anomalies))

    def _act(self, anomaly: Anomaly) -> None:
        where = self.captures.ask(anomaly, record=anomaly.kind in _RECORDED)
        if anomaly.kind == kinds.HANG and where is not None:
            try:
                (where / "stacks.txt").write_text(all_stacks(), "utf-8")
                at = innermost(self.follower.thread)
                facts = {"folder": where.name, "at": at}
                (where / "hang.json").write_text(json.dumps(facts), "utf-8")
                self.ledger.event("stacks", None, step=anomaly.step, **facts)
            except OSError as error:
                self.ledger.event("capture_left_out", step=anomaly.step, what=anomaly.kind, why=str(error))


def _imported(name: str) -> bool:
    """Whether a module is there and its code has run."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)
