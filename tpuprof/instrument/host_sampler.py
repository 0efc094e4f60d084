"""Samples what the training thread does, on a timeline line of its own, while a capture runs.

Each sample is an event with the thread's Python stack and what changed since the sample before: ops traced, CPU time
of the thread, its wait for a CPU, CPU time of the program's other Python threads. The changes say what the time
between two samples was; the stack says where it was.

The sampler needs Python's global lock (GIL), and reads the stack before it asks for it (`_prompt_wait.pyx`). Where
that module is missing, a sample shows where the training thread lets go of the lock by itself, often lines later.

Nothing between waking and sleeping releases the GIL: giving it away costs up to Python's switch interval (5 ms).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from types import BuiltinFunctionType
from typing import Any

from tpuprof.instrument.awaited import Awaited
from tpuprof.instrument.hidden_thread import HiddenThread
from tpuprof.instrument.in_backward import autograd_thread
from tpuprof.instrument.known_codes import KnownCodes
from tpuprof.instrument.own_work import OwnWork, learn_own
from tpuprof.instrument.run_queue import RunQueue
from tpuprof.instrument.stack_text import MAX_FRAMES, describe, is_own, places_of_thread, safe
from tpuprof.instrument.state import counter, pass_on
from tpuprof.instrument.thread_clocks import cpu_of_threads, joins
from tpuprof.instrument.thread_frames import Place
from tpuprof.own_events import HOLDER, SAMPLE
from tpuprof.units import MS_PER_S, NS_PER_S, NS_PER_US

waits: Any
try:
    from tpuprof.instrument import _prompt_wait as waits
except ImportError:  # no compiler built it
    from tpuprof.instrument import plain_wait as waits

# Share of an interval that another Python thread must have run for its stack to be looked at (share): it can then be
# what the training thread waited for.
HOLDS_FROM_SHARE = 0.3
# Counts one for each tensor an op makes.
OPS_COUNTER = "CreateXlaTensor"
# Samples of a step to aim at, and the bounds of the time between two (s). A sample takes about 60 us of the GIL, and
# waking up takes more CPU time where timers are slow (docs/instrument.md). The longest is Python's switch interval.
SAMPLES_PER_STEP = 3
SHORTEST, LONGEST = 0.002, 0.005
# How far the time between two samples may be from its mean (share), and the golden ratio's fraction.
SPREAD, GOLDEN = 0.3, 0.618034
# Share of a CPU that sampling may take; where waking up for a sample takes more, the time between two grows, up to
# `SLOWEST` (s). An interval that holds both ops and other work cannot be split well, so samples must not be too few:
# at a sample of 0.2 ms, as on slow virtual machines, this share still gives one in 5 ms. A judgement.
CPU_SHARE = 0.04
SLOWEST = 0.010
# Samples at the begin of a recording that may take a larger share of a CPU (samples, share): with fewer of them a
# short recording tells nothing, and of a long one they are few. 100 samples of 0.46 ms, as on a slow virtual machine,
# take 46 ms in all. A judgement.
FIRST_SAMPLES, FIRST_CPU_SHARE = 100, 0.12
# States of a thread in Linux's words (proc_pid_stat(5)) that tell whether it waits for something.
_SLEEPS = {"R": False, "S": True, "D": True}
# Weight of the newest sample in the mean of what samples take.
_NEWEST = 0.25
# Distinct stacks described at most; later ones go by the last id, which says so (stacks).
MAX_STACKS = 4000
# Samples in a row in which a thread waits for the end of another one, from which that one may be the one that trains
# (samples): a tenth of a second. How many may come before, while it makes and starts threads (samples).
JOINED_SAMPLES, BEFORE_JOINING = 20, 10


def interval_for(step_seconds: float | None) -> float:
    """Time between samples for steps of that length (s); unknown ones are taken for long."""
    if step_seconds is None:
        return LONGEST
    return min(max(step_seconds / SAMPLES_PER_STEP, SHORTEST), LONGEST)


def spread(number: int) -> float:
    """A factor for the time before a sample (1 on average): a loop that takes as long as it must not keep in step.

    Multiples of the golden ratio fill an interval evenly, without a random number.
    """
    return 1 - SPREAD + 2 * SPREAD * (number * GOLDEN % 1)


def lengthened(interval: float, cost: float, samples: int) -> float:
    """Time between samples that take `cost` of CPU time each (s), after so many of them."""
    share = FIRST_CPU_SHARE if samples < FIRST_SAMPLES else CPU_SHARE
    return max(interval, min(cost / share, SLOWEST))


class HostSampler:
    """Samples one thread between `start` and `stop`. Nothing of it raises; `error` says what ended it early."""

    def __init__(
        self,
        extension: Any,
        thread: int,
        step_seconds: float | None = None,
        choose: Callable[[], int] | None = None,
    ) -> None:
        """Where `thread` only waits for another to end, `choose` gives the one to sample instead."""
        self.interval = interval_for(step_seconds)
        self.error = ""
        self.samples = 0
        self._waits = 0
        self._cpu_ns = 0
        self._extension = extension
        self._target = thread
        self._awaited = Awaited() if thread == threading.get_ident() else None
        self._stacks: dict[tuple[int, ...], int] = {}
        self._texts: dict[str, int] = {}
        # Keeps what the keys of `_stacks` are addresses of.
        self._codes = KnownCodes()
        self._own_work = OwnWork()
        self._frames: dict[tuple[int, int], str] = {}
        self._run_queue = RunQueue(thread)
        self._wait = waits.Wait()
        # Compiled code that counts ops, None where Python code does: threads are switched in that.
        read = extension._xla_counter_value
        self._ops = partial(read, OPS_COUNTER) if isinstance(read, BuiltinFunctionType) else None
        self._thread: HiddenThread | None = None
        self._seen = (0, 0, 0, 0, 0)
        self._others: dict[int, int] = {}
        # Whether another Python thread ran in the last interval. Asking it for the lock would give it to the training
        # thread sooner, and training would be faster than without a sampler.
        self._contended = False
        self._autograd: dict[int, int] = {}
        self._choose = choose
        self._joined = 0

    def start(self) -> None:
        """Begin to sample."""
        try:
            _follow_forks()
            # Modules are looked through for a file's functions, which takes 2 ms: before a step and not in it.
            for code, _ in places_of_thread(self._target) or ():
                self._codes.learn(code)
            learn_own(self._codes)
            self._thread = HiddenThread(self._run)
            self._thread.start()
        except Exception as error:
            self._thread = None
            pass_on(error)
            self.error = f"{type(error).__name__}: {error}"

    def stop(self) -> dict[str, Any]:
        """Stop, and say what was done: samples, time between them, the sampler's own CPU time (s)."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._wait.halt()
            thread.join(timeout=1.0)
        self._run_queue.close()
        return {
            "samples": self.samples,
            "interval_ms": self.interval * MS_PER_S,
            "prompt": self._wait.works,
            "stacks": len(self._texts),
            "cpu_seconds": self._cpu_ns / NS_PER_S,
            "error": self.error,
        }

    def _run(self) -> None:
        try:
            waits.wake_at_once()
            found = self._look()
            if found is None:
                return
            self._seen = found[0]
            self._others_cpu()
            shortest, cost, before = self.interval, 0.0, time.thread_time_ns()
            while not self._waited():
                self._sample()
                now = time.thread_time_ns()
                taken, before = (now - before) / NS_PER_S, now
                cost = taken if not cost else cost + _NEWEST * (taken - cost)
                self.interval = lengthened(shortest, cost, self.samples)
        except Exception as error:  # a sampler that fails is missing from the trace, and training goes on
            self.error = f"{type(error).__name__}: {error}"
        finally:
            waits.put_back()
            self._cpu_ns = time.thread_time_ns()

    def _waited(self) -> bool:
        self._waits += 1
        seconds = self.interval * spread(self._waits)
        ended: bool = self._wait.wait(seconds, not self._contended, self._run_queue.state)
        return ended

    def _look(self) -> tuple[tuple[int, int, int, int, int], list[Place], str] | None:
        """What the target has used so far, its stack with our own frames, and its state; None where it has ended.

        Used: time, ops, CPU time, wait for a CPU, and CPU time of the process (ns). The state is empty where the stack
        is of a later moment.
        """
        found = self._wait.look(self._target, MAX_FRAMES, self._run_queue.file, self._ops, self._codes)
        if found is None:
            return None
        at, ops, cpu, waited, process, frames, state = found
        if self._ops is None:
            ops = counter(self._extension, OPS_COUNTER)
        return (at, ops, cpu, waited, process), frames, state

    def _sample(self) -> None:
        found = self._look()
        if found is None:
            return
        (now, frames, state), before = found, self._seen
        if self._own_work.does(frames):
            # The next sample stands for the time before this one too.
            return
        if self._choose is not None and self._may_follow_another(frames, self._choose):
            return
        self._seen = now
        places = [each for each in frames if not is_own(each[0].co_filename)]
        took = self._others_cpu()
        gap, ops, cpu, waited, process = (new - old for new, old in zip(now, before, strict=True))
        ident, inside = autograd_thread(places, self._others)
        if ident:
            # It works for the training thread, which waits for it.
            took.pop(ident, None)
            cpu = min(cpu + self._autograd_cpu(ident), gap)
        others = sum(took.values())
        busiest = max(took, key=lambda each: took[each], default=0)
        longest = took.get(busiest, 0)
        places = [*inside, *places]
        stack, text = self._stack(self._awaited.added_to(places) if self._awaited else places)
        facts = (
            f"stack={stack},gap_us={gap // NS_PER_US},ops={ops},cpu_us={cpu // NS_PER_US},"
            f"wait_us={waited // NS_PER_US},python_us={others // NS_PER_US},process_us={process // NS_PER_US}"
        )
        if state or (self._wait.works and not self._contended):
            facts += ",prompt=1"
        if state in _SLEEPS:
            facts += f",asleep={int(_SLEEPS[state])}"
        self._contended = longest >= HOLDS_FROM_SHARE * gap
        if self._contended:
            facts += f",holder={self._holder(busiest)}"
        # Looking at other threads lets go of the lock: the training thread may have gone on for milliseconds.
        late = time.perf_counter_ns() - now[0]
        self._put(f"{SAMPLE}#{facts},late_us={late // NS_PER_US}{text}#")
        self.samples += 1

    def _may_follow_another(self, frames: list[Place], choose: Callable[[], int]) -> bool:
        """Whether the thread has waited for the end of another one since it was first seen, and so may not train.

        A program compiles its step in the main thread, and then starts a thread that runs it, and joins that one.
        """
        waits = joins(frames)
        self._joined = self._joined + 1 if waits else 0
        if self._joined >= JOINED_SAMPLES or (not waits and self.samples >= BEFORE_JOINING):
            self._choose = None
        if waits and self._choose is None:
            self._follow(choose())
        return waits

    def _follow(self, thread: int) -> None:
        """Sample another thread from now on."""
        self._run_queue.close()
        self._target, self._run_queue, self._awaited = thread, RunQueue(thread), None
        found = self._look()
        if found is not None:
            self._seen = found[0]
        self._others_cpu()

    def _put(self, name: str) -> None:
        event = self._extension.profiler.TraceMe(name)
        event.__enter__()
        event.__exit__(None, None, None)

    def _holder(self, ident: int) -> int:
        """The number of another thread's stack, whose words are put on the timeline where it is new."""
        places = places_of_thread(ident)
        if not places:
            return -1
        stack, text = self._stack(places)
        if text:
            self._put(f"{HOLDER}#stack={stack}{text}#")
        return stack

    def _others_cpu(self) -> dict[int, int]:
        """CPU time that each other Python thread took since the last look (ns)."""
        own, now = threading.get_ident(), cpu_of_threads()
        others = {ident: cpu for ident, cpu in now.items() if ident not in (own, self._target)}
        before, self._others = self._others, others
        return {ident: max(cpu - before.get(ident, cpu), 0) for ident, cpu in others.items()}

    def _autograd_cpu(self, ident: int) -> int:
        """CPU time of autograd's thread since it was last seen to run Python (ns); between, it traces in C++."""
        cpu = self._others.get(ident, 0)
        before, self._autograd[ident] = self._autograd.get(ident, cpu), cpu
        return max(cpu - before, 0)

    def _stack(self, places: list[Place]) -> tuple[int, str]:
        """The number of a stack, and its words as stats where this is the first time it is seen."""
        key = tuple(part for code, at in places for part in (id(code), at))
        known = self._stacks.get(key)
        if known is not None:
            return known, ""
        if len(self._stacks) >= MAX_STACKS:
            return -1, ""
        for code, _ in places:
            self._codes.learn(code)
        words = describe(places, self._frames)
        text = "".join(f",{name}={safe(value)}" for name, value in words.items())
        number = self._texts.get(text)
        fresh = number is None
        if number is None:
            number = self._texts[text] = len(self._texts)
        self._stacks[key] = number
        return number, text if fresh else ""


@cache
def _follow_forks() -> None:
    """A child process that is forked during a sample gets the interval of its parent; no callback can be taken back."""
    os.register_at_fork(after_in_child=waits.put_back)
