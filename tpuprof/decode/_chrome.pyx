# cython: language_level=3, boundscheck=False, wraparound=False
# Past 400 lines: one walk without the GIL, whose C functions are inlined where they stand in one module.
"""Walks the text of a Chrome-JSON trace into columns, without the GIL and without an object per event.

Texts that occur again are kept once: columns hold their codes. Of arguments only the place is kept, and what keys they
have; they are read when asked for. Whatever is not as profilers write it raises `UnusualError`: the file is then read
by the JSON library, which also says what is wrong with damaged ones.
"""

from cython cimport view
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc, strtod
from libc.string cimport memchr, memcmp, memcpy, memset

ctypedef const uint8_t[::1] Bytes
ctypedef const uint8_t *At

# Different processes, and keys of arguments, from which a file is not one of a profiler.
cdef enum:
    MOST_PIDS = 4096
    MOST_KEYS = 512
    # Keys of one event's arguments that are remembered until its process is known.
    MOST_ARGUMENTS = 128
    # Digits that a double holds exactly, so that a division by a power of ten gives what the decimal means.
    EXACT_DIGITS = 15
    NUMBER_BYTES = 64

cdef double[16] TENS = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15]


class UnusualError(Exception):
    """The text is not JSON, or none as profilers write it."""


cdef inline At _skip(At at, At end) noexcept nogil:
    while at < end and (at[0] == 32 or 9 <= at[0] <= 13):
        at += 1
    return at


cdef inline At _string_end(At at, At end) noexcept nogil:
    """The closing quote of the string that begins at `at`, behind its opening one; NULL where there is none."""
    cdef At quote = at, back
    while True:
        quote = <At>memchr(quote, 34, end - quote)
        if quote == NULL:
            return NULL
        back = quote
        while back > at and back[-1] == 92:
            back -= 1
        if (quote - back) % 2 == 0:
            return quote
        quote += 1


cdef At _value_end(At at, At end) noexcept nogil:
    """Behind the value that begins at `at`; NULL where it is none."""
    cdef At begin = at
    cdef int64_t depth = 0
    if at >= end:
        return NULL
    if at[0] == 34:
        at = _string_end(at + 1, end)
        return at + 1 if at != NULL else NULL
    if at[0] != 123 and at[0] != 91:
        while at < end and at[0] not in (44, 93, 125, 32, 9, 10, 13):
            at += 1
        return at if at > begin and (begin[0] == 45 or 48 <= begin[0] <= 57 or begin[0] in (102, 110, 116)) else NULL
    while at < end:
        if at[0] == 34:
            at = _string_end(at + 1, end)
            if at == NULL:
                return NULL
        elif at[0] == 123 or at[0] == 91:
            depth += 1
        elif at[0] == 125 or at[0] == 93:
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return NULL


cdef bint _number(At at, At end, double *value) noexcept nogil:
    """Whether the text is a JSON number; its value."""
    cdef char[NUMBER_BYTES] text
    cdef char *stop
    cdef At each = at
    cdef int64_t digits = 0, behind = 0
    cdef double mantissa = 0
    cdef bint negative = False, point = False
    if each < end and each[0] == 45:
        negative = True
        each += 1
    if each >= end or not 48 <= each[0] <= 57:
        return False
    while each < end:
        if 48 <= each[0] <= 57:
            mantissa = mantissa * 10 + (each[0] - 48)
            digits += 1
            behind += point
        elif each[0] == 46 and not point:
            point = True
        else:
            break
        each += 1
    if each == end and digits <= EXACT_DIGITS:
        value[0] = mantissa / TENS[behind]
        if negative:
            value[0] = -value[0]
        return True
    if end - at >= NUMBER_BYTES:
        return False
    memcpy(text, at, end - at)
    text[end - at] = 0
    value[0] = strtod(text, &stop)
    return stop == text + (end - at)


