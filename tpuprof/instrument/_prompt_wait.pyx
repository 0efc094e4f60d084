# cython: language_level=3
"""Waits without Python's global lock (GIL), and then sees where another thread is, not where it next lets go of the lock.

A thread that wants the lock lets another one keep it for Python's switch interval (5 ms), or until that one lets go of it
by itself: at a call of NumPy after two milliseconds of Python code, all of which then looks like that call. So the stack
is read as the wait ends, without the lock (`_python_inside.c`). With the lock, a look tells which of it is alive.

For that look the interval is about `INTERVAL_US` until the lock is there: a loop that lets go of it for some
microseconds now and then keeps it for hundreds of milliseconds else. A look is compiled: Python switches threads between
instructions of Python code alone, and the stack and the clocks of a look are of one moment.
benchmarks/sampler_lines.py compares this with Python's own wait.
"""

import sys

from posix.time cimport CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, clock_gettime, timespec
from posix.types cimport clockid_t, off_t

cdef extern from "Python.h":
    ctypedef void* PyThread_type_lock
    ctypedef enum PyLockStatus:
        PY_LOCK_ACQUIRED
    unsigned long PyThread_get_thread_ident()
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock)
    int PyThread_acquire_lock(PyThread_type_lock, int)
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock, long long, int) nogil
    void PyThread_release_lock(PyThread_type_lock)

    ctypedef struct PyInterpreterState
    ctypedef struct PyThreadState:
        PyThreadState* next
        unsigned long thread_id
    int PyGC_Disable()
    int PyGC_Enable()
    bint PyCode_Check(object code)
    ctypedef struct PyCodeObject
    int PyCode_Addr2Location(PyCodeObject* code, int at, int* line, int* column, int* last, int* until)
    PyInterpreterState* PyInterpreterState_Get()
    PyThreadState* PyInterpreterState_ThreadHead(PyInterpreterState*)

cdef extern from "_python_inside.h":
    ctypedef struct raw_place:
        size_t frame, code
        Py_ssize_t at
    bint raw_read(size_t address, void* into, size_t size) nogil
    unsigned long* switch_interval()
    int raw_stack(PyThreadState* thread, raw_place* places, int most) nogil
    size_t raw_frame(object frame)
    Py_ssize_t raw_size(object code)

cdef extern from "<sys/prctl.h>":
    int PR_SET_TIMERSLACK
    int prctl(int option, unsigned long value, ...)

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
    # Innermost frames that are read as a thread wakes up (frames), about 1 us each: more than a function called in the
    # meantime can hide of the stack.
    MOST_RAW = 16
    # How much later than asked a sleep of the looking thread may end (ns). Linux's 50 us are longer than the rounds of
    # many a loop: it would miss each one.
    SLACK_NS = 1
    # Intervals that have a number of their own (intervals): more than a program sets.
    MOST_FOUND = 8


cdef unsigned long* _interval = NULL
cdef bint _looked_for = False


cdef int _look_for_interval() except -1:
    """Find where Python's switch interval is, once; nowhere if it is not what Python says, before and after a change."""
    global _interval, _looked_for
    cdef unsigned long* place = NULL
    cdef unsigned long before = 0, after = 0
    if _looked_for:
        return 0
    _looked_for = True
    place = switch_interval()
    own = sys.getswitchinterval()
    if place is NULL or not raw_read(<size_t>place, &before, sizeof(before)) or abs(before - own * 1e6) > 1:
        return 0
    sys.setswitchinterval(own + 0.001)
    found = raw_read(<size_t>place, &after, sizeof(after)) and abs(after - before - 1000.0) <= 1
    sys.setswitchinterval(own)
    if found:
        # As it was: Python's own call may have lost a microsecond.
        place[0] = before
        _interval = place
    return 0


# The intervals that were found and shortened (us). Python has one for all threads.
cdef unsigned long[MOST_FOUND] _found
cdef unsigned long _number_found = 0


cdef unsigned long _number_of(unsigned long interval) noexcept nogil:
    """The number of the interval that was shortened to this one; `MOST_FOUND` where the program set it."""
    cdef unsigned long number = (interval - INTERVAL_US + 1) // 2
    return number if interval + 1 >= INTERVAL_US and number < _number_found else MOST_FOUND


def put_back():
    """Put the interval back; also where a program has set what it read of ours, and in a child process."""
    cdef unsigned long number = _number_of(_interval[0]) if _number_found else MOST_FOUND
    if number < MOST_FOUND:
        _interval[0] = _found[number]


cdef void _shorten() noexcept nogil:
    global _number_found
    cdef unsigned long number = 0, interval = _interval[0]
    if interval < INTERVAL_US + 2 * MOST_FOUND:
        return
    while number < _number_found and _found[number] != interval:
        number += 1
    if number == MOST_FOUND:
        number -= 1
    _found[number] = interval
    _number_found = max(_number_found, number + 1)
    _interval[0] = INTERVAL_US + 2 * number


def wake_at_once():
    """Let the calling thread run as soon as it wakes up, beside others on its CPU. Where Linux cannot, nothing changes."""
    cdef Attributes attributes
    if syscall(SYS_sched_getattr, 0, &attributes, sizeof(Attributes), 0) or attributes.policy != SCHED_OTHER:
        return
    prctl(PR_SET_TIMERSLACK, SLACK_NS)
    attributes.size, attributes.runtime = sizeof(Attributes), SLICE_NS
    syscall(SYS_sched_setattr, 0, &attributes, 0)


