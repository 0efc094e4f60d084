# cython: language_level=3, boundscheck=False, wraparound=False
"""Plays a timeline's pieces and work several times in a row, without the GIL; `clock` says what each of it means."""

import numpy as np

from libc.stdint cimport int64_t

ctypedef const int64_t[::1] Whole
ctypedef const double[::1] Real


def play(Whole begins, Whole cut, Real length, Whole ended, Whole wake, Whole launch, Whole latency, Real takes,
         bint some_steps, int64_t in_flight, int rounds):
    """The host's time at the end of each round (ps)."""
    cdef Py_ssize_t pieces = begins.shape[0], works = launch.shape[0], piece, work, base, launched, count = 0
    cdef int64_t now_cut = -1
    cdef double host = 0.0, free = 0.0, begun
    cdef int each
    if not (cut.shape[0] == length.shape[0] == ended.shape[0] == wake.shape[0] == pieces):
        raise ValueError("columns of unequal length")
    if not (latency.shape[0] == takes.shape[0] == works):
        raise ValueError("columns of unequal length")
    if in_flight < 1:
        raise ValueError("nothing may be in flight")
    cdef double[::1] ends = np.empty(works * rounds, np.float64), marks = np.empty(rounds, np.float64)
    with nogil:
        for each in range(rounds):
            base, launched = count, 0
            for piece in range(pieces + 1):
                # Behind the last piece, what is left of the work is launched.
                while launched < works and (piece == pieces or launch[launched] <= begins[piece]):
                    # Of what the steps left out launched, nothing runs.
                    if some_steps and piece < pieces and begins[0] <= launch[launched] < begins[piece]:
                        ends[count] = free
                    else:
                        if count >= in_flight and ends[count - in_flight] > host:
                            host = ends[count - in_flight]
                        begun = host
                        if not (count and latency[launched] > 0 and free > host):
                            begun = host + latency[launched]
                        if free > begun:
                            begun = free
                        free = begun + takes[launched]
                        ends[count] = free
                    count += 1
                    launched += 1
                if piece == pieces:
                    break
                if cut[piece] != now_cut and cut[piece] != -1 and free > host:
                    host = free
                now_cut = cut[piece]
                if ended[piece] < 0 or base + ended[piece] >= count:
                    host += length[piece]
                else:
                    if ends[base + ended[piece]] > host:
                        host = ends[base + ended[piece]]
                    host += wake[piece]
            marks[each] = host
    return np.asarray(marks).tolist()
