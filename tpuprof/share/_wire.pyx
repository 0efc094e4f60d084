# cython: language_level=3, boundscheck=False, wraparound=False
"""Walks serialized protobuf messages and redacts their texts; `redact_proto` says what is replaced where.

Kinds of known fields are numbers (`TEXT`, `NESTED`, `NUMBERS`) or the fields of a message as another dictionary.
"""

from libc.stdint cimport uint64_t

cdef extern from "_fields.h" nogil:
    enum:
        BYTES "FIELD_BYTES"
    Py_ssize_t field_read(const unsigned char *data, Py_ssize_t at, Py_ssize_t size, uint64_t *key, uint64_t *value)
    int field_put_varint(unsigned char *found, uint64_t value)
    bint is_message "field_message"(const unsigned char *data, Py_ssize_t size)

TEXT, NESTED, NUMBERS = 1, 2, 3

cdef enum:
    MAX_DEPTH = 100
    LEAST_TEXT = 4


cdef class Redaction:
    """One redaction of any number of messages: what redacts texts, what tells a nested program, the fields of programs.

    `texts` takes a list of bytes and returns a list, with None for each that stays.
    """

    cdef object texts, is_program
    cdef dict program
    cdef dict known  # what becomes of each text that was met: bytes, or None where it stays
    cdef dict again  # how often each that is replaced was met, without the first time
    cdef dict new  # texts of this message that were not met before, in order; None while texts are replaced

    def __init__(self, texts, is_program, dict program):
        self.texts, self.is_program, self.program = texts, is_program, program
        self.known, self.again = {}, {}

    def message(self, bytes data, dict known):
        """The message with its texts redacted, `data` itself where nothing is replaced."""
        cdef const unsigned char* begin = data
        # All new texts at once: what finds nothing in any of them need not be tried on each.
        self.new = {}
        self._message(begin, len(data), known, 0)
        new, self.new = list(self.new), None
        for value, changed in zip(new, self.texts(new)):
            self.known[value] = changed
            if changed is not None:
                self.again[value] = -1
        found = self._message(begin, len(data), known, 0)
        return data if found is None else found

    def met_again(self):
        """How often each text that is replaced was met since this was last called, beside the first time."""
        found, self.again = self.again, {}
        return found

    # Each of the following returns None where the bytes stay.

    cdef object _message(self, const unsigned char* data, Py_ssize_t size, dict known, int depth):
        cdef Py_ssize_t at = 0, start, copied = 0, length
        cdef uint64_t key, value
        cdef list out = None
        if depth > MAX_DEPTH or not is_message(data, size):
            return self._masked(data, size)
        while at < size:
            start = at
            at = field_read(data, at, size, &key, &value)
            if key & 7 == BYTES:
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
            # A program's first field is its module; asking for more makes objects of all of it.
            if has_first_field(data, size) and self.is_program(data[:size]):
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
        return None if size < 2 else self._text(data[:size])

    cdef object _masked(self, const unsigned char* data, Py_ssize_t size):
        """Opaque bytes in which runs that may be a text are overwritten where something in them is replaced."""
        cdef Py_ssize_t at = 0, start
        cdef bytearray out = None
        while at < size:
            start = at
            while at < size and may_be_text(data[at]):
                at += 1
            if at - start >= LEAST_TEXT and self._text(data[start:at]) is not None:
                if out is None:
                    out = bytearray(data[:size])
                out[start:at] = b"x" * (at - start)
            at += 1
        return None if out is None else bytes(out)

    cdef object _text(self, bytes value):
        if self.new is not None:
            if value not in self.known:
                self.new[value] = None
            return None
        changed = self.known[value]
        if changed is not None:
            self.again[value] = self.again.get(value, 0) + 1
        return changed


cdef inline bint may_be_text(unsigned char byte) noexcept nogil:
    return byte != 0x7F and (byte >= 0x20 or byte == 0x09 or byte == 0x0A or byte == 0x0D)


cdef bint has_first_field(const unsigned char* data, Py_ssize_t size) noexcept nogil:
    """Whether a message has bytes as its field 1."""
    cdef Py_ssize_t at = 0
    cdef uint64_t key, value
    if not is_message(data, size):
        return False
    while at < size:
        at = field_read(data, at, size, &key, &value)
        if key == (1 << 3 | BYTES):
            return True
        if key & 7 == BYTES:
            at += <Py_ssize_t>value
    return False


cdef bytes varint(uint64_t value):
    cdef unsigned char[10] out
    return out[:field_put_varint(out, value)]
