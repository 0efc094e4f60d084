# cython: language_level=3
"""Waits without Python's global lock (GIL), and then sees where another thread is, not where it next lets go of the lock.

A thread that wants the lock lets another one keep it for Python's switch interval (5 ms), or until that one lets go of it
by itself: at a call of NumPy after two milliseconds of Python code, all of which then looks like that call. A loop that
lets go for some microseconds now and then even keeps it for hundreds of milliseconds. So from when a wait is over until
the next one begins, the interval is about `INTERVAL_US`: the other thread lets go at the end of the call, or of the
round of a loop, that it is in. It gets the lock back as soon, and the looking thread then again: where the interval is put
back before, a sample takes up to half a second, in which none is taken. So a look is compiled: Python switches threads
between instructions of Python code alone, and its stack and its clocks are of one moment. benchmarks/sampler_lines.py
compares both.
"""

import sys

from posix.dlfcn cimport dlsym
from posix.time cimport CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, clock_gettime, timespec
from posix.types cimport clockid_t, off_t

cdef extern from "Python.h":
    ctypedef void* PyThread_type_lock
    ctypedef enum PyLockStatus:
        PY_LOCK_ACQUIRED
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock)
    int PyThread_acquire_lock(PyThread_type_lock, int)
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock, long long, int) nogil
    void PyThread_release_lock(PyThread_type_lock)

cdef extern from "<unistd.h>":
    long syscall(long number, ...) nogil
    ssize_t pread(int file, void* buffer, size_t size, off_t offset) nogil

cdef extern from "<pthread.h>":
    int pthread_getcpuclockid(unsigned long thread, clockid_t* clock) nogil

cdef extern from "<sys/syscall.h>":
    long SYS_sched_getattr, SYS_sched_setattr

cdef extern from "<sched.h>":
    int SCHED_OTHER

# The kernel's struct sched_attr in its first version, which all kernels know.
cdef struct Attributes:
    unsigned int size
    unsigned int policy
    unsigned long long flags
    int nice
    unsigned int priority
    unsigned long long runtime
    unsigned long long deadline
    unsigned long long period

cdef enum:
    # Time slice of a thread that looks (ns), the shortest of Linux. From 6.12 on, who asks for a shorter one than the
    # thread that runs gets the CPU as it wakes up. With equal ones, both on one CPU, a sample waits until the thread
    # that it looks at sleeps.
    SLICE_NS = 100_000
    # Time for which another thread keeps the lock meanwhile (us): shorter than what a line takes that matters. Each of the
    # first intervals that were found has a number, and twice that is added: a program that reads ours, and sets it later,
    # sets the interval that it would have read. Twice, because reading and setting can lose 1 us (25 becomes 24).
    # No program sets such values by itself.
    INTERVAL_US = 23
    # Intervals that have a number of their own (intervals): more than a program sets.
    MOST_FOUND = 8

# What `sys.setswitchinterval` calls, without the lock; NULL where Python does not export it.
ctypedef void (*_Set)(unsigned long) noexcept nogil
ctypedef unsigned long (*_Get)() noexcept nogil
cdef _Set _set_interval = <_Set>dlsym(NULL, b"_PyEval_SetSwitchInterval")
cdef _Get _get_interval = <_Get>dlsym(NULL, b"_PyEval_GetSwitchInterval")


# The intervals that were found and shortened (us). Python has one for all threads.
cdef unsigned long[MOST_FOUND] _found
cdef unsigned long _number_found = 0


cdef unsigned long _number_of(unsigned long interval) noexcept nogil:
    """The number of the interval that was shortened to this one; `MOST_FOUND` where the program set it."""
    cdef unsigned long number = (interval - INTERVAL_US + 1) // 2
    return number if interval + 1 >= INTERVAL_US and number < _number_found else MOST_FOUND


