# cython: language_level=3
"""Ends a process that was asked to end by SIGTERM, also where it hangs in native code (`_watched_end.c`)."""

cdef extern from "_watched_end.h":
    int in_time_watch(int overdue_s, int lost_s, int closing_s)
    void in_time_begun()
    void in_time_wait_overdue() nogil
    void in_time_end() nogil


def watch(int overdue_s, int lost_s, int closing_s):
    """Count the time from a SIGTERM on; returns whether that is done. Python's handler must be in place."""
    return in_time_watch(overdue_s, lost_s, closing_s) == 0


def begun():
    """Python has begun to keep what was captured."""
    in_time_begun()


def wait_overdue():
    """Block, without Python's lock, until Python's handler was too late to begin."""
    with nogil:
        in_time_wait_overdue()


def end():
    """End this process by SIGTERM."""
    with nogil:
        in_time_end()
