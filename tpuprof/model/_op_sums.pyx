# cython: language_level=3, boundscheck=False, wraparound=False
"""Adds up the events of a device by op on one walk, without the GIL; `op_sums` says what each column is."""

import numpy as np

from libc.stdint cimport int64_t

ctypedef const int64_t[:] Column


def add_up(Column op, Column start, Column end, Column own, Py_ssize_t ops, Column step_start, Column step_end):
    """Tables of five columns of int64 and two of float64, a row an op. Steps ascend and do not overlap."""
    cdef Py_ssize_t count = op.shape[0], steps = step_start.shape[0], row, step = 0, high
    cdef int64_t each
    cdef bint valid = True
    if not count == start.shape[0] == end.shape[0] == own.shape[0] or steps != step_end.shape[0]:
        raise ValueError("columns of unequal length")
    whole, times = np.zeros((ops, 5), np.int64), np.zeros((ops, 2), np.float64)
    cdef int64_t[:, ::1] sums = whole
    cdef double[:, ::1] moments = times
    with nogil:
        for row in range(count):
            each = op[row]
            if not 0 <= each < ops:
                valid = False
                break
            sums[each, 0] += 1
            sums[each, 1] += end[row] - start[row]
            sums[each, 2] += own[row]
            # The first step that ends later: mostly that of the event before, or the next.
            if step and start[row] < step_end[step - 1]:
                high, step = step - 1, 0
                while step < high:
                    if step_end[(step + high) // 2] <= start[row]:
                        step = (step + high) // 2 + 1
                    else:
                        high = (step + high) // 2
            while step < steps and step_end[step] <= start[row]:
                step += 1
            if step < steps and step_start[step] <= start[row]:
                sums[each, 3] += 1
                sums[each, 4] += own[row]
                moments[each, 0] += start[row]
                moments[each, 1] += end[row]
    if not valid:
        raise ValueError("an op that is not there")
    return whole, times
