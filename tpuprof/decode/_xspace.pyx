# cython: language_level=3, boundscheck=False, wraparound=False
"""Hands the walks of `_xspace.h` to Python: bytes in, columns out, without the GIL while walking.

Columns are buffers of numbers that `memoryview` and numpy read in place; numpy itself is not needed here, so that a
file can be walked while it is imported. Ranges are `start`, `end` in bytes of `data`; every range is checked before
it is walked. Damaged bytes raise `DamagedError(position, ended)`: about where, and whether the range ended too early.
"""

from array import array

from cython cimport view
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memcmp, memset

cdef extern from "_xspace.h" nogil:
    enum:
        XS_ENDED
        XS_SEEN
        XS_VARINT
        XS_BYTES
    ctypedef struct xs_cursor:
        const uint8_t *at
        const uint8_t *end
        int depth
    ctypedef struct xs_text:
        const uint8_t *start
        const uint8_t *end
    ctypedef struct xs_sums:
        int64_t key
        int64_t *total
        uint8_t *negative
        int64_t room
        int64_t having
    ctypedef struct xs_line:
        int64_t id
        int64_t timestamp_ns
        xs_text name
        xs_text display_name
        int64_t events
    ctypedef struct xs_entry:
        int64_t key
        bint is_known
        xs_text name
        xs_text display_name
    ctypedef struct xs_sink:
        int64_t *row
        int64_t *key
        uint8_t *kind
        uint64_t *bits
        int64_t *length
        int64_t room
        int64_t count
        const uint8_t *base
    int xs_list_fields(xs_cursor *c, const uint8_t *base, int64_t *rows, int64_t room, int64_t *count)
    int xs_read_line(xs_cursor *c, xs_line *line, int64_t stride, const uint8_t **marks, int64_t room)
    int xs_read_events(xs_cursor *c, int64_t count, int64_t *metadata_id, int64_t *offset, int64_t *duration,
                       int64_t *seen, xs_sums *sums)
    void xs_want(xs_sink *sink, const int64_t *keys, int64_t count)
    int xs_stat_alone(xs_cursor *c, int64_t row, xs_sink *sink)
    int xs_stats_of_line(xs_cursor *c, xs_sink *sink)
    int xs_stats_of_entry(xs_cursor *c, int64_t row, xs_sink *sink)
    int xs_read_entry(xs_cursor *c, int is_event, xs_entry *entry)

ctypedef const uint8_t[::1] Bytes

# How many messages surround the one that is walked: protobuf limits nesting counted from the space.
cdef enum:
    IN_SPACE = 1
    IN_PLANE = 2

# Numbers of one entry in what `entries` gives.
cdef enum:
    ENTRY = 8

INTERFACE = 6
"""Changes with the functions' arguments, so that a build left over from an older tpuprof is known as such."""

ENTRY_NUMBERS = ENTRY
"""How many numbers `entries` gives of each entry."""

SEEN_KEYS = XS_SEEN
"""Length of the table that `events` counts stats in, by the low bits of their keys."""


class DamagedError(Exception):
    """The bytes are no message: `args` are the position and whether the range ended too early."""


cdef int _open(Bytes data, Py_ssize_t start, Py_ssize_t end, int depth, xs_cursor *cursor) except -1:
    if not 0 <= start <= end <= data.shape[0]:
        raise ValueError("a range outside the data")
    cursor.at = _base(data) + start
    cursor.end = _base(data) + end
    cursor.depth = depth
    return 0


cdef uint8_t _NOTHING = 0


cdef inline const uint8_t *_base(Bytes data) noexcept nogil:
    if data.shape[0]:
        return &data[0]
    return &_NOTHING


cdef int _check(int wrong, Bytes data, const xs_cursor *cursor) except -1:
    if wrong:
        raise DamagedError(cursor.at - _base(data), wrong == XS_ENDED)
    return 0


cdef tuple _span(const xs_text *text, const uint8_t *base):
    if text.start == NULL:
        return 0, 0
    return text.start - base, text.end - base


def column(Py_ssize_t count):
    """Room for `count` integers of 64 bits, not cleared."""
    return _room(count, sizeof(int64_t), "q")


cdef _room(Py_ssize_t count, Py_ssize_t size, str kind):
    # Cython's own arrays are never empty.
    return memoryview(view.array((count,), size, kind) if count else array(kind))


def fields(Bytes data, Py_ssize_t start, Py_ssize_t end, int depth):
    """The fields of the message in a range: by their numbers, the spans of those that hold bytes, and varints."""
    cdef xs_cursor cursor = xs_cursor(NULL, NULL, 0)
    cdef int64_t count = 0, room = 0
    cdef int wrong
    cdef int64_t *rows = NULL
    try:
        while True:
            _open(data, start, end, depth, &cursor)
            with nogil:
                wrong = xs_list_fields(&cursor, _base(data), rows, room, &count)
            _check(wrong, data, &cursor)
            if count <= room:
                return _by_number(rows, count)
            rows, room = <int64_t *>malloc(count * 4 * sizeof(int64_t)), count
            if rows == NULL:
                raise MemoryError
    finally:
        free(rows)