def put_back():
    """Put the interval back; also where a program has set what it read of ours, and in a child process."""
    cdef unsigned long number = _number_of(_get_interval()) if _number_found else MOST_FOUND
    if number < MOST_FOUND:
        _set_interval(_found[number])


cdef void _shorten() noexcept nogil:
    global _number_found
    cdef unsigned long number = 0, interval = _get_interval()
    if interval < INTERVAL_US + 2 * MOST_FOUND:
        return
    while number < _number_found and _found[number] != interval:
        number += 1
    if number == MOST_FOUND:
        number -= 1
    _found[number] = interval
    _number_found = max(_number_found, number + 1)
    _set_interval(INTERVAL_US + 2 * number)


def wake_at_once():
    """Let the calling thread run as soon as it wakes up, beside others on its CPU. Where Linux cannot, nothing changes."""
    cdef Attributes attributes
    if syscall(SYS_sched_getattr, 0, &attributes, sizeof(Attributes), 0) or attributes.policy != SCHED_OTHER:
        return
    attributes.size, attributes.runtime = sizeof(Attributes), SLICE_NS
    syscall(SYS_sched_setattr, 0, &attributes, 0)


cdef class Wait:
    """The waits of a thread that looks at others. `works` tells whether this Python lets it have the lock promptly."""

    cdef readonly bint works
    cdef PyThread_type_lock _halt

    def __cinit__(self):
        self.works = _set_interval is not NULL and _get_interval is not NULL
        self._halt = PyThread_allocate_lock()
        if self._halt is NULL:
            raise MemoryError
        PyThread_acquire_lock(self._halt, 0)

    def __dealloc__(self):
        if self._halt is not NULL:
            PyThread_free_lock(self._halt)

    def wait(self, double seconds, bint prompt=True):
        """Wait so long, and get the lock promptly if wanted. True as soon as `halt` was called."""
        cdef PyLockStatus status
        cdef long long microseconds = <long long>(seconds * 1e6)
        put_back()
        with nogil:
            status = PyThread_acquire_lock_timed(self._halt, microseconds, 0)
            if prompt and self.works and status != PY_LOCK_ACQUIRED:
                _shorten()
        return status == PY_LOCK_ACQUIRED

    def halt(self):
        """End the wait."""
        PyThread_release_lock(self._halt)

    def look(self, unsigned long thread, int frames, int schedstat, ops):
        """What a thread does now, in one piece; None where it has ended.

        Time (`time.perf_counter_ns`), ops (what the compiled `ops` gives, 0 where that is None), CPU time of the thread,
        what it waited for a CPU (from the open file `schedstat` of its `/proc` entry, 0 for -1), CPU time of the process
        (times in ns), and (code, instruction) of its `frames` innermost frames.
        """
        cdef clockid_t clock
        cdef long long cpu = 0
        cdef int left = frames
        frame = sys._current_frames().get(thread)
        if frame is None:
            return None
        places = []
        while frame is not None and left:
            places.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
            left -= 1
        frame = None
        now = _now(CLOCK_MONOTONIC)
        if not pthread_getcpuclockid(thread, &clock):
            cpu = _now(clock)
        count = 0 if ops is None else ops() or 0
        return now, count, cpu, _waited(schedstat), _now(CLOCK_PROCESS_CPUTIME_ID), places


cdef long long _now(clockid_t clock) noexcept nogil:
    cdef timespec now
    if clock_gettime(clock, &now):
        return 0
    return <long long>now.tv_sec * 1000000000 + now.tv_nsec


cdef long long _waited(int file) noexcept nogil:
    """The second number of a schedstat file: time that the thread waited for a CPU (ns)."""
    cdef char text[96]
    cdef ssize_t length, at = 0
    cdef long long value = 0
    if file < 0:
        return 0
    length = pread(file, text, sizeof(text), 0)
    while at < length and text[at] != b" ":
        at += 1
    at += 1
    while at < length and b"0" <= text[at] <= b"9":
        value = value * 10 + (text[at] - 48)
        at += 1
    return value
