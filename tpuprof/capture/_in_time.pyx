# cython: language_level=3
"""Ends a process that was asked to end by SIGTERM, also where it hangs in native code (`_watched_end.c`)."""

cdef extern from "_watched_end.h":
    int in_time_watch(int overdue_s, int lost_s, int closing_s)
    void in_time_begun()
    void in_time_wait_overdue() nogil
    void in_time_end() nogil
    int in_time_handled_in(const char *part)
    int in_time_keep()
    void in_time_leave()


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
    """End this process by SIGTERM, as it would have ended without us."""
    with nogil:
        in_time_end()


def handled_in(str part):
    """Whether compiled code of a file whose path holds that text handles SIGTERM."""
    return in_time_handled_in(part.encode()) != 0


def keep():
    """Keep what is done on SIGTERM now; returns whether that is known. To be called before Python's handler is set."""
    return in_time_keep() == 0


def leave():
    """Have done on SIGTERM again what was kept, if anything."""
    in_time_leave()
