# cython: language_level=3, boundscheck=False, wraparound=False
"""Copies what stays of a plane, serialized: events of a window, and the names that they need; `cut` says what stays.

What cannot be read raises `ValueError`.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

cdef extern from "_fields.h" nogil:
    enum:
        FIELD_BYTES
        FIELD_VARINT
    Py_ssize_t field_varint(const unsigned char *data, Py_ssize_t at, Py_ssize_t size, uint64_t *value)
    Py_ssize_t field_read(const unsigned char *data, Py_ssize_t at, Py_ssize_t size, uint64_t *key, uint64_t *value)
    int field_put_varint(unsigned char *found, uint64_t value)
    bint field_message(const unsigned char *data, Py_ssize_t size)

# Fields by their number and kind, in the order of `decode/xplane.proto`.
cdef enum:
    LINE_EVENTS = 4 << 3 | 2
    EVENT_NAME = 1 << 3
    EVENT_OFFSET = 2 << 3
    EVENT_LENGTH = 3 << 3
    EVENT_STATS = 4 << 3 | 2
    EVENT_COUNT = 5 << 3  # instead of an offset
    ENTRY_KEY = 1 << 3
    ENTRY_VALUE = 2 << 3 | 2
    CHILD = 6 << 3
    CHILDREN = 6 << 3 | 2

cdef struct Event:
    int64_t name, offset, length


def held_events(const unsigned char[::1] data not None, Py_ssize_t begin, Py_ssize_t end, double low, double high,
                double most):
    """A line with those of its events of which most lies between two times (ps from its own), and their names' ids.

    `most` is the share of the event, or of the time between where that is shorter. All else of the line stays.
    """
    cdef const unsigned char *base = _base(data, begin, end)
    cdef Py_ssize_t at = begin, start, kept = begin
    cdef uint64_t key, value
    cdef int64_t last = -1
    cdef Event event
    cdef bytearray line = bytearray()
    cdef set names = set()
    while at < end:
        start = at
        at = field_read(base, at, end, &key, &value)
        if at < 0:
            raise ValueError("a line is damaged")
        if key & 7 == FIELD_BYTES:
            at += <Py_ssize_t>value
        if key != LINE_EVENTS:
            continue
        if not read_event(base + at - <Py_ssize_t>value, <Py_ssize_t>value, &event):
            raise ValueError("an event is damaged")
        if holds(&event, low, high, most):
            if event.name != last or not names:
                last = event.name
                names.add(last)
        else:
            append(line, base + kept, start - kept)
            kept = at
    append(line, base + kept, end - kept)
    return line, names


def kept_entries(const unsigned char[::1] data not None, list spans, set names, int tag):
    """The entries of a plane's map of event metadata, as its fields, that have one of these ids or a child's of them."""
    cdef Py_ssize_t begin, end
    cdef bytearray found = bytearray()
    cdef unsigned char[16] head
    keys = []
    children = {}
    for begin, end in spans:
        keys.append(entry_key(_base(data, begin, end), begin, end, children))
    waiting = list(names) if children else []
    while waiting:
        others = [each for each in children.get(waiting.pop(), ()) if each not in names]
        names.update(others)
        waiting += others
    for (begin, end), own in zip(spans, keys):
        if own in names:
            head[0] = tag
            append(found, head, 1 + field_put_varint(head + 1, end - begin))
            append(found, _base(data, begin, end) + begin, end - begin)
    return found


cdef const unsigned char *_base(const unsigned char[::1] data, Py_ssize_t begin, Py_ssize_t end) except? NULL:
    if not 0 <= begin <= end <= data.shape[0]:
        raise ValueError("a range outside the data")
    return &data[0] if data.shape[0] else NULL


cdef bint holds(const Event *event, double low, double high, double most) noexcept nogil:
    """`Window.holds` of one event."""
    cdef int64_t length = max(event.length, 1)
    cdef double begin = event.offset, end = <int64_t>(<uint64_t>event.offset + <uint64_t>length)
    if not (begin < high and end > low):
        return False
    return min(end, high) - max(begin, low) >= most * min(<double>length, high - low)


cdef bint read_event(const unsigned char *data, Py_ssize_t size, Event *event) noexcept nogil:
    cdef Py_ssize_t at = 0
    cdef uint64_t key, value
    event.name, event.offset, event.length = 0, 0, 0
    while at < size:
        at = field_read(data, at, size, &key, &value)
        if at < 0:
            return False
        if key == EVENT_NAME:
            event.name = <int64_t>value
        elif key == EVENT_OFFSET:
            event.offset = <int64_t>value
        elif key == EVENT_LENGTH:
            event.length = <int64_t>value
        elif key == EVENT_COUNT:
            event.offset = 0
        elif key & 7 == FIELD_BYTES:
            if key == EVENT_STATS and not field_message(data + at, <Py_ssize_t>value):
                return False
            at += <Py_ssize_t>value
    return True


cdef object entry_key(const unsigned char *base, Py_ssize_t begin, Py_ssize_t end, dict children):
    """The key of an entry; ids of its children are added under it."""
    cdef Py_ssize_t at = begin, inside, until
    cdef uint64_t key, value, inner
    cdef int64_t own = 0
    below = []
    while at < end:
        at = field_read(base, at, end, &key, &value)
        if at < 0:
            raise ValueError("an entry is damaged")
        if key == ENTRY_KEY:
            own = <int64_t>value
        if key & 7 != FIELD_BYTES:
            continue
        inside, until = at, at + <Py_ssize_t>value
        at = until
        while key == ENTRY_VALUE and inside < until:
            inside = field_read(base, inside, until, &inner, &value)
            if inside < 0:
                raise ValueError("metadata is damaged")
            if inner == CHILD:
                below.append(<int64_t>value)
            if inner & 7 == FIELD_BYTES:
                if inner == CHILDREN:
                    add_packed(base + inside, <Py_ssize_t>value, below)
                inside += <Py_ssize_t>value
    if below:
        children.setdefault(own, []).extend(below)
    return own


cdef int add_packed(const unsigned char *data, Py_ssize_t size, list found) except -1:
    cdef Py_ssize_t at = 0
    cdef uint64_t value
    while at < size:
        at = field_varint(data, at, size, &value)
        if at < 0:
            raise ValueError("ids of children are damaged")
        found.append(<int64_t>value)
    return 0


cdef int append(bytearray found, const unsigned char *data, Py_ssize_t size) except -1:
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(found)
    if size:
        PyByteArray_Resize(found, before + size)
        memcpy(PyByteArray_AS_STRING(found) + before, data, size)
    return 0