cdef int _time(At at, At end, double *value) noexcept nogil:
    """Reads a decimal number, in quotes or not, as some tools write times: 1, 0 where text in quotes is none, else -1."""
    cdef At each = at + 1
    if at[0] != 34:
        return 1 if _number(at, end, value) else -1
    while each < end - 1:
        if each[0] == 92:  # what an escape stands for is the JSON library's to say
            return -1
        if not (48 <= each[0] <= 57 or each[0] in (43, 45, 46, 69, 101)):
            return 0
        each += 1
    return _number(at + 1, end - 1, value)


cdef bint _whole(At at, At end, int64_t *value) noexcept nogil:
    """Whether the text, in quotes or not, is a whole number of 64 bits, as profilers write numbers; its value."""
    cdef uint64_t found = 0
    cdef bint negative = False
    if end - at > 2 and at[0] == 34:
        at += 1
        end -= 1
    if end - at > 19:
        return False
    if at < end and at[0] == 45:
        negative = True
        at += 1
    if at >= end:
        return False
    while at < end:
        if not 48 <= at[0] <= 57:
            return False
        found = found * 10 + (at[0] - 48)
        at += 1
    if found > <uint64_t>0x7FFFFFFFFFFFFFFF:
        return False
    value[0] = -<int64_t>found if negative else <int64_t>found
    return True


