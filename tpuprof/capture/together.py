"""Processes on several hosts agree on the step to record from. Nobody waits: training goes on.

Each says that its training is steady. Once all have, one names a step ahead of all. Each answers whether it saw that in
time. Whoever sees all answers decides to begin; whoever comes close to the step before that, or has passed it, decides
to try again, further ahead. The first decision counts for all, so all begin at that step, or none does.
"""

from __future__ import annotations

import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tpuprof.capture.board import ANSWER, DECISION, READY, STEP, Board
from tpuprof.instrument.hidden_thread import HiddenThread
from tpuprof.instrument.state import pass_on
from tpuprof.units import MS_PER_S

# How often the board is looked at (s): a shared file system answers in milliseconds.
LOOK_EVERY_SECONDS = 0.2
# How far ahead the first step lies that is named (s, and steps at least): time for every host to look, and to see the
# others' answers. NFS may keep new files from others for some seconds more: each further try is twice as far ahead.
AHEAD_SECONDS, AHEAD_STEPS = 4.0, 3
# How long before the named step one must have seen all answers (s, and steps at least), so that the others see the
# decision in time.
DECIDE_SECONDS, DECIDE_STEPS = 1.0, 1
# Steady training by which a process knows its pace (s).
PACE_SECONDS = 1.0
# How long the hosts wait for those that are missing (s); a host that compiles longer than this is not steady.
PATIENCE_SECONDS = 60.0
# Steps that are named one after the other (count): the last lies a minute ahead.
TRIES = 5
# From this try on, who did not answer the one before is not waited for (count): it may have ended.
ONLY_WHO_ANSWERS_FROM = 3
# Hosts that a note names (hosts).
NAMED = 8
BEGIN = "begin"
NO_STEPS = "no step was seen, so the hosts could not agree on one: this host was recorded by its own clock"
NO_AGREEMENT = "the hosts did not agree on a step: this one began by itself"


class Pace:
    """Steps per second of the fastest stretch so far: a busy machine may slow training and then let it run again."""

    def __init__(self) -> None:
        self.fastest: float | None = None
        self._since: tuple[float, int] | None = None

    def add(self, now: float, seen: int) -> None:
        """So many steps were seen by now (s)."""
        if self._since is None:
            self._since = now, seen
        elif now - self._since[0] >= PACE_SECONDS:
            pace = (seen - self._since[1]) / (now - self._since[0])
            self.fastest = max(self.fastest or 0.0, pace)
            self._since = now, seen


@dataclass(frozen=True)
class _Said:
    """What a process said of itself: after how many steps, and its pace (steps per second)."""

    who: str
    seen: int
    pace: float


@dataclass(frozen=True)
class _Try:
    """One named step. `begins` is known once it is decided; `alone` means that nothing was agreed on."""

    number: int
    step: int
    asked: frozenset[str] = frozenset()
    begins: bool = False
    alone: bool = False


