"""Plays a compiled program's schedule on a clock: when each instruction would run, and what would wait for what.

The order is the compiler's. A device does one instruction after another; collectives, host copies and copies to
on-chip memory that the compiler made asynchronous run beside it, one at a time on each of their links, and what
is left of them when the program asks for the result is waited for. Times are integer picoseconds from 0.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from tpuprof.decode.hlo import Computation, HloModule, Instruction
from tpuprof.preflight.collectives import Collective, Collectives
from tpuprof.preflight.pricing import Prices, host_copy_bytes
from tpuprof.preflight.targets import Target

# Events kept for the predicted trace; beyond it a loop's later rounds are counted in time but not listed.
MAX_EVENTS = 200_000


class Work(StrEnum):
    """What the device does during a span; waits are named by what they wait for."""

    COMPUTE = "compute"
    COLLECTIVE = "collective"
    OFFLOAD = "offload"
    PREFETCH = "prefetch"
    CONTAINER = "container"


@dataclass(slots=True)
class Event:
    """One execution of an instruction on the device, from `start` for `duration` ps."""

    instruction: Instruction
    start: int
    duration: int
    work: Work


@dataclass(slots=True)
class Transfer:
    """One asynchronous transfer beside the device: its start instruction, its -done, and what it moved."""

    start_instruction: Instruction
    done: str
    start: int
    duration: int
    work: Work
    bytes: int
    waited: int = 0


@dataclass
class Schedule:
    """A program played once: events in order, transfers, exposed time by kind of work, what was guessed."""

    duration: int = 0
    events: list[Event] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    totals: Counter[Work] = field(default_factory=Counter)
    hidden: Counter[Work] = field(default_factory=Counter)
    guessed: dict[str, int] = field(default_factory=dict)
    guessed_ps: int = 0
    unknown_loops: list[str] = field(default_factory=list)
    collectives: Counter[Collective] = field(default_factory=Counter)
    collective_at: dict[Collective, tuple[str, Instruction]] = field(default_factory=dict)
    offload: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Pending:
    transfer: Transfer
    end: int


class Player:
    """Plays one module for one target."""

    def __init__(self, module: HloModule, target: Target) -> None:
        self.module = module
        self.target = target
        self.prices = Prices(module, target)
        self._collectives = Collectives(module, target.devices)
        self.result = Schedule()
        self.now = 0
        self._link_free: dict[str, int] = {}
        self._pending: dict[str, _Pending] = {}
        self._channels: dict[str, str] = {}
        self._rounds = 1

    def play(self) -> Schedule:
        """Play the entry computation once."""
        self._computation(self.module.entry)
        self.result.duration = self.now
        self.result.guessed = self.prices.guessed
        self.result.guessed_ps = self.prices.guessed_ps
        return self.result

    def _computation(self, computation: Computation) -> None:
        for each in computation:
            self._instruction(each, computation)

    def _instruction(self, each: Instruction, computation: Computation) -> None:
        collective = self._collectives.of(each)
        if collective is not None:
            self._collective(each, collective, computation)
        elif each.opcode in ("copy-start", "slice-start"):
            self._copy_start(each)
        elif each.opcode == "async-start":
            self._begin(each, Work.PREFETCH, "async", self._called_ps(each), 0)
        elif each.opcode.endswith("-done") and each.operands and each.operands[0] in self._pending:
            self._finish(each, each.operands[0])
        elif each.opcode == "while":
            self._loop(each, computation)
        elif each.opcode in ("call", "conditional"):
            self._calls(each)
        else:
            self._run(each, self.prices.compute_ps(each), Work.COMPUTE)

    def _run(self, each: Instruction, duration: int, work: Work) -> None:
        if duration:
            self._record(each, self.now, duration, work)
            self.result.totals[work] += duration * self._rounds
            self.now += duration

    def _record(self, each: Instruction, start: int, duration: int, work: Work) -> None:
        if len(self.result.events) < MAX_EVENTS:
            self.result.events.append(Event(each, start, duration, work))

    def _collective(self, each: Instruction, collective: Collective, computation: Computation) -> None:
        role = collective.role
        if role in ("sync", "start"):
            self.result.collectives[collective] += self._rounds
            self.result.collective_at.setdefault(collective, (computation.name, each))
        if role == "sync":
            computing = self.prices.compute_ps(each) if each.estimated_cycles is not None else 0
            self._run(each, self.prices.collective_ps(collective) + computing, Work.COLLECTIVE)
        elif role == "start":
            self._channels[collective.channel] = each.name
            self._begin(each, Work.COLLECTIVE, "ici", self.prices.collective_ps(collective), collective.bytes)
        elif role == "done":
            operand = each.operands[0] if each.operands else ""
            key = operand if operand in self._pending else self._channels.pop(collective.channel, "")
            self._finish(each, key)
        else:
            self._run(each, self.prices.compute_ps(each), Work.COMPUTE)

    def _copy_start(self, each: Instruction) -> None:
        size, direction = host_copy_bytes(each)
        if direction:
            self.result.offload[direction] += size * self._rounds
            self._begin(each, Work.OFFLOAD, direction, self.prices.host_copy_ps(size), size)
            return
        parts = each.shape.elements
        moved = (
            parts[1].bytes
            if each.opcode == "slice-start" and len(parts) > 1
            else parts[0].bytes
            if parts
            else 0
        )
        self._begin(each, Work.PREFETCH, "hbm", self.prices.hbm_copy_ps(moved), moved)

    def _begin(self, each: Instruction, work: Work, link: str, duration: int, size: int) -> None:
        start = max(self.now, self._link_free.get(link, 0))
        self._link_free[link] = start + duration
        transfer = Transfer(each, "", start, duration, work, size)
        self._pending[each.name] = _Pending(transfer, start + duration)
        if len(self.result.transfers) < MAX_EVENTS:
            self.result.transfers.append(transfer)
        self._record(each, self.now, 0, work)

    def _finish(self, each: Instruction, key: str) -> None:
        pending = self._pending.pop(key, None)
        if pending is None:
            return
        transfer = pending.transfer
        transfer.done = each.name
        waited = max(0, pending.end - self.now)
        transfer.waited = waited
        self.result.hidden[transfer.work] += max(0, transfer.duration - waited) * self._rounds
        if waited:
            self._run(each, waited, transfer.work)
        else:
            self._record(each, self.now, 0, transfer.work)

    def _called_ps(self, each: Instruction) -> int:
        inner = self.module.called(each, "calls")
        return sum(self.prices.compute_ps(part) for part in inner) if inner else 0

    def _calls(self, each: Instruction) -> None:
        start = self.now
        inner = [
            self.module.computations[name] for name in each.called_names() if name in self.module.computations
        ]
        for computation in inner[:1] if each.opcode == "conditional" else inner:
            self._computation(computation)
        if self.now > start:
            self._record(each, start, self.now - start, Work.CONTAINER)

    def _loop(self, each: Instruction, computation: Computation) -> None:
        body = self.module.called(each, "body")
        if body is None:
            return
        trips = self.module.trip_count(each, computation)
        if trips is None:
            self.result.unknown_loops.append(each.name)
            trips = 1
        start = self.now
        for _ in range(min(trips, self._listed_rounds(body))):
            self._computation(body)
        played = min(trips, self._listed_rounds(body))
        if trips > played and played:
            self._skip_rounds(body, trips - played)
        self._record(each, start, self.now - start, Work.CONTAINER)

    def _listed_rounds(self, body: Computation) -> int:
        """Rounds played one by one: all of them unless the trace would grow past `MAX_EVENTS`."""
        return max(2, MAX_EVENTS // 4 // max(len(body), 1))

    def _skip_rounds(self, body: Computation, rounds: int) -> None:
        """Play one more round that stands for `rounds`: its time and totals are multiplied."""
        start, outer = self.now, self._rounds
        self._rounds = self.prices.rounds = outer * rounds
        self._computation(body)
        self._rounds = self.prices.rounds = outer
        self.now = start + (self.now - start) * rounds


def play(module: HloModule, target: Target) -> Schedule:
    """Predict one execution of a compiled program on one device of the target."""
    return Player(module, target).play()
