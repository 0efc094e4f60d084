# cython: language_level=3, boundscheck=False, wraparound=False
"""Walks once along intervals, without the GIL: their union, what two sets share or differ in, what windows they cover.

`intervals` says what each of these means. Unions and windows may come in any order: where theirs is not ascending, the
result is None, and numpy sorts them. Sets of intervals are what unions give, and not looked at for their order.
"""

import numpy as np

from libc.stdint cimport int8_t, int64_t

ctypedef const int64_t[:] Times


def union(Times start, Times end):
    """The intervals that last, those that overlap or touch as one: starts and ends, or None."""
    cdef Py_ssize_t count = _same_length(start, end), row, at = -1
    cdef int64_t before = 0
    cdef bint ordered = True
    found = np.empty((2, count), np.int64)
    cdef int64_t[:, ::1] out = found
    with nogil:
        for row in range(count):
            if end[row] <= start[row]:
                continue
            if at >= 0 and start[row] < before:
                ordered = False
                break
            before = start[row]
            at = _append(out, at, start[row], end[row])
    return _cut(found, at + 1) if ordered else None


def union_by_label(Times start, Times end, Times member, const int8_t[:] label, int labels):
    """The union of the intervals of each label, as a list of starts and ends; None where starts do not ascend.

    `label` has a number from 0 on, below `labels`, for each member, and `member` says which of them an interval is of.
    """
    cdef Py_ssize_t count = _same_length(start, end), row, last
    cdef int each
    cdef bint valid = True
    if member.shape[0] != count:
        raise ValueError("columns of unequal length")
    cdef int64_t[::1] many = np.zeros(labels, np.int64), first = np.zeros(labels, np.int64)
    cdef int64_t[::1] at = np.full(labels, -1, np.int64)
    with nogil:
        for row in range(count):
            if not 0 <= member[row] < label.shape[0] or not 0 <= label[member[row]] < labels:
                valid = False
                break
            many[label[member[row]]] += 1
    if not valid:
        raise ValueError("a label or member that is not there")
    # All in one table, each label from its first place on.
    for each in range(1, labels):
        first[each] = first[each - 1] + many[each - 1]
    found = np.empty((2, count), np.int64)
    cdef int64_t[:, ::1] out = found
    cdef int64_t before
    with nogil:
        before = start[0] if count else 0
        for row in range(count):
            if start[row] < before:
                valid = False
                break
            before = start[row]
            if end[row] <= start[row]:
                continue
            each = label[member[row]]
            last = first[each] + at[each]
            if at[each] >= 0 and start[row] <= out[1, last]:
                if end[row] > out[1, last]:
                    out[1, last] = end[row]
            else:
                at[each] += 1
                out[0, last + 1], out[1, last + 1] = start[row], end[row]
    if not valid:
        return None
    places = [(first[each], first[each] + at[each] + 1) for each in range(labels)]
    return [(found[0, begin:until].copy(), found[1, begin:until].copy()) for begin, until in places]


def merge(Times start, Times end, Times other_start, Times other_end):
    """What is in one of two sets of disjoint ascending intervals, or in both."""
    cdef Py_ssize_t count = _same_length(start, end), others = _same_length(other_start, other_end)
    cdef Py_ssize_t row = 0, other = 0, at = -1
    found = np.empty((2, count + others), np.int64)
    cdef int64_t[:, ::1] out = found
    with nogil:
        while row < count or other < others:
            if other == others or row < count and start[row] <= other_start[other]:
                at = _append(out, at, start[row], end[row])
                row += 1
            else:
                at = _append(out, at, other_start[other], other_end[other])
                other += 1
    return _cut(found, at + 1)


def intersect(Times start, Times end, Times other_start, Times other_end):
    """What is in both of two sets of disjoint ascending intervals."""
    cdef Py_ssize_t count = _same_length(start, end), others = _same_length(other_start, other_end)
    cdef Py_ssize_t row = 0, other = 0, at = -1
    cdef int64_t begin, until
    if not count or not others:
        return _cut(np.empty((2, 0), np.int64), 0)
    # Only where both have intervals.
    row, other = _first_ending_after(end, other_start[0]), _first_ending_after(other_end, start[0])
    count, others = _first_from(start, other_end[others - 1]), _first_from(other_start, end[count - 1])
    found = np.empty((2, max(count - row, 0) + max(others - other, 0)), np.int64)
    cdef int64_t[:, ::1] out = found
    with nogil:
        while row < count and other < others:
            begin = max(start[row], other_start[other])
            until = min(end[row], other_end[other])
            if until > begin:
                at = _append(out, at, begin, until)
            if end[row] < other_end[other]:
                row += 1
            else:
                other += 1
    return _cut(found, at + 1)


