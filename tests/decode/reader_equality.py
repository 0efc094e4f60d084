"""Compares what two readers make of the same bytes: every column, every stat, every text."""

import numpy as np

from tpuprof.decode import xplane_protobuf
from tpuprof.decode.columns import StatKind, sum_stats
from tpuprof.errors import TpuprofError

# Many stats are compared per line; a key that is in no trace checks that nothing is found.
ABSENT_KEY = 987_654_321


def assert_same_reading(data, native):
    """The native reader and the reference both refuse the bytes, or both give the same columns."""
    try:
        expected = xplane_protobuf.parse(data, "x")
    except TpuprofError:
        expected = None
    try:
        found = native.parse(data, "x")
    except TpuprofError as error:
        assert expected is None, f"refused by the native reader alone: {error}"
        assert error.code.value in ("input-truncated", "input-corrupt")
        return False
    assert expected is not None, "refused by the reference alone"
    assert_same_trace(found, expected)
    return True


def assert_same_trace(found, expected):
    for name in ("source", "format", "size", "hostnames", "errors", "warnings"):
        assert getattr(found, name) == getattr(expected, name), name
    assert len(found.planes) == len(expected.planes)
    for one, other in zip(found.planes, expected.planes, strict=True):
        assert_same_plane(one, other)


def assert_same_plane(found, expected):
    assert (found.id, found.name) == (expected.id, expected.name)
    assert found.stat_names == expected.stat_names
    assert_same_stats(found.stats, expected.stats)
    assert found.events.names == expected.events.names
    assert found.events.display_names == expected.events.display_names
    assert_same_column(found.events.ids, expected.events.ids)
    assert_same_stats(found.events.stats, expected.events.stats)
    assert len(found.lines) == len(expected.lines)
    for one, other in zip(found.lines, expected.lines, strict=True):
        assert_same_line(one, other, [*found.stat_names, ABSENT_KEY, 0])
        assert_same_sums(one, expected.events, other)


def assert_same_line(found, expected, keys):
    for name in ("id", "name", "timestamp_ns"):
        assert getattr(found, name) == getattr(expected, name), name
    for name in ("metadata_id", "offset_ps", "duration_ps"):
        assert_same_column(getattr(found, name), getattr(expected, name))
    assert_same_stats(found.read_stats(keys), expected.read_stats(keys))
    for key in keys[:3]:
        assert_same_stats(found.read_stats([key]), expected.read_stats([key]))
    assert len(found.read_stats([])) == 0


def assert_same_sums(found, names, expected):
    """What a reader added up as it went is what its stats add up to."""
    rows = names.rows(expected.metadata_id)
    for key, sums in found.sums.items():
        reference = sum_stats(expected.read_stats([key]), rows, len(names.ids))
        assert_same_column(sums.total, reference.total)
        assert_same_column(sums.negative, reference.negative)
        assert sums.having == reference.having


def assert_same_stats(found, expected):
    for name in ("row", "key", "kind", "length"):
        assert_same_column(getattr(found, name), getattr(expected, name))
    # The bits of a text are its position in the heap, which each reader lays out in its own way.
    is_text = np.isin(expected.kind, (StatKind.STR, StatKind.BYTES))
    assert_same_column(found.bits[~is_text], expected.bits[~is_text])
    assert found.bits.dtype == expected.bits.dtype
    for row in np.flatnonzero(is_text):
        assert found.raw(row) == expected.raw(row)


def assert_same_column(found, expected):
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)
