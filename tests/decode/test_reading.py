"""Reading profiler files: formats by content, any layout, damaged bytes."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import TraceBuilder, op
from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode import sniff
from tpuprof.decode.find import find, host_name
from tpuprof.decode.load import load
from tpuprof.decode.xplane import parse, reader_name
from tpuprof.errors import TpuprofError
from tpuprof.run_folder import RUN_INFO


def small():
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(3):
        python.event(
            "train", 1000 * number, 900, _r=1, step_num=number, text="words", ratio=0.5, raw=b"\x00\xff"
        )
    trace.tpu(0).stat(device_type_string="TPU v6 Lite", peak_teraflops_per_second=918.0)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [0, 1000, 2000], 700)
    trace.tpu(0).line("XLA Ops").repeat(starts=[0, 1000, 2000], duration=700, **op("fusion.1"))
    return trace


def test_columns_of_a_small_trace():
    trace = parse(small().to_bytes(), "x")
    line = trace.planes[0].lines[0]
    assert line.name == "python"
    assert line.offset_ps.tolist() == [0, 10**9, 2 * 10**9]
    assert line.duration_ps.tolist() == [9 * 10**8] * 3
    plane = trace.planes[0]
    stats = line.read_stats(plane.stat_keys(["step_num", "text", "ratio", "raw"]))
    assert plane.stat_integers(stats, "step_num", 3).tolist() == [0, 1, 2]
    assert plane.stat_text(stats, "text", 3)[2] == "words"
    assert stats.select(plane.stat_ids["ratio"]).floats().tolist() == [0.5] * 3
    assert stats.select(plane.stat_ids["raw"]).raw(0) == b"\x00\xff"
    assert trace.planes[1].own_stat("device_type_string") == "TPU v6 Lite"
    assert trace.planes[1].own_stat("nothing") is None
    assert reader_name() in ("native", "protobuf")


def test_text_that_is_not_utf8_still_loads():
    trace = small()
    trace.space.planes[0].event_metadata[1].name = b"tr\xffain"
    assert "�" in parse(trace.to_bytes(), "x").planes[0].events.names[0]


def test_an_event_that_names_metadata_that_is_not_there(tmp_path):
    trace = small()
    trace.space.planes[1].lines[1].events[0].metadata_id = 99
    path = trace.write(tmp_path / "x.xplane.pb")
    assert analyze_run(path).steps.count == 3


@pytest.mark.parametrize("name", ["host.xplane.pb", "unknown", "trace.json.gz"])
def test_format_is_told_by_content_not_by_name(tmp_path, name):
    assert analyze_run(small().write(tmp_path / name)).steps.count == 3


def test_a_compressed_xplane(tmp_path):
    path = tmp_path / "host.xplane.pb.gz"
    path.write_bytes(gzip.compress(small().to_bytes()))
    assert sniff.sniff(path) == sniff.XPLANE_GZ
    assert analyze_run(path).steps.count == 3


def chrome(path):
    events = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:TPU:0"}},
        {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "XLA Modules"}},
        {"ph": "M", "pid": 1, "tid": 3, "name": "thread_name", "args": {"name": "XLA Ops"}},
    ]
    for start in (0.0, 1000.0, 2000.0):
        events.append({"ph": "X", "pid": 1, "tid": 2, "ts": start, "dur": 700.25, "name": "f(1)"})
        args = {
            "long_name": "%all-gather.1 = f32[8] all-gather(%p)",
            "bytes_accessed": "64",
            "hlo_category": "all-gather",
        }
        events.append(
            {"ph": "X", "pid": 1, "tid": 3, "ts": start, "dur": 700.25, "name": "all-gather.1", "args": args}
        )
    events += [{}, None, {"ph": "X"}, {"ph": "X", "ts": "soon", "dur": 1}]
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    return path


def test_chrome_export(tmp_path):
    report = analyze_run(chrome(tmp_path / "h.trace.json.gz"))
    # The third ends with its program: what the host does until the next one is missing.
    assert report.steps.count == 2
    row = report.ops[0]
    assert (row.name, row.kind, row.bytes, row.occurrences) == ("all-gather.1", "collective", 64, 3)
    assert row.total_ms == pytest.approx(3 * 0.70025)


def test_any_layout_of_a_logdir(tmp_path):
    session = tmp_path / "deep" / "plugins" / "profile" / "2026_01_01"
    small().write(session / "a.xplane.pb")
    small().write(session / "b.xplane.pb")
    chrome(session / "a.trace.json.gz")
    (session / "notes.txt").write_text("hello")
    found = find(tmp_path)
    assert {name: path.name for name, path in found.files.items()} == {"a": "a.xplane.pb", "b": "b.xplane.pb"}
    assert find(session) == found


def test_the_newest_session_is_read_and_the_others_are_named(tmp_path):
    import os

    for name, when in (("old", 1_000), ("new", 2_000)):
        path = small().write(tmp_path / "plugins" / "profile" / name / "h.xplane.pb")
        os.utime(path, (when, when))
    found = find(tmp_path)
    assert found.files["h"].parent.name == "new"
    assert "2 captures" in found.warnings[0]


@pytest.mark.parametrize(
    ("noted", "of_old"),
    [
        ("plugins/profile/new/h.xplane.pb", False),
        ("plugins/profile/old/h.xplane.pb", True),
        # The folder was renamed: there is no other capture that the notes could be of.
        ("plugins/profile/gone/h.xplane.pb", True),
        (None, True),
    ],
)
def test_notes_of_another_capture_are_left_out(tmp_path, noted, of_old):
    """The steps after a second capture were in the verdict on the first one, and so was the other program's command."""
    for name in ("old", "new"):
        small().write(tmp_path / "plugins" / "profile" / name / "h.xplane.pb")
    run_info = tmp_path / RUN_INFO
    run_info.parent.mkdir()
    run_info.write_text(json.dumps({"profile": noted}))
    for old in (tmp_path / "plugins" / "profile" / "old", tmp_path / "plugins/profile/old/h.xplane.pb"):
        found = find(old)
        assert found.run_folder == (tmp_path if of_old else None)
        assert [each for each in found.warnings if "is of another capture, new" in each] == (
            [] if of_old else found.warnings
        )