class Together:
    """One process of those that record at the same step; `member` counts from 0, `count` is how many hosts there are.

    A host may have several such processes. `threaded` has a thread of ours look at the board; else `look` is called.
    """

    def __init__(
        self,
        board: Board,
        member: int,
        count: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        threaded: bool = True,
    ) -> None:
        self.note = ""
        self._board, self._count, self._clock = board, count, clock
        self._who = f"{member}.{uuid.uuid4().hex[:8]}"
        self._pace = Pace()
        self._seen = 0
        self._ready: float | None = None
        self._try: _Try | None = None
        self._named_by_me = False
        self._tried_at_step = 0
        self._news: list[str] = []
        self._lock = threading.Lock()
        # No event: a process that is forked while a thread holds an event's lock could not set it.
        self._over = False
        self._thread = HiddenThread(self._run) if threaded else None

    def may_start(self, seen: int, tell: Callable[[str], object] = lambda _: None) -> bool:
        """Whether recording begins now, after that many steps; asked at each step at which this process could begin.

        After none it is recorded by the clock, which nobody waits for. `tell` gets what the user should know, if
        anything.
        """
        if not seen:
            tell(NO_STEPS)
            return True
        self._pace.add(self._clock(), seen)
        # Before the try is read: who takes one up publishes it first, and reads this then. One of both is seen.
        self._seen = seen
        if self._thread is not None:
            thread, self._thread = self._thread, None
            thread.start()
        named = self._try
        if (
            named is not None
            and seen >= named.step
            and not named.begins
            and named.number != self._tried_at_step
        ):
            self._tried_at_step = named.number
            self.look()
            named = self._try
        while self._news:
            tell(self._news.pop(0))
        if named is None or not named.begins or seen < named.step:
            return False
        if seen > named.step and not named.alone:
            self.note = _joined(self.note, f"this host began {seen - named.step} steps after the agreed one")
        self.stop()
        if self.note:
            tell(self.note)
        return True

    def stop(self) -> None:
        """Look no more."""
        self._over = True

    def _run(self) -> None:
        while not self._over:
            self.look()
            time.sleep(LOOK_EVERY_SECONDS)

    def look(self) -> None:
        """Read what the others say, and say what is to be said."""
        with self._lock:
            if self._over or (self._try is not None and self._try.begins):
                return
            try:
                self._look(self._clock())
            except (OSError, ValueError, KeyError, TypeError) as error:
                pass_on(error)
                self._begin_alone(f"{NO_AGREEMENT} ({error})")

    def _begin_alone(self, note: str) -> None:
        self.note = _joined(self.note, note)
        self._try = _Try(TRIES, 0, begins=True, alone=True)

    def _look(self, now: float) -> None:
        if self._ready is None:
            if self._pace.fastest is None:
                return
            self._post(READY)
            self._ready = now
        names = self._board.names()
        number = self._try.number if self._try else 0
        newest = max(
            (int(name.partition(".")[2]) for name in names if name.startswith(f"{STEP}.")), default=0
        )
        if newest > number:
            self._take_up(newest, self._board.read(f"{STEP}.{newest}"))
        elif self._try is None:
            self._name_the_first(names, now - self._ready)
        else:
            self._decide(self._try, names)

    def _name_the_first(self, names: set[str], waited: float) -> None:
        ready = _said(names, READY)
        there = {each.who.partition(".")[0] for each in ready}
        missing = [str(host + 1) for host in range(self._count) if str(host) not in there]
        if missing and waited < PATIENCE_SECONDS:
            return
        self._name(1, names, [each.who for each in ready])
        if missing and self._named_by_me:
            self.note = (
                f"{len(missing)} of {self._count} hosts were not steady in {PATIENCE_SECONDS:.0f} s "
                f"(in the list of hosts: {_listed(missing)})"
            )

    def _name(self, number: int, names: set[str], asked: Iterable[str]) -> None:
        """Name a step ahead of all that is known, unless another process has."""
        known = [*_said(names, READY), *_said(names, ANSWER), self._self()]
        pace = max(each.pace for each in known)
        ahead = max(AHEAD_STEPS, math.ceil(AHEAD_SECONDS * pace)) << (number - 1)
        step = max(each.seen for each in known) + ahead
        text = json.dumps({"step": step, "asked": sorted(asked), "by": self._who})
        self._take_up(number, self._board.settle(f"{STEP}.{number}", text))

    def _take_up(self, number: int, text: str) -> None:
        if not text:
            return  # it is being written
        found = json.loads(text)
        self._named_by_me = found["by"] == self._who
        self._try = _Try(number, int(found["step"]), frozenset(map(str, found["asked"])))
        # Read after the try is published: see `may_start`.
        self._post(f"{ANSWER}.{number}")

    def _decide(self, named: _Try, names: set[str]) -> None:
        answers = {each.who: each for each in _said(names, f"{ANSWER}.{named.number}")}
        decision = f"{DECISION}.{named.number}"
        if decision in names:
            said = self._board.read(decision)
        else:
            mine = self._opinion(named, answers)
            said = self._board.settle(decision, mine) if mine else ""
        if said == BEGIN:
            self._try = replace(named, begins=True)
        elif said:
            self._go_on(named, said, names, answers)

    def _opinion(self, named: _Try, answers: dict[str, _Said]) -> str:
        """Whether to begin, or why not; empty while that is open."""
        passed = [each for each in answers.values() if each.seen >= named.step and each.who in named.asked]
        if passed:
            return f"{_hosts(each.who for each in passed)} had passed it"
        missing = named.asked - answers.keys()
        if not missing:
            return BEGIN
        pace = max(each.pace for each in [*answers.values(), self._self()])
        if self._seen >= named.step - max(DECIDE_STEPS, math.ceil(DECIDE_SECONDS * pace)):
            return f"{_hosts(missing)} had not seen that in time"
        return ""

    def _go_on(self, named: _Try, why: str, names: set[str], answers: dict[str, _Said]) -> None:
        """Nobody begins at that step: name the next one."""
        self._news.append(f"the hosts agree on a step again: {why} (step {named.step})")
        if named.number >= TRIES:
            self._begin_alone(NO_AGREEMENT)
            return
        number = named.number + 1
        everyone = [each.who for each in _said(names, READY)]
        self._name(number, names, answers if number >= ONLY_WHO_ANSWERS_FROM else everyone)

    def _self(self) -> _Said:
        return _Said(self._who, self._seen, self._pace.fastest or 0.0)

    def _post(self, kind: str) -> None:
        me = self._self()
        self._board.post(f"{kind}.{me.who}.{me.seen}.{math.ceil(me.pace * MS_PER_S)}")


def _said(names: set[str], kind: str) -> list[_Said]:
    """What processes said in messages of a kind."""
    found = []
    for name in sorted(names):
        if name.startswith(f"{kind}."):
            member, process, seen, pace = name.split(".")[-4:]
            found.append(_Said(f"{member}.{process}", int(seen), int(pace) / MS_PER_S))
    return found


def _hosts(who: Iterable[str]) -> str:
    """Processes by their hosts' places in the list of hosts."""
    places = sorted({int(each.partition(".")[0]) + 1 for each in who})
    return f"host {_listed(map(str, places))} (in the list of hosts)"


def _listed(places: Iterable[str]) -> str:
    listed = list(places)
    return ", ".join(listed[:NAMED]) + (", ..." if len(listed) > NAMED else "")


def _joined(note: str, more: str) -> str:
    return f"{note}; {more}" if note else more
