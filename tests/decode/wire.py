"""A hypothesis strategy for bytes that are almost an XSpace: odd, but mostly well-formed, wire format.

Fields come in any order and number, under wrong wire types, as padded varints, as unknown fields and groups:
what a protobuf parser must take or refuse in its own particular way.
"""

from hypothesis import strategies as st

INTEGER, DOUBLE, TEXT, PACKED = "integer", "double", "text", "packed"
SCHEMA = {
    "space": {1: "plane", 2: TEXT, 3: TEXT, 4: TEXT},
    "plane": {1: INTEGER, 2: TEXT, 3: "line", 4: "event_entry", 5: "stat_entry", 6: "stat"},
    "line": {1: INTEGER, 2: TEXT, 3: INTEGER, 4: "event", 9: INTEGER, 10: INTEGER, 11: TEXT},
    "event": {1: INTEGER, 2: INTEGER, 3: INTEGER, 4: "stat", 5: INTEGER},
    "stat": {1: INTEGER, 2: DOUBLE, 3: INTEGER, 4: INTEGER, 5: TEXT, 6: TEXT, 7: INTEGER},
    "event_entry": {1: INTEGER, 2: "event_metadata"},
    "event_metadata": {1: INTEGER, 2: TEXT, 3: TEXT, 4: TEXT, 5: "stat", 6: PACKED},
    "stat_entry": {1: INTEGER, 2: "stat_metadata"},
    "stat_metadata": {1: INTEGER, 2: TEXT},
}


def varint(value, padding=0):
    """The bytes of a varint, with `padding` bytes more than it needs."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        more = bool(value) or len(out) < padding
        out.append(low | (0x80 if more else 0))
        if not more:
            return bytes(out)


def delimited(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


INTEGERS = st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1), st.sampled_from([2**63, 2**64 - 1]))
VARINTS = st.builds(varint, INTEGERS, st.sampled_from([0, 0, 0, 0, 2, 9, 10]))
TEXTS = st.one_of(
    st.sampled_from([b"", b"step_num", "Zeit \u00fc".encode(), b"\xff\xfe"]), st.binary(max_size=6)
)


def _value(kind):
    if kind == INTEGER:
        return st.tuples(st.just(0), VARINTS)
    if kind == DOUBLE:
        return st.tuples(st.just(1), st.binary(min_size=8, max_size=8))
    inner = TEXTS if kind == TEXT else st.lists(VARINTS, max_size=3).map(b"".join)
    if kind in SCHEMA:
        inner = st.deferred(lambda: message(kind))
    return st.tuples(st.just(2), inner.map(lambda data: varint(len(data)) + data))


def _known(kind):
    def one(item):
        number, inner = item
        return _value(inner).map(lambda value: varint(number << 3 | value[0]) + value[1])

    return st.sampled_from(sorted(SCHEMA[kind].items())).flatmap(one)


def _strange():
    numbers = st.one_of(st.integers(0, 12), st.sampled_from([2**29 - 1, 2**29]))
    values = st.one_of(
        st.tuples(st.just(0), VARINTS),
        st.tuples(st.just(1), st.binary(min_size=7, max_size=8)),
        st.tuples(st.just(2), TEXTS.map(lambda data: varint(len(data)) + data)),
        st.tuples(st.just(5), st.binary(min_size=4, max_size=4)),
        st.tuples(st.integers(6, 7), st.just(b"")),
        st.tuples(st.just(4), st.just(b"")),
    )
    field = st.builds(
        lambda number, value, padding: varint(number << 3 | value[0], padding) + value[1],
        numbers,
        values,
        st.sampled_from([0, 0, 4, 5]),
    )
    group = st.builds(
        lambda number, inside, end: varint(number << 3 | 3) + inside + varint(end << 3 | 4),
        st.shared(st.integers(1, 3), key="group"),
        st.one_of(st.just(b""), VARINTS.map(lambda value: b"\x08" + value)),
        st.shared(st.integers(1, 3), key="group"),
    )
    return st.one_of(field, group)


_MESSAGES = {}


def message(kind):
    """Bytes of a message of that kind: mostly its own fields, sometimes a strange one."""
    if kind not in _MESSAGES:
        fields = st.one_of(_known(kind), _known(kind), _known(kind), _known(kind), _known(kind), _strange())
        only_known = st.lists(_known(kind), max_size=6)
        _MESSAGES[kind] = st.one_of(only_known, only_known, st.lists(fields, max_size=6)).map(b"".join)
    return _MESSAGES[kind]