def test_an_empty_file_beside_good_ones_is_a_missing_host(tmp_path):
    small().write(tmp_path / "a.xplane.pb")
    (tmp_path / "b.xplane.pb").write_bytes(b"")
    assert sorted(find(tmp_path).files) == ["a", "b"]
    assert list(analyze_run(tmp_path).environment["unread_hosts"]) == ["b"]
    (tmp_path / "a.xplane.pb").unlink()
    with pytest.raises(TpuprofError, match="input-empty"):
        find(tmp_path)


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("vm-0.xplane.pb", "vm-0"),
        ("a.b.trace.json.gz", "a.b"),
        ("x", "x"),
        (".pb", ".pb"),
        ("h.xplane.pb.gz", "h"),
    ],
)
def test_host_names(name, host):
    assert host_name(Path(name)) == host


DATA = small().to_bytes()


@settings(
    max_examples=2 * settings.default.max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, 255)), max_size=6),
    st.integers(0, len(DATA)),
)
def test_damaged_bytes_are_read_or_refused_but_never_crash(tmp_path, changes, length):
    data = bytearray(DATA)
    for at, value in changes:
        data[at] = value
    path = tmp_path / "x.xplane.pb"
    path.write_bytes(bytes(data[:length]))
    try:
        report = analyze_run(path)
    except TpuprofError:
        return
    json.dumps(report.to_dict(), allow_nan=False)
    for step in report.steps.per_step:
        assert sum(step.breakdown_ms.values()) == pytest.approx(step.wall_ms, rel=1e-9, abs=1e-6)


@given(st.binary(max_size=400))
def test_any_bytes_are_sniffed(data):
    assert sniff.sniff_head(data, len(data)) in {
        "xplane",
        "xplane-gz",
        "chrome-trace",
        "chrome-trace-gz",
        "unknown",
        "empty",
    }


def test_stats_read_as_integers_stay_exact():
    trace = TraceBuilder()
    trace.host().line("x").event("e", 0, 1, big=2**62 + 1, negative=-5)
    plane = parse(trace.to_bytes(), "x").planes[0]
    stats = plane.lines[0].read_stats(plane.stat_keys(["big", "negative"]))
    assert plane.stat_integers(stats, "big", 1).tolist() == [2**62 + 1]
    assert plane.stat_integers(stats, "negative", 1).tolist() == [-5]
    assert stats.integers().dtype == np.int64


def test_load_gives_the_size(tmp_path):
    path = small().write(tmp_path / "x.xplane.pb")
    assert load(path).size == path.stat().st_size
