"""The native reader and the protobuf reader make the same of the same bytes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.builders import TraceBuilder, op
from tests.decode.reader_equality import assert_same_reading
from tests.decode.wire import delimited, message, varint
from tpuprof.decode import xplane
from tpuprof.errors import TpuprofError

native = pytest.importorskip(
    "tpuprof.decode.xplane_native", reason="the native reader is not built", exc_type=ImportError
)

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted((ROOT / "sample_traces").rglob("*.xplane.pb"))
CORPUS = ROOT / "fuzz" / "corpus"


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.relative_to(ROOT / "sample_traces").parts[0])
def test_samples(path):
    assert assert_same_reading(path.read_bytes(), native)


@pytest.mark.shared_traces
def test_real_tpu_traces(shared_traces):
    for path in shared_traces.rglob("*.xplane.pb"):
        assert assert_same_reading(path.read_bytes(), native)


ODD_NUMBERS = [7, 0, -3, 2**63 - 1, -(2**63), 2.75, -2.75, 1e300, float("nan"), "7", b"7"]


def built():
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(40):
        python.event(
            f"step {number % 7}", 10.5 * number, 9.25, step_num=number, text="w\u00fc", part=-0.5, raw=b"\0"
        )
    trace.tpu(0).stat(device_type_string="TPU v6 Lite", peak=918.0, negative=-7)
    ops = trace.tpu(0).line("XLA Ops").repeat(starts=range(100), duration=0.5, **op("fusion.1"))
    for number in range(30):
        ops.event(
            f"copy.{number % 4}",
            200.0 + number,
            0.5,
            device_duration_ps=ODD_NUMBERS[number % len(ODD_NUMBERS)],
        )
    trace.tpu(1).line("empty")
    trace.space.hostnames.append(b"vm\xff")
    trace.space.errors.append(b"lost")
    return trace.to_bytes()


def test_a_built_trace():
    assert assert_same_reading(built(), native)


def test_lines_cut_into_tasks_for_several_threads(monkeypatch):
    monkeypatch.setattr("tpuprof.decode.xplane_walk.THREADS_FROM", 0)
    monkeypatch.setattr("tpuprof.decode.xplane_walk.EVENTS_PER_TASK", 3)
    monkeypatch.setattr("tpuprof.parallel.threads", lambda: 4)
    assert assert_same_reading(built(), native)


def test_a_file_is_walked_without_numpy():
    program = (
        "import sys, pathlib; from tpuprof.decode import prefetch, load, xplane, xplane_native, xplane_walk\n"
        "space = xplane_walk.walk(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "print(sum(len(line.offset_ps) for plane in space.planes for line in plane.lines), 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(SAMPLES[0])], check=True, capture_output=True, text=True
    )
    lines = [line for plane in native.parse(SAMPLES[0].read_bytes(), "x").planes for line in plane.lines]
    assert done.stdout.split() == [str(sum(map(len, lines))), "False"]
    assert lines


@settings(max_examples=6 * settings.default.max_examples, suppress_health_check=list(HealthCheck))
@given(message("space"))
def test_odd_wire_format(data):
    event("read" if assert_same_reading(data, native) else "refused")


BUILT = built()


@settings(max_examples=4 * settings.default.max_examples)
@given(
    st.lists(st.tuples(st.integers(0, len(BUILT) - 1), st.integers(0, 255)), max_size=5),
    st.one_of(st.just(len(BUILT)), st.integers(0, len(BUILT))),
)
def test_damaged_bytes(changes, length):
    data = bytearray(BUILT)
    for at, value in changes:
        data[at] = value
    event("read" if assert_same_reading(bytes(data[:length]), native) else "refused")


@given(st.binary(max_size=200))
def test_any_bytes(data):
    assert_same_reading(data, native)


@pytest.mark.parametrize(
    "path", [[], [1], [1, 3], [1, 3, 4], [1, 3, 4, 4], [1, 4], [1, 4, 2], [1, 4, 2, 5]], ids=str
)
def test_how_deep_groups_may_nest(path):
    """Protobuf refuses messages and groups nested deeper than a hundred, wherever they begin."""
    read = []
    for depth in range(94, 103):
        data = b"\x7b" * depth + b"\x7c" * depth
        for number in reversed(path):
            data = delimited(number, data)
        read.append(assert_same_reading(data, native))
    assert any(read)
    assert not all(read)


@pytest.mark.parametrize(
    "field",
    [
        b"\x08" + b"\xff" * 9 + b"\x01",  # -1
        b"\x08" + b"\xff" * 9 + b"\x7f",  # bits past the 64th
        b"\x08" + b"\xff" * 10 + b"\x01",  # eleven bytes
        b"\x88\x80\x80\x80\x00\x05",  # a tag of five bytes
        b"\x88\x80\x80\x80\x80\x00\x05",  # and of six
        b"\xf8\xff\xff\xff\x0f\x05",
        b"\x88\x80\x80\x80\x10\x05",  # a tag past 32 bits
        b"\x12\x82\x80\x80\x80\x00ab",  # a length of five bytes
        b"\x12\x82\x80\x80\x80\x80\x00ab",
        b"\x12\xff\xff\xff\xff\x7fab",
        b"\x00\x05",
        b"\x0b\x0c",
        b"\x0b\x14",
        b"\x0c",
        b"\x0e",
        b"\x0f",
    ],
    ids=bytes.hex,
)
def test_odd_fields_of_a_plane(field):
    assert_same_reading(delimited(1, field), native)
    assert_same_reading(delimited(1, field) + b"\x0a\x00", native)


def test_a_map_key_given_twice_keeps_the_last_and_a_value_in_parts_is_one():
    first = delimited(4, b"\x08\x07" + delimited(2, delimited(2, b"old") + delimited(4, b"shown")))
    parts = delimited(2, delimited(2, b"new")) + delimited(2, delimited(5, b"\x08\x01\x20\x09")) + b"\x08\x07"
    no_key = delimited(4, delimited(2, delimited(2, b"keyless")))
    data = delimited(1, first + delimited(4, parts) + no_key)
    assert assert_same_reading(data, native)
    names = native.parse(data, "x").planes[0].events
    assert (names.ids.tolist(), names.names, names.display_names) == ([0, 7], ["keyless", "new"], ["", ""])
    assert names.stats.row.tolist() == [1]


def test_offset_gives_way_to_num_occurrences():
    late, early = b"\x08\x01\x10\x63\x28\x02", b"\x08\x01\x28\x02\x10\x63"
    data = delimited(1, delimited(3, delimited(4, late) + delimited(4, early)))
    assert assert_same_reading(data, native)
    assert native.parse(data, "x").planes[0].lines[0].offset_ps.tolist() == [0, 0x63]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (BUILT[:-10], "input-truncated"),
        (BUILT[: len(BUILT) // 2], "input-truncated"),
        (BUILT + b"\x0a", "input-truncated"),
        (delimited(1, b"\x12\x7fab") + b"\x0a\x00" * 90, "input-corrupt"),
        (delimited(1, b"\x0f"), "input-corrupt"),
        (BUILT + b"\x0f", "input-corrupt"),
    ],
    ids=["cut a little", "cut in half", "cut in a field", "inner length", "wire type", "at the end"],
)
def test_what_is_wrong_with_damaged_bytes(data, code):
    with pytest.raises(TpuprofError) as caught:
        native.parse(data, "x")
    assert caught.value.code.value == code


def test_stats_are_told_apart_where_their_keys_share_low_bits():
    stats = b"".join(delimited(4, b"\x08" + varint(key) + b"\x20" + varint(key)) for key in (1, 257, 513))
    data = delimited(1, delimited(3, delimited(4, stats)))
    line = native.parse(data, "x").planes[0].lines[0]
    assert line.read_stats([257]).bits.tolist() == [257]
    assert line.read_stats([513, 1, 1]).bits.tolist() == [1, 513]
    assert len(line.read_stats([769])) == 0
    assert line.read_stats([2**63 - 1, -1]).row.dtype == np.int64


def test_the_stat_that_is_added_up():
    """By the row of the event's name; of several in one event the last counts, ids without metadata go last."""

    def event(name, *values):
        return delimited(
            4, b"\x08" + varint(name) + b"".join(delimited(4, b"\x08\x09\x20" + varint(v)) for v in values)
        )

    events = [
        event(1, 5),
        event(1, 6),
        event(3, 1, 7),
        event(2, 2**64 - 1),
        event(4, 40),
        event(2**40, 2),
        event(1),
    ]
    names = b"".join(delimited(4, b"\x08" + varint(key) + delimited(2, b"")) for key in (1, 2, 3))
    stat = delimited(5, b"\x08\x09" + delimited(2, delimited(2, b"device_duration_ps")))
    data = delimited(1, delimited(3, b"".join(events)) + names + stat)
    assert assert_same_reading(data, native)
    sums = native.parse(data, "x").planes[0].lines[0].sums[9]
    assert sums.total.tolist() == [11, -1, 7, 42]
    assert sums.negative.tolist() == [False, True, False, False]
    assert sums.having == 6


@pytest.mark.parametrize("name", ["native", "protobuf"])
def test_a_reader_can_be_named(monkeypatch, name):
    monkeypatch.setenv("TPUPROF_READER", name)
    assert xplane.reader_name() == name
    assert xplane.parse(BUILT, "x").planes[0].name == "/host:CPU"


def test_a_reader_that_does_not_exist(monkeypatch):
    monkeypatch.setenv("TPUPROF_READER", "quick")
    with pytest.raises(TpuprofError, match="usage"):
        xplane.parse(BUILT, "x")


def test_the_fuzzers_corpus():
    files = sorted(CORPUS.iterdir())
    assert files
    for path in files:
        assert_same_reading(path.read_bytes(), native)
