# cython: language_level=3, boundscheck=False, wraparound=False
"""Walks once along a line of events, without the GIL: which event encloses which, and what is left of each.

`intervals.nesting` and `intervals.self_time` say what that means. Both want events in order, and return None where
they are not: events that last, by start, of equal ones the longest first. `nesting` returns None as well where so many
events outlast those around them that one walk would take quadratic time; numpy sorts such a line.
"""

import numpy as np

from libc.stdint cimport int64_t

ctypedef const int64_t[::1] Times

# Open events passed over to keep them in order, for each event, from which a line is left to numpy. Lines of real
# captures, whose events nest but for rounding, need less than one.
cdef enum:
    MOVES_AN_EVENT = 64


cdef inline bint _out_of_order(Times start, Times end, Py_ssize_t row) noexcept nogil:
    return end[row] <= start[row] or row and (
        start[row] < start[row - 1] or start[row] == start[row - 1] and end[row] > end[row - 1]
    )


def nesting(Times start, Times end):
    """The row of the event around each event, -1 for none."""
    parent = np.empty(start.shape[0], np.int64)
    return parent if _nest(start, end, parent) else None


cdef bint _nest(Times start, Times end, int64_t[::1] parent) except -1:
    cdef Py_ssize_t count = start.shape[0], row, at, depth = 0, moves = 0
    if end.shape[0] != count:
        raise ValueError("columns of unequal length")
    if not count:
        return True
    # The ends of open events, latest first, and the last event that began at each depth: never more than events.
    cdef int64_t[::1] ends = np.empty(count, np.int64), last = np.empty(count, np.int64)
    with nogil:
        for row in range(count):
            if _out_of_order(start, end, row):
                return False
            while depth and ends[depth - 1] <= start[row]:
                depth -= 1
            parent[row] = last[depth - 1] if depth else -1
            last[depth] = row
            at = depth
            while at and ends[at - 1] < end[row]:
                ends[at] = ends[at - 1]
                at -= 1
            moves += depth - at
            if moves > MOVES_AN_EVENT * count:
                return False
            ends[at] = end[row]
            depth += 1
    return True


def self_time(Times start, Times end):
    """The time in which each event is the one that began last of those open."""
    own = np.zeros(start.shape[0], np.int64)
    return own if _share_out(start, end, own) else None


cdef bint _share_out(Times start, Times end, int64_t[::1] own) except -1:
    cdef Py_ssize_t count = start.shape[0], row, depth = 0
    cdef int64_t now = 0, top
    if end.shape[0] != count:
        raise ValueError("columns of unequal length")
    if not count:
        return True
    # Events by start; one that ended below another stays until that one is gone.
    cdef int64_t[::1] opened = np.empty(count, np.int64)
    with nogil:
        for row in range(count + 1):
            if row < count and _out_of_order(start, end, row):
                return False
            while depth:
                top = opened[depth - 1]
                if row < count and end[top] > start[row]:
                    own[top] += start[row] - now
                    break
                if end[top] > now:
                    own[top] += end[top] - now
                    now = end[top]
                depth -= 1
            if row < count:
                now = start[row]
                opened[depth] = row
                depth += 1
    return True
