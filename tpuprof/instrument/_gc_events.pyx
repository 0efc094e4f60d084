# cython: language_level=3
"""Puts Python's garbage collections on the host timeline without running Python code meanwhile.

Python drops whatever a callback of its collector raises, and runs signal handlers wherever Python code runs. So a Ctrl-C
that comes while a callback written in Python runs is lost, and training goes on. Compiled code is not interrupted: the
signal waits until the collection is over, as it does without us.
"""


cdef class GcEvents:
    """A callback for `gc.callbacks`. `make` is torch_xla's TraceMe, whose constructor and methods must be compiled too."""

    # The first thing that failed, None if nothing did. Nothing more is recorded after it.
    cdef readonly object error
    cdef object _make
    cdef object _open

    def __init__(self, make):
        self._make = make

    def __call__(self, phase, info):
        """Open an event when a collection starts, close it when it stops. Raises nothing."""
        cdef int generation
        if self.error is not None:
            return
        try:
            if phase == "start":
                # The stats as TraceMe itself writes them behind a name: given one by one they would be made text by
                # Python, which looks for signals as running code does.
                generation = info.get("generation", -1)
                event = self._make(f"tpuprof.gc#tpuprof=gc,generation={generation}#")
                event.__enter__()
                self._open = event
            elif self._open is not None:
                event, self._open = self._open, None
                event.__exit__(None, None, None)
        except Exception as error:
            self.error = error
