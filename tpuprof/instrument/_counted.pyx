# cython: language_level=3
"""Counts the steps of a program of which nothing else is asked, and times its graph cuts, for as little as can be.

Training runs megabytes of other code between two of these calls, so neither their code nor what it works on is in the
processor's caches. A line of Python takes a microsecond then, and what reads a few fields of one object much less
(`benchmarks/counting_steps.py`). `step_count.py` has the same in Python, for where this is not built.
"""

import sys

from cpython.object cimport PyObject_Call
from cpython.mem cimport PyMem_Free, PyMem_Realloc

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident()

cdef extern from "_counted.h":
    double monotonic_seconds() nogil
    bint HAS_MONOTONIC


cdef class StepCount:
    """Counts steps of one thread: see `step_count.StepCount`."""

    cdef readonly long left
    cdef object _clock, _on_end
    cdef list _events
    cdef bint _own_clock
    cdef long _per_step, _heard, _ended
    cdef unsigned long _thread
    # When the last step ended.
    cdef readonly double began
    cdef double _long
    cdef double *_ends

    def __cinit__(self):
        self._ends = NULL

    def __dealloc__(self):
        PyMem_Free(self._ends)

    def __init__(self, clock, on_end):
        self._clock, self._on_end = clock, on_end
        # Python's own clock is the system's on Linux, and is read there without Python.
        self._own_clock = HAS_MONOTONIC and clock is sys.modules["time"].monotonic
        self._events = []

    def of(self, str event):
        made = Event(self, event)
        self._events.append(made)
        return made

    def begin(self, str event, long per_step, long steps, double longest):
        cdef double *room = <double *> PyMem_Realloc(self._ends, max(steps, 1) * sizeof(double))
        cdef Event each
        if room == NULL:
            raise MemoryError
        self._ends, self._ended = room, 0
        for each in self._events:
            each.counts = each.event == event
        self._per_step, self._heard, self.left = per_step, 0, steps
        self._thread, self._long = PyThread_get_thread_ident(), longest
        self.began = self._now()

    def stop(self):
        self.left = 0

    def ends_with_step(self):
        self.left = min(self.left, 1)

    def take(self):
        cdef long number
        ended, self._ended = self._ended, 0
        return [self._ends[number] for number in range(ended)]

    cdef double _now(self) except? -1.0:
        return monotonic_seconds() if self._own_clock else self._clock()

    cdef int _tick(self) except -1:
        cdef double now, took
        if PyThread_get_thread_ident() != self._thread:
            return 0
        self._heard += 1
        if self._heard < self._per_step:
            return 0
        self._heard = 0
        now = self._now()
        took, self.began = now - self.began, now
        self.left -= 1
        if self.left and took < self._long:
            self._ends[self._ended] = now
            self._ended += 1
        else:
            self.left = 0
            self._on_end(now)
        return 0


cdef class Event:
    """One kind of events: see `step_count.Event`."""

    cdef StepCount _count
    cdef readonly str event
    cdef bint counts

    def __init__(self, StepCount count, str event):
        self._count, self.event, self.counts = count, event, False

    def passes(self):
        if not self._count.left:
            return False
        if self.counts:
            self._count._tick()
        return True


cdef class CutGuard:
    """Calls `original`, and `usual` in its place outside of the thread and the time in which `rest_in` counts.

    Where `opened` says that a span was opened lately, it is `usual` as well: a cut must find no scope.
    """

    cdef object _original, _usual, _tell, _opened
    cdef StepCount _count
    cdef Event _cut
    cdef double _least

    def __init__(self, original, usual, tell, opened):
        self._original, self._usual, self._tell, self._opened = original, usual, tell, opened
        self._count = self._cut = None

    def rest_in(self, StepCount count, Event cut, double least):
        self._count, self._cut, self._least = count, cut, least

    def __call__(self, *args, **kwargs):
        cdef StepCount count = self._count
        cdef double began, took
        if (
            count is None
            or not count.left
            or PyThread_get_thread_ident() != count._thread
            or self._opened.lately
        ):
            return self._usual(*args, **kwargs)
        began = count._now()
        try:
            return PyObject_Call(self._original, args, kwargs)
        finally:
            took = count._now() - began
            if took >= self._least:
                self._tell(took)
            elif self._cut.counts:
                count._tick()
