# cython: language_level=3, boundscheck=False, wraparound=False
"""Walks serialized protobuf messages and redacts their texts; `redact_proto` says what is replaced where.

Kinds of known fields are numbers (`TEXT`, `NESTED`, `NUMBERS`) or the fields of a message as another dictionary.
"""

from libc.stdint cimport uint64_t, UINT64_MAX

TEXT, NESTED, NUMBERS = 1, 2, 3

cdef enum:
    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5
    MAX_FIELD = 4096
    MAX_DEPTH = 100


cdef class Redaction:
    """One pass: what redacts a text, what masks opaque bytes, what tells a nested program, and the fields of programs.

    `text` takes bytes and returns them redacted, or None where they stay; `mask` takes bytes and returns bytes.
    """

    cdef object text, mask, is_program
    cdef dict program
    cdef set stay  # texts in which nothing is replaced

    def __init__(self, text, mask, is_program, dict program):
        self.text, self.mask, self.is_program, self.program = text, mask, is_program, program
        self.stay = set()

    def message(self, bytes data, dict known):
        """The message with its texts redacted, `data` itself where nothing is replaced."""
        cdef const unsigned char* begin = data
        found = self._message(begin, len(data), known, 0)
        return data if found is None else found

    # Each of the following returns None where the bytes stay.

    cdef object _message(self, const unsigned char* data, Py_ssize_t size, dict known, int depth):
        cdef Py_ssize_t at = 0, start, copied = 0, length
        cdef uint64_t key, value
        cdef list out = None
        if depth > MAX_DEPTH or not is_message(data, size):
            return self._masked(data, size)
        while at < size:
            start = at
            at = read(data, at, size, &key)
            if key & 7 == VARINT:
                at = read(data, at, size, &value)
            elif key & 7 == FIXED64:
                at += 8
            elif key & 7 == FIXED32:
                at += 4
            else:
                at = read(data, at, size, &value)
                length = <Py_ssize_t>value
                kind = None if known is None else known.get(key >> 3)
                changed = self._value(data + at, length, kind, depth + 1)
                at += length
                if changed is not None:
                    if out is None:
                        out = []
                    out.append(data[copied:start])
                    out.append(varint(key))
                    out.append(varint(len(changed)))
                    out.append(changed)
                    copied = at
        if out is None:
            return None
        out.append(data[copied:size])
        return b"".join(out)

    cdef object _value(self, const unsigned char* data, Py_ssize_t size, object kind, int depth):
        if kind is None:
            return self._unknown(data, size, depth)
        if kind is TEXT:
            return self._as_text(data, size)
        if kind is NUMBERS:
            return None
        if kind is NESTED:
            if self.is_program(data[:size]):
                return self._message(data, size, self.program, depth)
            return self._unknown(data, size, depth)
        return self._message(data, size, kind, depth)

    cdef object _unknown(self, const unsigned char* data, Py_ssize_t size, int depth):
        cdef bint printable = True
        cdef Py_ssize_t at
        for at in range(size):
            if data[at] < 0x20 or data[at] == 0x7F:
                printable = False
                break
        if not size:
            return None
        if printable:
            # It may be either, so its length must stay.
            return self._masked(data, size) if is_message(data, size) else self._as_text(data, size)
        if is_message(data, size):
            return self._message(data, size, None, depth)
        return self._masked(data, size)

    cdef object _as_text(self, const unsigned char* data, Py_ssize_t size):
        if size < 2:
            return None
        cdef bytes value = data[:size]
        if value in self.stay:
            return None
        changed = self.text(value)
        if changed is None:
            self.stay.add(value)
        return changed

    cdef object _masked(self, const unsigned char* data, Py_ssize_t size):
        cdef bytes value = data[:size]
        changed = self.mask(value)
        return None if changed == value else changed


cdef Py_ssize_t read(const unsigned char* data, Py_ssize_t at, Py_ssize_t size, uint64_t* value) noexcept nogil:
    """Read a varint; the position after it, -1 where it does not end. What has more than 64 bits is the largest."""
    cdef int shift = 0
    cdef uint64_t byte
    cdef bint large = False
    value[0] = 0
    while at < size and shift < 70:
        byte = data[at]
        at += 1
        if shift == 63 and byte & 0x7E:
            large = True
        value[0] |= (byte & 0x7F) << shift
        if byte < 0x80:
            if large:
                value[0] = UINT64_MAX
            return at
        shift += 7
    return -1


cdef bint is_message(const unsigned char* data, Py_ssize_t size) noexcept nogil:
    """Whether bytes read as fields to their end."""
    cdef Py_ssize_t at = 0
    cdef uint64_t key, value
    while at < size:
        at = read(data, at, size, &key)
        if at < 0 or not 0 < key >> 3 <= MAX_FIELD:
            return False
        if key & 7 == VARINT:
            at = read(data, at, size, &value)
        elif key & 7 == BYTES:
            at = read(data, at, size, &value)
            if at < 0 or value > <uint64_t>(size - at):
                return False
            at += <Py_ssize_t>value
        elif key & 7 == FIXED64:
            at += 8
        elif key & 7 == FIXED32:
            at += 4
        else:
            return False
        if at < 0 or at > size:
            return False
    return True


cdef bytes varint(uint64_t value):
    cdef unsigned char[10] out
    cdef int size = 0
    while value > 0x7F:
        out[size] = <unsigned char>(value & 0x7F | 0x80)
        value >>= 7
        size += 1
    out[size] = <unsigned char>value
    return out[:size + 1]