cdef class Wait:
    """The waits of a thread that looks at others. `works` tells whether this Python lets it have the lock promptly."""

    cdef readonly bint works
    cdef PyThread_type_lock _halt
    cdef PyThreadState* _thread
    cdef raw_place[MOST_RAW] _raw
    cdef int _raws
    cdef char _state
    cdef bint _reads

    def __cinit__(self):
        _look_for_interval()
        self.works = _interval is not NULL
        self._reads = _stacks_can_be_read()
        self._halt = PyThread_allocate_lock()
        if self._halt is NULL:
            raise MemoryError
        PyThread_acquire_lock(self._halt, 0)

    def __dealloc__(self):
        if self._halt is not NULL:
            PyThread_free_lock(self._halt)

    def wait(self, double seconds, bint prompt=True, int stat=-1):
        """Wait so long, and get the lock promptly if wanted. True as soon as `halt` was called.

        `stat` is the open file `stat` in the `/proc` entry of the thread that is looked at; -1 for none.
        """
        cdef PyLockStatus status
        cdef long long microseconds = <long long>(seconds * 1e6)
        with nogil:
            status = PyThread_acquire_lock_timed(self._halt, microseconds, 0)
            self._raws = raw_stack(self._thread, self._raw, MOST_RAW) if self._reads and self._thread is not NULL else 0
            self._state = _state_in(stat) if self._raws else 0
            if prompt and self.works and status != PY_LOCK_ACQUIRED:
                _shorten()
        put_back()
        return status == PY_LOCK_ACQUIRED

    def halt(self):
        """End the wait."""
        PyThread_release_lock(self._halt)

    def look(self, unsigned long thread, int frames, int schedstat, ops, known):
        """What a thread does now, in one piece; None where it has ended.

        Time (`time.perf_counter_ns`), ops (what the compiled `ops` gives, 0 where that is None), CPU time of the thread,
        what it waited for a CPU (from the open file `schedstat` of its `/proc` entry, 0 for -1), CPU time of the process
        (times in ns), (code, instruction) of its `frames` innermost frames, and whether those are of the moment at which
        the last wait ended: then the letter of its state at that moment (`R` for running or ready, `S` for asleep, `?`
        where that is unknown), else an empty text. `known` has code objects that are alive by their addresses.
        """
        cdef clockid_t clock
        cdef long long cpu = 0
        # In Python 3.11 each frame object may start a collection, whose callbacks let the thread run on: what is read
        # next is then no frame any more, and the process dies. Nothing else sees that collections are off.
        cdef int collects = PyGC_Disable()
        try:
            places, addresses = _frames_of(thread, frames)
        finally:
            if collects:
                PyGC_Enable()
        if not places:
            return None
        now = _now(CLOCK_MONOTONIC)
        if not pthread_getcpuclockid(thread, &clock):
            cpu = _now(clock)
        count = 0 if ops is None else ops() or 0
        before = self._as_it_woke(places, addresses, known)
        state = "" if before is None else chr(self._state) if self._state else "?"
        self._thread = _state_of(thread)
        return now, count, cpu, _waited(schedstat), _now(CLOCK_PROCESS_CPUTIME_ID), before or places, state

    cdef list _as_it_woke(self, list places, list addresses, known):
        """The stack when the wait ended, None where it is unknown: the frames that are still there as they were then, and
        inside them those that have ended since and whose code is known."""
        cdef int raw, at, kept
        for raw in range(self._raws):
            for at in range(len(addresses)):
                if addresses[at] == self._raw[raw].frame and id(places[at][0]) == self._raw[raw].code:
                    break
            else:
                continue
            break
        else:
            return None
        kept = raw
        while kept and self._raw[kept - 1].code in known:
            kept -= 1
        stack = [_place(known[self._raw[each].code], self._raw[each].at) for each in range(kept, raw)]
        while at < len(addresses) and raw < self._raws and addresses[at] == self._raw[raw].frame:
            stack.append(_place(places[at][0], self._raw[raw].at))
            at, raw = at + 1, raw + 1
        return stack + places[at:]


cdef tuple _frames_of(unsigned long thread, int most):
    """(code, instruction) and address of the innermost frames of a thread; none where it has ended."""
    frame = sys._current_frames().get(thread)
    places, addresses = [], []
    while frame is not None and len(places) < most:
        places.append((frame.f_code, frame.f_lasti))
        addresses.append(raw_frame(frame))
        frame = frame.f_back
    return places, addresses


cdef bint _stacks_can_be_read():
    """Whether the frame that calls is read as Python says that it is."""
    cdef raw_place here
    frame = sys._getframe()
    if not raw_stack(_state_of(PyThread_get_thread_ident()), &here, 1):
        return False
    return here.frame == raw_frame(frame) and here.code == id(frame.f_code) and here.at == frame.f_lasti


cdef tuple _place(code, Py_ssize_t at):
    """A place of a frame that was read; before the first instruction where the number says none."""
    return code, at if 0 <= at < raw_size(code) else -1


cdef PyThreadState* _state_of(unsigned long thread):
    cdef PyThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get())
    while state is not NULL and state.thread_id != thread:
        state = state.next
    return state


def location(code, int at):
    """Line, last line, first column and column after the last of an instruction (its byte); what is unknown is below 1."""
    cdef int line = 0, column = 0, last = 0, until = 0
    if not PyCode_Check(code):
        raise TypeError(f"a code object, not {type(code).__name__}")
    PyCode_Addr2Location(<PyCodeObject*>code, at, &line, &column, &last, &until)
    return line, last, column, until


cdef char _state_in(int file) noexcept nogil:
    """The third field of a stat file, behind the name, which may hold anything; 0 where there is none."""
    cdef char text[64]
    cdef ssize_t at = pread(file, text, sizeof(text), 0) - 1 if file >= 0 else -1
    cdef ssize_t end = at
    while at >= 0 and text[at] != b")":
        at -= 1
    return text[at + 2] if 0 <= at and at + 2 <= end else 0


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
