"""The compiled walk over Chrome JSON gives what the JSON library gives, or leaves the file to it."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.decode import chrome_trace
from tpuprof.decode.load import load
from tpuprof.errors import TpuprofError

chrome_native = pytest.importorskip(
    "tpuprof.decode.chrome_native", reason="the native modules are not built", exc_type=ImportError
)

DEVICE = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:TPU:0"}}
THREAD = {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "XLA Ops"}}
ARGS = {
    "long_name": "%f = f32[8] fusion(%p)",
    "flops": "123",
    "run_id": 7,
    "share": 0.5,
    "on": True,
    "none": None,
    "deep": {"a": [1, {"b": "}"}]},
    "big": "99999999999999999999",
    "edge": "9223372036854775808",
    "low": "-5",
    "text": 'say \\"hi\\" \u00e9',
}
OP = {"ph": "X", "pid": 1, "tid": 2, "ts": 1.25, "dur": 0.000001, "name": "fusion.1", "args": ARGS}
HOST = {"ph": "X", "pid": "701", "ts": 3, "name": "aten::add"}

USUAL = [
    [],
    [DEVICE, THREAD, OP, {**OP, "ts": 9, "args": {"flops": "124", "extra": "x"}}, HOST],
    [OP, HOST, {**HOST, "tid": None}, {**HOST, "tid": "a"}, {**OP, "pid": "1"}, DEVICE, THREAD],
    [OP, {**OP, "name": "fusion.2"}, {**OP, "args": {**ARGS, "long_name": "%g"}}, {**OP, "args": 3}, DEVICE],
    [{}, None, 5, "x", [1], {"ph": "X"}, {**OP, "ts": "soon"}, {**OP, "dur": None}, {**OP, "pid": None}, OP],
    [{**OP, "ts": 1e300}, {**OP, "ts": -1.5}, {**OP, "ts": 123456789012.123456}, {**OP, "ts": 2**70}],
    # Times that a tool writes as text.
    [
        {**OP, "ts": ts, "dur": dur}
        for ts in (
            "1.25",
            "-3",
            "2e3",
            "7.",
            "123456789012.123456",
            "1" * 70,
            "1e400",
            "",
            "+1",
            ".5",
            "0x1F",
            "1e",
            "1 ",
        )
        for dur in ("0.000001", 5, "x")
    ],
    [{**OP, "name": "\u00e9\u4e16"}, {**OP, "name": ""}, {"ph": "X", "pid": 1, "ts": 0}],
    [{"ph": "B", "pid": 1, "ts": 0}, {**OP, "ph": "XX"}, {**OP, "ph": 1}, OP],
]
UNUSUAL = [
    b'{"traceEvents": [{"ph": "X", "pid": 1, "ts": NaN}]}',
    b'{"traceEvents": [{"ph": "X", "pid": 1, "ts": 1}',
    b'{"traceEvents": [{"ph": "X", "pid": 1, "ts": 1}]',
    b'{"traceEvents": []} x',
    b'{"traceEvents": [], "traceEvents": [1]}',
    b'{"traceEvents": [{"p\\u0068": "X", "pid": 1, "ts": 1}]}',
    b'{"traceEvents": [{"ph": "X", "pid": 1, "ts": 1, "name": 5}]}',
    b'{"traceEvents": [{"ph": "X", "pid": 1, "ts": "\\u0031"}]}',
    b'{"traceEvents": 5}',
    b'{"other": []}',
    b"",
]


def shown(trace):
    """All that a trace says, in plain values; the numbers of stats' keys are its own."""
    return [
        (
            plane.name,
            plane.events.names,
            plane.events.display_names,
            stats(plane, plane.events.stats),
            sorted(plane.stat_names.values()),
            [
                (
                    line.name,
                    line.metadata_id.tolist(),
                    line.offset_ps.tolist(),
                    line.duration_ps.tolist(),
                    stats(plane, line.read_stats(list(plane.stat_names))),
                )
                for line in plane.lines
            ],
        )
        for plane in trace.planes
    ]


def stats(plane, table):
    kinds = table.kind.tolist()
    rows = zip(table.row.tolist(), table.key.tolist(), kinds, range(len(table)), strict=True)
    return sorted((row, plane.stat_names[key], kind, plane.text(table, at)) for row, key, kind, at in rows)


@pytest.mark.parametrize("events", USUAL)
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("indent", [None, 2])
def test_gives_what_the_json_library_gives(events, ascii_only, indent):
    whole = {"displayTimeUnit": "ns", "metadata": {"a": [1, "]"]}, "traceEvents": events, "more": [{}]}
    for document in (whole, events):
        data = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode()
        found = chrome_native.parse(data, "x")
        assert found is not None
        assert shown(found) == shown(chrome_trace.parse(data, "x"))


def test_times_that_are_texts_are_times():
    """Perfetto takes them, too: all events of such a file were left out."""
    texts = [DEVICE, THREAD, {**OP, "ts": "1.25", "dur": "2.5"}]
    (plane,) = chrome_native.parse(json.dumps(texts).encode(), "x").planes
    assert (plane.lines[0].offset_ps.tolist(), plane.lines[0].duration_ps.tolist()) == (
        [1_250_000],
        [2_500_000],
    )


def test_so_they_are_in_traces_of_gpus():
    kernel = {**OP, "ts": "5.5", "dur": "2.5", "cat": "kernel", "args": {"stream": 7, "device": 0}}
    document = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": [kernel, {**kernel, "ts": 9}]}
    (line,) = (
        line
        for plane in chrome_trace.parse(json.dumps(document).encode(), "x").planes
        for line in plane.lines
    )
    assert line.offset_ps.tolist() == [0, 3_500_000]


@pytest.mark.parametrize("data", UNUSUAL)
def test_what_is_unusual_is_left_to_the_json_library(data):
    assert chrome_native.parse(data, "x") is None


@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 2000),
)
def test_damage_gives_no_other_answer_than_the_json_library(changes, length):
    data = bytearray(json.dumps({"traceEvents": USUAL[1] + USUAL[2]}).encode())
    for place, value in changes:
        data[place % len(data)] = value
    data = bytes(data[: len(data) - length] if length % 3 == 0 else data)
    found = chrome_native.parse(data, "x")
    try:
        expected = chrome_trace.parse(data, "x")
    except TpuprofError:
        return
    assert found is None or shown(found) == shown(expected)


def test_many_different_names_and_threads():
    events = [
        {
            "ph": "X",
            "pid": 1,
            "tid": row % 700,
            "ts": row,
            "dur": 1,
            "name": f"op{row}",
            "args": {"n": f"v{row}"},
        }
        for row in range(5000)
    ]
    data = json.dumps(events).encode()
    found = chrome_native.parse(data, "x")
    assert shown(found) == shown(chrome_trace.parse(data, "x"))


def test_the_warning_of_a_cap_is_only_for_files_that_end_at_it(monkeypatch, tmp_path):
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps([DEVICE, THREAD, OP, HOST]).encode()))
    for cap, count in ((1, 0), (2, 1), (4, 1), (5, 0)):
        monkeypatch.setattr(chrome_trace, "EXPORT_EVENT_CAP", cap)
        assert len(load(path).warnings) == count
    assert np.array_equal(load(path).planes[0].lines[0].offset_ps, [1_250_000])