def subtract(Times start, Times end, Times other_start, Times other_end):
    """What is in the first of two sets of disjoint ascending intervals and not in the second."""
    cdef Py_ssize_t count = _same_length(start, end), others = _same_length(other_start, other_end)
    cdef Py_ssize_t row, other = 0, hole, at = -1
    cdef int64_t begin
    if count and others:
        # Of a large second set mostly little is where the first has intervals.
        other, others = _first_ending_after(other_end, start[0]), _first_from(other_start, end[count - 1])
    cdef Py_ssize_t room = count + max(others - other, 0)
    found = np.empty((2, room), np.int64)
    cdef int64_t[:, ::1] out = found
    with nogil:
        for row in range(count):
            begin = start[row]
            while other < others and other_end[other] <= begin:
                other += 1
            # One that reaches past this interval may take from the next as well.
            hole = other
            while hole < others and other_start[hole] < end[row] and at + 1 < room:
                if other_start[hole] > begin:
                    at = _append(out, at, begin, other_start[hole])
                begin = max(begin, other_end[hole])
                hole += 1
            # Disjoint intervals leave no more pieces than there is room for.
            if at + 1 == room:
                break
            if begin < end[row]:
                at = _append(out, at, begin, end[row])
            other = max(other, hole - 1)
    return _cut(found, at + 1)


def covered(Times start, Times end, Times begin, Times until):
    """How much of each window disjoint ascending intervals cover, or None where windows do not ascend."""
    cdef Py_ssize_t count = _same_length(start, end), windows = _same_length(begin, until)
    cdef Py_ssize_t first
    cdef bint ordered
    found = np.zeros(windows, np.int64)
    cdef int64_t[::1] out = found
    if not windows:
        return found
    # Intervals before the first window lie outside of all of them.
    first = _first_ending_after(end, min(begin[0], until[0]))
    with nogil:
        ordered = _add_past(start, end, first, until, 1, out) and _add_past(start, end, first, begin, -1, out)
    return found if ordered else None


cdef bint _add_past(Times start, Times end, Py_ssize_t row, Times time, int sign, int64_t[::1] out) noexcept nogil:
    """Add to `out`, by sign, how much intervals from `row` on cover before each time; false where times descend."""
    cdef Py_ssize_t at, count = start.shape[0]
    cdef int64_t whole = 0
    for at in range(time.shape[0]):
        if at and time[at] < time[at - 1]:
            return False
        while row < count and end[row] <= time[at]:
            whole += end[row] - start[row]
            row += 1
        out[at] += sign * (whole + (time[at] - start[row] if row < count and start[row] < time[at] else 0))
    return True


cdef Py_ssize_t _first_ending_after(Times end, int64_t time) noexcept nogil:
    """The first of ascending intervals that ends later than a time."""
    cdef Py_ssize_t low = 0, high = end.shape[0], middle
    while low < high:
        middle = (low + high) // 2
        if end[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return low


cdef Py_ssize_t _first_from(Times start, int64_t time) noexcept nogil:
    """The first that starts at a time or later."""
    return _first_ending_after(start, time - 1)


cdef inline Py_ssize_t _append(int64_t[:, ::1] out, Py_ssize_t at, int64_t begin, int64_t until) noexcept nogil:
    """Write an interval behind that at `at`, or make that one longer; where the last one is now."""
    if at >= 0 and begin <= out[1, at]:
        if until > out[1, at]:
            out[1, at] = until
        return at
    out[0, at + 1], out[1, at + 1] = begin, until
    return at + 1


cdef Py_ssize_t _same_length(Times start, Times end) except -1:
    if start.shape[0] != end.shape[0]:
        raise ValueError("columns of unequal length")
    return start.shape[0]


cdef tuple _cut(object found, Py_ssize_t count):
    """The first rows; copied where most of the table would be kept for nothing."""
    if 2 * count < found.shape[1]:
        return found[0, :count].copy(), found[1, :count].copy()
    return found[0, :count], found[1, :count]
