# cython: language_level=3
"""Watches over a mapped file: whether it was cut short while it was read. See _mapped.h."""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer

cdef extern from "_mapped.h":
    int tpuprof_guard(const void *begin, size_t size)
    int tpuprof_was_cut(int place)
    void tpuprof_release(int place)


cdef class Watch:
    """From its making to its end, reading pages that the file has lost gives zeros, and `cut` says so."""

    cdef Py_buffer _buffer
    cdef int _place
    cdef bint _held

    def __cinit__(self, data):
        self._place = -1
        self._held = False
        PyObject_GetBuffer(data, &self._buffer, PyBUF_SIMPLE)
        self._held = True
        self._place = tpuprof_guard(self._buffer.buf, self._buffer.len)

    @property
    def watching(self) -> bool:
        """Whether there was room for one more mapping."""
        return self._place >= 0

    @property
    def cut(self) -> bool:
        """Whether a page was read that the file no longer has."""
        return self._place >= 0 and tpuprof_was_cut(self._place) != 0

    def __dealloc__(self):
        if self._place >= 0:
            tpuprof_release(self._place)
        if self._held:
            PyBuffer_Release(&self._buffer)
