"""A month of training with planted anomalies, through the real collector, ledger and detector, by a clock of its own."""

import random

from tpuprof.ledger.writer import LedgerWriter
from tpuprof.watch.anomalies import Settings
from tpuprof.watch.collector import Collector
from tpuprof.watch.counters import Totals

SECOND = 10**9
MIB = 2**20


class SimClock:
    def __init__(self):
        self.now = 1000 * SECOND
        self.cpu = 0

    def now_ns(self):
        return self.now

    def wall_ns(self):
        return self.now + 1_760_000_000 * SECOND

    def cpu_ns(self):
        return self.cpu


class SimCounters:
    """Counters and memory that a story sets."""

    def __init__(self):
        self.made, self.run, self.read_ns, self.memory, self.host = 0, 0, 0.0, 8 * 2**30, 20 * 2**30
        self.extension = None

    def compiles(self):
        return self.made

    def graphs(self):
        return self.made, self.run

    def drain_compiles(self):
        return []

    def totals(self):
        return Totals(0.0, self.read_ns, 0, 0)

    def last_graph_ops(self):
        return None

    def graph_sizes(self):
        return None

    def device_bytes(self):
        return self.memory

    def host_bytes(self):
        return self.host


class Training:
    """Steps of 26 s, as a month has 100,000 of them; `noise` gives each step's factor."""

    def __init__(self, folder, seed=0, settings=None, step_seconds=26.0, noise=None):
        self.random = random.Random(seed)
        self.clock, self.counters = SimClock(), SimCounters()
        self.ledger = LedgerWriter(
            folder, "sim", {"job": "month", "rank": 0, "started_ns": self.clock.now}, self.clock
        )
        self.spent = dict.fromkeys(("input", "wait", "save", "restore"), 0)
        self.collector = Collector(self.ledger, self.counters, self.clock, self._take, settings or Settings())
        self.found = []
        self.step_seconds = step_seconds
        self.noise = noise or (lambda: self.random.lognormvariate(0, 0.03))
        self.number = 0
        self.input_seconds = 0.02

    def _take(self):
        taken, self.spent = self.spent, dict.fromkeys(self.spent, 0)
        return taken

    def step(self, *, factor=1.0, input_seconds=None, compile_seconds=0.0, save_seconds=0.0):
        """One step: factors on its own work, seconds in other parts."""
        if not self.number:
            self.collector.boundary(0, None, self.clock.now)
        waits = self.input_seconds * self.random.uniform(0.5, 1.5) if input_seconds is None else input_seconds
        length = self.step_seconds * self.noise() * factor
        self.spent["input"] += int(waits * SECOND)
        self.spent["save"] += int(save_seconds * SECOND)
        if compile_seconds:
            self.collector.before_cut()
            self.clock.now += int(compile_seconds * SECOND)
            self.counters.made += 1
            self.collector.after_cut()
        self.counters.run += 1
        # Memory that comes and goes: caches, fragments.
        self.counters.host += self.random.randint(-4, 4) * MIB
        self.clock.now += int((length + waits + save_seconds) * SECOND)
        self.number += 1
        self.collector.boundary(self.number, None, self.clock.now)
        self.found += self.collector.flush()

    def compare(self, ratio=1.0):
        """What a process does every 20 s: its own work beside the median of all hosts."""
        own, others = self.collector.own_work_ns(), self.collector.own_work_ns() * self.random.gauss(1, 0.03)
        behind = self.collector.detector.behind(self.number, ratio * own, others)
        if behind is not None:
            self.collector.report(behind)
            self.found.append(behind)

    def hang(self, seconds):
        """No step for so long, looked at once per minute."""
        end = self.clock.now + int(seconds * SECOND)
        while self.clock.now < end:
            self.clock.now += 60 * SECOND
            self.found += self.collector.flush()