cdef class _Texts:
    """Different texts, each with a number from 0 on: a hash table over places in the data."""

    cdef At base
    cdef int64_t *begin
    cdef int64_t *length
    cdef uint64_t *hash
    cdef int32_t *slot
    cdef int64_t count, room, slots
    cdef uint64_t seed

    def __cinit__(self, uint64_t seed):
        self.seed = seed | 1

    def __dealloc__(self):
        free(self.begin)
        free(self.length)
        free(self.hash)
        free(self.slot)

    cdef int64_t code(self, At at, int64_t length) noexcept nogil:
        """The number of a text; -1 without memory."""
        cdef uint64_t value = self.seed ^ <uint64_t>length, word
        cdef int64_t left = length, place
        cdef At each = at
        while left >= 8:
            memcpy(&word, each, 8)
            value = (value ^ word) * <uint64_t>0x9E3779B97F4A7C15
            value ^= value >> 29
            each += 8
            left -= 8
        word = 0
        memcpy(&word, each, left)
        value = (value ^ word) * <uint64_t>0x9E3779B97F4A7C15
        value ^= value >> 32
        if 2 * self.count >= self.slots and not self.grow():
            return -1
        place = value & (self.slots - 1)
        while self.slot[place] >= 0:
            word = self.slot[place]
            if (
                self.hash[word] == value
                and self.length[word] == length
                and memcmp(self.base + self.begin[word], at, length) == 0
            ):
                return word
            place = (place + 1) & (self.slots - 1)
        self.slot[place] = self.count
        self.begin[self.count], self.length[self.count], self.hash[self.count] = at - self.base, length, value
        self.count += 1
        return self.count - 1

    cdef bint grow(self) noexcept nogil:
        cdef int64_t slots = 2 * self.slots if self.slots else 1024, each, place
        if slots > 1 << 30:
            return False
        cdef int64_t *begin = <int64_t *>realloc(self.begin, slots // 2 * sizeof(int64_t))
        if begin != NULL:
            self.begin = begin
        cdef int64_t *length = <int64_t *>realloc(self.length, slots // 2 * sizeof(int64_t))
        if length != NULL:
            self.length = length
        cdef uint64_t *hashes = <uint64_t *>realloc(self.hash, slots // 2 * sizeof(uint64_t))
        if hashes != NULL:
            self.hash = hashes
        cdef int32_t *slot = <int32_t *>malloc(slots * sizeof(int32_t))
        if begin == NULL or length == NULL or hashes == NULL or slot == NULL:
            free(slot)
            return False
        memset(slot, 255, slots * sizeof(int32_t))
        for each in range(self.count):
            place = self.hash[each] & (slots - 1)
            while slot[place] >= 0:
                place = (place + 1) & (slots - 1)
            slot[place] = each
        free(self.slot)
        self.slot, self.slots = slot, slots
        return True

    cdef list places(self):
        return [(self.begin[each], self.begin[each] + self.length[each]) for each in range(self.count)]


cdef struct Event:
    int64_t pid, tid, name, long_name, args_begin, args_end
    double ts, dur


cdef class Walk:
    """A walk over the events of the array that begins behind `at`; `go` takes it further."""

    cdef readonly int64_t at
    cdef object data
    cdef At base, end
    cdef Event *rows
    cdef int64_t count, room
    cdef _Texts pids, tids, keys, texts
    cdef uint8_t *has
    # The keys of the arguments before, of those just walked, and where those have their long name.
    cdef int32_t[MOST_ARGUMENTS] guess
    cdef int32_t[MOST_ARGUMENTS] noted
    cdef int64_t many
    cdef At long_name
    cdef At long_end
    cdef object metas

    def __cinit__(self, Bytes data, int64_t at, uint64_t seed):
        if not data.shape[0] or not 0 <= at <= data.shape[0]:
            raise ValueError("a place outside the data")
        self.data, self.at, self.metas = data, at, []
        self.base, self.end = &data[0], &data[0] + data.shape[0]
        self.pids, self.tids, self.keys, self.texts = (_Texts(seed), _Texts(seed), _Texts(seed), _Texts(seed))
        self.pids.base = self.tids.base = self.keys.base = self.texts.base = self.base
        self.has = <uint8_t *>malloc(MOST_PIDS * MOST_KEYS)
        if self.has == NULL:
            raise MemoryError
        memset(self.has, 0, MOST_PIDS * MOST_KEYS)
        memset(self.guess, 255, sizeof(self.guess))

    def __dealloc__(self):
        free(self.rows)
        free(self.has)

    def go(self, int64_t most):
        """Walk about `most` bytes further; whether there is more. Raises `UnusualError`."""
        cdef At at = self.base + self.at, begin, until
        cdef int kind
        until = self.base + min(self.at + most, self.end - self.base)
        while at < until:
            with nogil:
                kind = 0
                while kind == 0 and at < until:
                    at = _skip(at, self.end)
                    begin = at
                    if at < self.end and at[0] == 44:
                        at += 1
                    elif at < self.end and at[0] == 93:
                        kind = 3
                    elif at < self.end and at[0] == 123:
                        kind = self.event(&at)
                    else:
                        at = _value_end(at, self.end)
                        kind = -1 if at == NULL else 0
            if kind < 0:
                raise UnusualError
            if kind == 2:
                self.metas.append((begin - self.base, at - self.base))
            if kind == 3:
                self.at = at - self.base + 1
                return False
        self.at = at - self.base
        if at >= self.end:
            raise UnusualError
        return True

    cdef int event(self, At *place) noexcept nogil:
        """Read the event at `place`, and move behind it: 0, 2 where it names a process or thread, -1 if unusual."""
        cdef At at = place[0] + 1, key, stop, value
        cdef At ph = NULL, ph_end = NULL, pid = NULL, pid_end = NULL, tid = NULL, tid_end = NULL
        cdef At ts = NULL, ts_end = NULL, dur = NULL, dur_end = NULL, name = NULL, name_end = NULL
        cdef At args = NULL, args_end = NULL
        cdef int64_t length
        self.many, self.long_name = 0, NULL
        while True:
            at = _skip(at, self.end)
            if at < self.end and at[0] == 125:
                at += 1
                break
            if at >= self.end or at[0] != 34:
                return -1
            key = at + 1
            stop = _string_end(key, self.end)
            if stop == NULL or memchr(key, 92, stop - key) != NULL:
                return -1
            length = stop - key
            at = _skip(stop + 1, self.end)
            if at >= self.end or at[0] != 58:
                return -1
            value = _skip(at + 1, self.end)
            if length == 4 and memcmp(key, b"args", 4) == 0 and value < self.end and value[0] == 123:
                at = self.arguments(value)
            else:
                at = _value_end(value, self.end)
            if at == NULL:
                return -1
            if length == 2 and key[0] == 112 and key[1] == 104:
                ph, ph_end = value, at
            elif length == 2 and key[0] == 116 and key[1] == 115:
                ts, ts_end = value, at
            elif length == 3 and memcmp(key, b"pid", 3) == 0:
                pid, pid_end = value, at
            elif length == 3 and memcmp(key, b"tid", 3) == 0:
                tid, tid_end = value, at
            elif length == 3 and memcmp(key, b"dur", 3) == 0:
                dur, dur_end = value, at
            elif length == 4 and memcmp(key, b"name", 4) == 0:
                name, name_end = value, at
            elif length == 4 and memcmp(key, b"args", 4) == 0:
                args, args_end = value, at
            at = _skip(at, self.end)
            if at < self.end and at[0] == 44:
                at += 1
            elif at >= self.end or at[0] != 125:
                return -1
        place[0] = at
        if ph == NULL or ph_end - ph != 3 or ph[0] != 34:
            return 0
        if ph[1] == 77:
            return 2
        if ph[1] != 88 or ts == NULL or pid == NULL:
            return 0
        return self.span(ts, ts_end, dur, dur_end, pid, pid_end, tid, tid_end, name, name_end, args, args_end)

    cdef int span(self, At ts, At ts_end, At dur, At dur_end, At pid, At pid_end, At tid, At tid_end, At name,
                  At name_end, At args, At args_end) noexcept nogil:
        """Add a row: 0, or -1 where it is unusual. What has no usable time or process is left out."""
        cdef Event row
        cdef Event *more
        cdef int64_t nth
        cdef int known
        row.dur = 0.0
        row.tid = row.name = row.long_name = -1
        row.args_begin = row.args_end = 0
        if ts[0] in (91, 123, 110) or pid[0] in (91, 123, 110):
            return 0
        if dur != NULL and dur[0] in (91, 123, 110):
            return 0
        known = _time(ts, ts_end, &row.ts)
        if known == 1 and dur != NULL:
            known = _time(dur, dur_end, &row.dur)
        if known != 1:
            return known
        if not self.is_name(pid, pid_end) or (tid != NULL and tid[0] != 110 and not self.is_name(tid, tid_end)):
            return -1
        row.pid = self.pids.code(pid, pid_end - pid)
        if row.pid < 0 or row.pid >= MOST_PIDS:
            return -1
        if tid != NULL and tid[0] != 110:
            row.tid = self.tids.code(tid, tid_end - tid)
            if row.tid < 0:
                return -1
        if name != NULL:
            if name[0] != 34:
                return -1
            row.name = self.texts.code(name, name_end - name)
            if row.name < 0:
                return -1
        if args != NULL and args[0] == 123:
            row.args_begin, row.args_end = args - self.base, args_end - self.base
            for nth in range(self.many):
                self.has[row.pid * MOST_KEYS + self.noted[nth]] = 1
            if self.long_name != NULL:
                row.long_name = self.texts.code(self.long_name, self.long_end - self.long_name)
                if row.long_name < 0:
                    return -1
        if self.count == self.room:
            self.room = 2 * self.room if self.room else 65536
            more = <Event *>realloc(self.rows, self.room * sizeof(Event))
            if more == NULL:
                return -1
            self.rows = more
        self.rows[self.count] = row
        self.count += 1
        return 0

    cdef bint is_name(self, At at, At end) noexcept nogil:
        """Whether a process or thread goes by this: a string or a whole number."""
        if at[0] == 34:
            return True
        if at[0] == 45:
            at += 1
        if at >= end or (at[0] == 48 and end - at > 1):
            return False
        while at < end:
            if not 48 <= at[0] <= 57:
                return False
            at += 1
        return True

    cdef At arguments(self, At begin) noexcept nogil:
        """Behind the arguments that begin here; notes their keys and their long name. NULL where they are unusual."""
        cdef At at = begin + 1, end = self.end, key, stop, value
        cdef int64_t code
        self.many, self.long_name = 0, NULL
        while True:
            at = _skip(at, end)
            if at < end and at[0] == 125:
                return at + 1
            if at >= end or at[0] != 34 or self.many == MOST_ARGUMENTS:
                return NULL
            key = at + 1
            # Events of one kind have the same keys in the same order.
            code = self.guess[self.many]
            if (
                code >= 0
                and end - key > self.keys.length[code]
                and key[self.keys.length[code]] == 34
                and memcmp(self.base + self.keys.begin[code], key, self.keys.length[code]) == 0
            ):
                stop = key + self.keys.length[code]
            else:
                stop = _string_end(key, end)
                if stop == NULL or memchr(key, 92, stop - key) != NULL:
                    return NULL
                code = self.keys.code(key, stop - key)
                if code < 0 or code >= MOST_KEYS:
                    return NULL
                self.guess[self.many] = code
            self.noted[self.many] = code
            self.many += 1
            at = _skip(stop + 1, end)
            if at >= end or at[0] != 58:
                return NULL
            value = _skip(at + 1, end)
            at = _value_end(value, end)
            if at == NULL:
                return NULL
            if stop - key == 9 and memcmp(key, b"long_name", 9) == 0:
                if value[0] != 34:
                    return NULL
                self.long_name, self.long_end = value, at
            at = _skip(at, end)
            if at < end and at[0] == 44:
                at += 1
            elif at >= end or at[0] != 125:
                return NULL

    def columns(self):
        """Of each event: process, thread, name, long name (as codes, -1 for none), time, duration, its arguments."""
        cdef int64_t each
        if not self.count:
            return None
        whole = [view.array((self.count,), sizeof(int64_t), "q") for _ in range(6)]
        real = [view.array((self.count,), sizeof(double), "d") for _ in range(2)]
        cdef int64_t[::1] pid, tid, name, long_name, begin, end
        cdef double[::1] ts, dur
        pid, tid, name, long_name, begin, end = whole
        ts, dur = real
        with nogil:
            for each in range(self.count):
                pid[each], tid[each] = self.rows[each].pid, self.rows[each].tid
                name[each], long_name[each] = self.rows[each].name, self.rows[each].long_name
                begin[each], end[each] = self.rows[each].args_begin, self.rows[each].args_end
                ts[each], dur[each] = self.rows[each].ts, self.rows[each].dur
        free(self.rows)
        self.rows, self.count, self.room = NULL, 0, 0
        return (*whole[:4], *real, *whole[4:])

    @property
    def names(self):
        """Places of the texts behind the codes of processes, threads, and names."""
        return self.pids.places(), self.tids.places(), self.texts.places()

    @property
    def metadata(self):
        """Places of the events that name processes and threads."""
        return list(self.metas)

    def keys_of(self, int64_t pid):
        """Places of the keys that arguments of a process have."""
        places = self.keys.places()
        return [place for code, place in enumerate(places) if self.has[pid * MOST_KEYS + code]]


def arguments(Bytes data, const int64_t[::1] begin, const int64_t[::1] end, list wanted, uint64_t seed):
    """The arguments of that many events that have a wanted key: a table, how much of it is filled, places of texts.

    A row of the table is the event, which key, the code of the text or -1, and else the value, a whole number. `begin`
    and `end` are where each event's arguments lie, 0 where it has none. Raises `UnusualError`.
    """
    cdef int64_t row, each, count = begin.shape[0], many = len(wanted), code, whole
    cdef At base = &data[0], at, stop, key, key_end, value
    cdef _Texts values = _Texts(seed)
    cdef bint wrong = False
    cdef bytes name
    values.base = base
    cdef const char *texts[64]
    cdef int64_t[64] lengths
    if many > 64 or end.shape[0] != count:
        raise ValueError("too many keys, or columns of unequal length")
    for each in range(many):
        name = wanted[each]
        texts[each], lengths[each] = name, len(name)
    cdef int64_t *out = NULL
    cdef int64_t *more
    cdef int64_t filled = 0, room = 0
    try:
        with nogil:
            for row in range(count):
                if end[row] <= begin[row]:
                    continue
                at, stop = base + begin[row] + 1, base + end[row]
                while not wrong:
                    at = _skip(at, stop)
                    if at >= stop or at[0] != 34:
                        break
                    key = at + 1
                    key_end = _string_end(key, stop)
                    if key_end == NULL:
                        wrong = True
                        break
                    at = _skip(key_end + 1, stop)
                    value = _skip(at + 1, stop)
                    at = _value_end(value, stop)
                    if at == NULL:
                        wrong = True
                        break
                    for each in range(many):
                        if lengths[each] == key_end - key and memcmp(texts[each], key, key_end - key) == 0:
                            code = whole = -1
                            if not _whole(value, at, &whole):
                                code = values.code(value, at - value)
                                wrong = code < 0
                            if filled == room:
                                room = 2 * room if room else 4096
                                more = <int64_t *>realloc(out, 4 * room * sizeof(int64_t))
                                if more == NULL:
                                    wrong = True
                                    break
                                out = more
                            out[4 * filled], out[4 * filled + 1] = row, each
                            out[4 * filled + 2], out[4 * filled + 3] = code, whole
                            filled += 1
                            break
                    at = _skip(at, stop)
                    if at < stop and at[0] == 44:
                        at += 1
                if wrong:
                    break
        if wrong:
            raise UnusualError
        table = view.array((filled if filled else 1, 4), sizeof(int64_t), "q")
        _copy(table, out, 4 * filled)
        return table, filled, values.places()
    finally:
        free(out)


cdef int _copy(int64_t[:, ::1] table, const int64_t *out, int64_t count) except -1:
    if count:
        memcpy(&table[0, 0], out, count * sizeof(int64_t))
    return 0


def array_of_events(Bytes data):
    """Behind the bracket that opens the array of events, and whether an object is around it. Raises `UnusualError`."""
    cdef At base, end, at, key, stop
    if not data.shape[0]:
        raise UnusualError
    base, end = &data[0], &data[0] + data.shape[0]
    at = _skip(base, end)
    if at < end and at[0] == 91:
        return at + 1 - base, False
    if at >= end or at[0] != 123:
        raise UnusualError
    at += 1
    while True:
        at = _skip(at, end)
        if at >= end or at[0] != 34:
            raise UnusualError
        key = at + 1
        stop = _string_end(key, end)
        if stop == NULL or memchr(key, 92, stop - key) != NULL:
            raise UnusualError
        at = _skip(stop + 1, end)
        if at >= end or at[0] != 58:
            raise UnusualError
        at = _skip(at + 1, end)
        if stop - key == 11 and memcmp(key, b"traceEvents", 11) == 0:
            if at >= end or at[0] != 91:
                raise UnusualError
            return at + 1 - base, True
        at = _value_end(at, end)
        if at == NULL:
            raise UnusualError
        at = _skip(at, end)
        if at >= end or at[0] != 44:
            raise UnusualError
        at += 1


def ends_well(Bytes data, int64_t place, bint inside):
    """Whether what follows the array is the rest of the object around it, and nothing else. Raises `UnusualError`."""
    cdef At end = &data[0] + data.shape[0], at = &data[0] + place, key, stop
    at = _skip(at, end)
    while inside and at < end and at[0] == 44:
        key = _skip(at + 1, end) + 1
        if key > end or key[-1] != 34:
            raise UnusualError
        stop = _string_end(key, end)
        # Of two arrays the last would count.
        if stop == NULL or (stop - key == 11 and memcmp(key, b"traceEvents", 11) == 0):
            raise UnusualError
        at = _skip(stop + 1, end)
        if at >= end or at[0] != 58:
            raise UnusualError
        at = _value_end(_skip(at + 1, end), end)
        if at == NULL:
            raise UnusualError
        at = _skip(at, end)
    if inside:
        if at >= end or at[0] != 125:
            raise UnusualError
        at = _skip(at + 1, end)
    return at == end
