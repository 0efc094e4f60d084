# cython: language_level=3, boundscheck=False, wraparound=False
"""Finds the texts around signs in bytes, for all signs in one pass; `learn_profile` says which signs, and what for."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp

cdef enum:
    SIGNS = 64  # a bit each


cdef struct Spans:
    Py_ssize_t *places  # begin and end of each text
    Py_ssize_t count, room


cdef inline bint ends_text(unsigned char byte) noexcept nogil:
    return byte < 32 or byte == 127


cdef bint add(Spans *found, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t room = found.room
    cdef void *places
    if found.count == room:
        room = 2 * room + 64
        places = realloc(found.places, 2 * room * sizeof(Py_ssize_t))
        if places is NULL:
            return False
        found.places = <Py_ssize_t *> places
        found.room = room
    found.places[2 * found.count] = begin
    found.places[2 * found.count + 1] = end
    found.count += 1
    return True


def texts_around(
    const unsigned char[::1] data not None,
    tuple signs not None,
    Py_ssize_t around,
    Py_ssize_t most,
    Py_ssize_t begins=0,
    Py_ssize_t until=-1,
):
    """The different texts in which a sign stands, as bytes: at most `around` on each side, and `most` places of a sign.

    A text ends at a control character. A sign that stands in the text after the last place of the same sign is passed
    over. Signs are looked for that begin from `begins` on and before `until`, -1 for the end. Raises `MemoryError`.
    """
    cdef Py_ssize_t size = data.shape[0]
    cdef const unsigned char *begin = &data[0] if size else NULL
    cdef Py_ssize_t at, first, last, count = len(signs)
    cdef Py_ssize_t left[SIGNS]
    cdef Py_ssize_t resume[SIGNS]
    cdef Py_ssize_t length[SIGNS]
    cdef const unsigned char *sign[SIGNS]
    cdef uint64_t starting[256]
    cdef uint64_t candidates
    cdef int which
    cdef bint whole = True
    cdef Spans found = Spans(NULL, 0, 0)
    if until < 0 or until > size:
        until = size
    if count > SIGNS:
        raise ValueError(f"{count} signs: at most {SIGNS} are looked for at once")
    for at in range(256):
        starting[at] = 0
    for which in range(count):
        sign[which] = <bytes> signs[which]
        length[which] = len(<bytes> signs[which])
        left[which], resume[which] = most, 0
        starting[sign[which][0]] |= <uint64_t> 1 << which
    try:
        with nogil:
            for at in range(max(begins, 0), until):
                candidates = starting[begin[at]]
                if candidates == 0:
                    continue
                for which in range(count):
                    if not candidates >> which & 1 or at < resume[which] or left[which] == 0:
                        continue
                    if at + length[which] > size or memcmp(begin + at, sign[which], length[which]) != 0:
                        continue
                    first, last = at, at
                    while first > 0 and at - first < around and not ends_text(begin[first - 1]):
                        first -= 1
                    while last < size and last - at < around and not ends_text(begin[last]):
                        last += 1
                    whole = add(&found, first, last)
                    if not whole:
                        break
                    resume[which] = last
                    left[which] -= 1
                if not whole:
                    break
        if not whole:
            raise MemoryError
        return {
            PyBytes_FromStringAndSize(
                <const char *> begin + found.places[2 * at], found.places[2 * at + 1] - found.places[2 * at]
            )
            for at in range(found.count)
        }
    finally:
        free(found.places)