cdef tuple _by_number(const int64_t *rows, int64_t count):
    cdef int64_t at
    cdef const int64_t *row
    spans, numbers = {}, {}
    for at in range(count):
        row = rows + 4 * at
        if row[1] == XS_BYTES:
            spans.setdefault(row[0], []).append((row[2], row[3]))
        elif row[1] == XS_VARINT:
            numbers.setdefault(row[0], []).append(row[2])
    return spans, numbers


def line(Bytes data, Py_ssize_t start, Py_ssize_t end, int64_t stride):
    """A line's (id, timestamp, span of name, span of display name, number of events, marks).

    `marks` lists the position of every `stride`-th event.
    """
    cdef xs_cursor cursor = xs_cursor(NULL, NULL, 0)
    cdef xs_line found
    cdef int wrong
    cdef const uint8_t **marks
    if stride < 1:
        raise ValueError("a stride below one event")
    # An event takes two bytes at least; one mark more keeps the array from being empty.
    cdef int64_t at, room = (end - start) // 2 // stride + 1
    _open(data, start, end, IN_PLANE, &cursor)
    marks = <const uint8_t **>malloc(room * sizeof(uint8_t *))
    if marks == NULL:
        raise MemoryError
    try:
        with nogil:
            wrong = xs_read_line(&cursor, &found, stride, marks, room)
        _check(wrong, data, &cursor)
        positions = [marks[at] - _base(data) for at in range(-(-found.events // stride))]
    finally:
        free(marks)
    return (
        found.id,
        found.timestamp_ns,
        _span(&found.name, _base(data)),
        _span(&found.display_name, _base(data)),
        found.events,
        positions,
    )


def events(Bytes data, Py_ssize_t start, Py_ssize_t end, int64_t[::1] metadata_id, int64_t[::1] offset,
           int64_t[::1] duration, int64_t[::1] seen, int64_t key, int64_t[::1] total, uint8_t[::1] negative):
    """Fills the columns with the events from `start` on; counts their stats in `seen` by the low bits of their keys.

    Adds the stat `key` to `total` by metadata id, the last place for ids that have none, and sets `negative` where
    a value was below zero; both may be empty. Returns how many events have that stat.
    """
    cdef xs_cursor cursor = xs_cursor(NULL, NULL, 0)
    cdef xs_sums sums = xs_sums(key, NULL, NULL, total.shape[0] - 1, 0)
    cdef int wrong
    cdef int64_t count = metadata_id.shape[0]
    if offset.shape[0] != count or duration.shape[0] != count or seen.shape[0] != XS_SEEN:
        raise ValueError("columns of unequal length")
    if total.shape[0] != negative.shape[0]:
        raise ValueError("sums of unequal length")
    if not count:
        return 0
    if total.shape[0]:
        sums.total, sums.negative = &total[0], &negative[0]
    _open(data, start, end, IN_PLANE, &cursor)
    with nogil:
        wrong = xs_read_events(&cursor, count, &metadata_id[0], &offset[0], &duration[0], &seen[0],
                               &sums if sums.total != NULL else NULL)
    _check(wrong, data, &cursor)
    return sums.having


cdef class _Stats:
    """Columns of stats, filled on one walk where their number is known before, else counted on a first."""

    cdef xs_sink sink
    cdef readonly object columns

    def __cinit__(self):
        memset(&self.sink, 0, sizeof(self.sink))

    cdef int make_room(self, int64_t count) except -1:
        cdef int64_t[::1] row, key, length
        cdef uint64_t[::1] bits
        cdef uint8_t[::1] kind
        self.columns = (
            column(count),
            column(count),
            _room(count, sizeof(uint8_t), "B"),
            _room(count, sizeof(uint64_t), "Q"),
            column(count),
        )
        self.sink.count = 0
        if not count:
            return 0
        row, key, kind, bits, length = self.columns
        self.sink.row, self.sink.key, self.sink.kind = &row[0], &key[0], &kind[0]
        self.sink.bits, self.sink.length = &bits[0], &length[0]
        self.sink.room = count
        return 1

    cdef tuple found(self):
        """The columns, as far as they were filled."""
        return tuple([each[:self.sink.count] for each in self.columns])


def line_stats(Bytes data, Py_ssize_t start, Py_ssize_t end, const int64_t[::1] keys, int64_t most):
    """Columns (row, key, kind, bits, length) of the stats of a line's events that have one of the keys.

    There are at most `most` of them. Bits of text are its position in `data`.
    """
    cdef xs_cursor cursor = xs_cursor(NULL, NULL, 0)
    cdef int wrong
    cdef _Stats stats = _Stats()
    stats.sink.base = _base(data)
    cdef int64_t nothing = 0
    xs_want(&stats.sink, &keys[0] if keys.shape[0] else &nothing, keys.shape[0])
    stats.make_room(most)
    _open(data, start, end, IN_PLANE, &cursor)
    with nogil:
        wrong = xs_stats_of_line(&cursor, &stats.sink)
    _check(wrong, data, &cursor)
    if stats.sink.count > most:
        raise ValueError("more stats than there can be")
    return stats.found()


def entry_stats(Bytes data, const int64_t[::1] start, const int64_t[::1] end):
    """Columns, as of `line_stats`, of all stats of entries of event_metadata; rows count the entries."""
    return _stats_of(data, start, end, True)


def own_stats(Bytes data, const int64_t[::1] start, const int64_t[::1] end):
    """Columns, as of `line_stats`, of the stats in these ranges; all belong to row 0."""
    return _stats_of(data, start, end, False)


cdef _stats_of(Bytes data, const int64_t[::1] start, const int64_t[::1] end, bint of_entries):
    cdef xs_cursor cursor = xs_cursor(NULL, NULL, 0)
    cdef int wrong
    cdef Py_ssize_t at, count = _count(start, end)
    cdef _Stats stats = _Stats()
    stats.sink.base = _base(data)
    for _ in range(2):
        for at in range(count):
            _open(data, start[at], end[at], IN_PLANE, &cursor)
            if of_entries:
                wrong = xs_stats_of_entry(&cursor, at, &stats.sink)
            else:
                wrong = xs_stat_alone(&cursor, 0, &stats.sink)
            _check(wrong, data, &cursor)
        if stats.columns is not None or not stats.make_room(stats.sink.count):
            break
    return stats.columns


cdef Py_ssize_t _count(const int64_t[::1] start, const int64_t[::1] end) except -1:
    if start.shape[0] != end.shape[0]:
        raise ValueError("columns of unequal length")
    return start.shape[0]


def texts(Bytes data, const int64_t[::1] start, const int64_t[::1] end):
    """The texts in these ranges; what is no UTF-8 is replaced. A range that ends before it starts is empty."""
    cdef Py_ssize_t at, first, last, count = _count(start, end)
    found = [""] * count
    for at in range(count):
        first, last = start[at], end[at]
        if last <= first:
            continue
        if first < 0 or last > data.shape[0]:
            raise ValueError("a range outside the data")
        found[at] = PyUnicode_DecodeUTF8(<const char *>_base(data) + first, last - first, "replace")
    return found


def same(Bytes data, const int64_t[::1] start, const int64_t[::1] end, const int64_t[::1] other_start,
         const int64_t[::1] other_end):
    """Whether ranges hold the same bytes, each as the other in its place."""
    cdef Py_ssize_t at, length, size = data.shape[0], count = _count(start, end)
    cdef const uint8_t *base = _base(data)
    if count != _count(other_start, other_end):
        return False
    for at in range(count):
        length = end[at] - start[at]
        if length != other_end[at] - other_start[at]:
            return False
        if length < 0 or min(start[at], other_start[at]) < 0 or max(end[at], other_end[at]) > size:
            raise ValueError("a range outside the data")
        if memcmp(base + start[at], base + other_start[at], length):
            return False
    return True


def entries(Bytes data, list spans, bint of_events):
    """Entries of a plane's map of event (or stat) metadata, eight numbers each.

    Key, spans of name and display name, whether the entry counts, and its own span.
    """
    cdef xs_cursor cursor = xs_cursor(NULL, NULL, 0)
    cdef xs_entry entry
    cdef Py_ssize_t at = 0, start, end
    table = column(ENTRY * len(spans))
    cdef int64_t[::1] rows = table
    for start, end in spans:
        _open(data, start, end, IN_PLANE, &cursor)
        _check(xs_read_entry(&cursor, of_events, &entry), data, &cursor)
        rows[at] = entry.key
        rows[at + 1], rows[at + 2] = _span(&entry.name, _base(data))
        rows[at + 3], rows[at + 4] = _span(&entry.display_name, _base(data))
        rows[at + 5] = entry.is_known
        rows[at + 6], rows[at + 7] = start, end
        at += ENTRY
    return table


def key_range(const int64_t[::1] table):
    """Of what `entries` gave: how many count, and the lowest and highest key of those."""
    cdef Py_ssize_t at
    cdef int64_t count = 0, low = INT64_MAX, high = INT64_MIN
    if table.shape[0] % ENTRY:
        raise ValueError("a table of other than entries")
    for at in range(0, table.shape[0], ENTRY):
        if table[at + 5]:
            count += 1
            low, high = min(low, table[at]), max(high, table[at])
    return count, low, high
