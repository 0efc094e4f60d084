"""The ticket bundle: cut down, opened again by tpuprof and by XProf, the same bytes each time."""

import gzip
import importlib.util
import json
import os
import re
import shutil
import zipfile

import pytest

from tests import xprof_numbers
from tests.builders import TraceBuilder
from tests.report import reports
from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode import hlo_pb2, xplane_pb2
from tpuprof.report.load import read_report
from tpuprof.report.saved import is_saved_report
from tpuprof.share.bundle import CUT_RUN, OF_A_SAVED_REPORT, write_bundle
from tpuprof.share.chrome_bundle import cut_down
from tpuprof.share.redact import Redactor
from tpuprof.share.trim import STEPS_KEPT, Window, representative

needs_xprof = pytest.mark.skipif(importlib.util.find_spec("xprof") is None, reason="xprof is not installed")


def bundle(run, folder, *, redact=True):
    folder.mkdir(exist_ok=True)
    report = analyze_run(run)
    redactor = None
    if redact:
        redactor = Redactor()
        redactor.learn(report.to_dict())
    notes = write_bundle(folder / "t.zip", report, run if (run / "tpuprof").is_dir() else None, redactor)
    with zipfile.ZipFile(folder / "t.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(folder / "t")
    return report, folder / "t", notes


@pytest.mark.parametrize(
    "name", ["recompile_shapes", "decoder_fsdpv2", "device_to_host_sync", "predicted_decoder_scan"]
)
@pytest.mark.parametrize("redact", [True, False])
def test_the_cut_profile_says_what_the_whole_one_says_of_its_steps(samples, tmp_path, name, redact):
    whole, folder, _ = bundle(samples / name, tmp_path, redact=redact)
    cut = analyze_run(folder / "run")
    assert 1 <= cut.steps.count <= STEPS_KEPT
    assert cut.predicted == whole.predicted
    before = {row.index: row for row in whole.steps.per_step}
    for row in cut.steps.per_step:
        old = before[row.index]
        # The last step ends where its marker ends, and not where the next begins.
        assert row.wall_ms == pytest.approx(old.wall_ms, rel=0.05)
        assert row.breakdown_ms.get("compute", 0) == pytest.approx(
            old.breakdown_ms.get("compute", 0), rel=0.05, abs=0.02
        )
    # Its few steps may get another verdict, so both say that it is cut.
    assert CUT_RUN in cut.warnings and CUT_RUN not in whole.warnings
    assert "may differ" in (folder / "README.txt").read_text()
    assert (folder / "report.json").stat().st_size > 1000


CHANGED = (
    '"x"', "[1]", '{"metrics": "x"}', '{"metrics": {"a": [1]}}', '{"metrics": {"a": ["x", 2]}, "counters": 3}',
    '{"counters": {"a": "x"}}',
)  # fmt: skip


def test_telemetry_that_somebody_changed_leaves_the_rest_as_it_is(samples, tmp_path):
    shutil.copytree(samples / "recompile_shapes", tmp_path / "run")
    (path,) = (tmp_path / "run" / "tpuprof").glob("telemetry.*")
    counted = []
    for name, lines in (("whole", ()), ("changed", CHANGED)):
        (tmp_path / name).mkdir()
        path.write_text(path.read_text() + "".join(line + "\n" for line in lines))
        _, folder, _ = bundle(tmp_path / "run", tmp_path / name)
        counted.append((folder / "metrics.txt").read_text().split("\n", 1)[1])
    assert counted[0] == counted[1]


@needs_xprof
@pytest.mark.parametrize("name", ["recompile_shapes", "decoder_loop"])
def test_xprof_opens_the_cut_profile_and_finds_the_same_steps(samples, tmp_path, name):
    _, folder, _ = bundle(samples / name, tmp_path)
    (profile,) = (folder / "run").rglob("*.xplane.pb")
    cut = analyze_run(folder / "run")
    steps = xprof_numbers.step_times(profile)
    assert set(steps) == {row.index for row in cut.steps.per_step}


@needs_xprof
def test_a_real_tpu_profile_is_cut_down_and_opens(shared_traces, tmp_path):
    whole, folder, notes = bundle(shared_traces / "tpu_v6e_host_offload", tmp_path)
    (profile,) = (folder / "run").rglob("*.xplane.pb")
    cut = analyze_run(folder / "run")
    assert cut.steps.count == STEPS_KEPT
    assert cut.verdict.bound == whole.verdict.bound
    assert cut.steps.median_ms == pytest.approx(whole.steps.median_ms, rel=0.1)
    (original,) = (shared_traces / "tpu_v6e_host_offload").glob("*.pb")
    assert profile.stat().st_size < original.stat().st_size / 2
    assert any("no run.json" in note for note in notes)


def test_the_graph_that_was_compiled_and_the_one_before_are_there(samples, tmp_path):
    report, folder, _ = bundle(samples / "recompile_shapes", tmp_path)
    graphs = sorted((folder / "graphs").iterdir())
    assert len(graphs) == 2
    for path in graphs:
        assert hlo_pb2.HloProto.FromString(path.read_bytes()).hlo_module.computations
    assert report.compiles[0].program in {
        path.name.replace("_1_", "(1)").removesuffix(".hlo.pb") for path in graphs
    }


def test_the_same_run_gives_the_same_bytes(samples, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        bundle(samples / "decoder_scan", tmp_path / name)
    assert (tmp_path / "a" / "t.zip").read_bytes() == (tmp_path / "b" / "t.zip").read_bytes()


def test_fields_nobody_declares_survive_the_cut(tmp_path, samples):
    """A plane's stat metadata has a description that our .proto leaves out."""
    run = tmp_path / "run"
    shutil.copytree(samples / "decoder_loop", run)
    (path,) = run.rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    next(iter(space.planes[0].stat_metadata.values())).MergeFromString(b"\x1a\x0bdescription")
    path.write_bytes(space.SerializeToString())
    _, folder, _ = bundle(run, tmp_path)
    (profile,) = (folder / "run").rglob("*.xplane.pb")
    assert b"\x1a\x0bdescription" in profile.read_bytes()


def chrome_trace():
    events = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/host:CPU"}}] + [
        {
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "ts": 1000 * n,
            "dur": 900,
            "name": "train",
            "args": {"_r": "1", "step_num": str(n)},
        }
        for n in range(4)
    ]
    return json.dumps({"traceEvents": events}).encode()


def test_a_compressed_profile_and_a_chrome_trace_are_cut_too(samples, tmp_path):
    (path,) = (samples / "input_starved").rglob("*.xplane.pb")
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "h.xplane.pb.gz").write_bytes(gzip.compress(path.read_bytes()))
    _, folder, _ = bundle(packed, tmp_path)
    assert analyze_run(folder / "run").steps.count == STEPS_KEPT
    chrome = tmp_path / "chrome"
    chrome.mkdir()
    (chrome / "h.trace.json").write_bytes(chrome_trace())
    _, folder, notes = bundle(chrome, chrome)
    assert any("h.trace.json.gz was cut down to steps 0 to 3" in note for note in notes)
    assert analyze_run(folder / "run").steps.count == 4


@pytest.mark.parametrize("kind", ["xplane", "gz", "chrome.gz", "chrome"])
def test_what_is_too_large_after_the_cut_is_left_out(samples, tmp_path, monkeypatch, kind):
    run = tmp_path / "run"
    run.mkdir()
    (path,) = (samples / "input_starved").rglob("*.xplane.pb")
    data = chrome_trace() if "chrome" in kind else path.read_bytes()
    name = "h.trace.json" if "chrome" in kind else "h.xplane.pb"
    (run / (name + ".gz" * ("gz" in kind))).write_bytes(gzip.compress(data) if "gz" in kind else data)
    report = analyze_run(run)
    # Without the compiled reader an XPlane is not cut on disk.
    monkeypatch.setattr("tpuprof.share.bundle.cut", lambda *_: None)
    for most, left_out in ((len(data) - 1, True), (len(data), False)):
        monkeypatch.setattr("tpuprof.share.bundle.MAX_PROFILE_BYTES", most)
        notes = write_bundle(tmp_path / "t.zip", report, None, None)
        assert any("too large" in note for note in notes) is left_out, (kind, notes)


def test_a_profile_without_steps_is_kept_whole(tmp_path):
    trace = TraceBuilder()
    trace.tpu(0).line("XLA Modules").event("f(1)", 0, 10)
    trace.write(tmp_path / "in" / "x.xplane.pb")
    _, folder, notes = bundle(tmp_path / "in", tmp_path)
    assert any("all of it" in note for note in notes)
    (profile,) = (folder / "run").rglob("*.xplane.pb")
    assert b"f(1)" in profile.read_bytes()


def test_a_bundle_is_a_saved_report(samples, tmp_path):
    _, _, _ = bundle(samples / "decoder_loop", tmp_path)
    assert is_saved_report(tmp_path / "t.zip")
    assert read_report(tmp_path / "t.zip").steps.count == 6
    assert not is_saved_report(samples / "decoder_loop")


def test_the_readme_names_what_is_there_and_nothing_else(samples, tmp_path):
    """A bundle without graphs listed `graphs/`."""
    _, compiled, _ = bundle(samples / "recompile_shapes", tmp_path / "compiled")
    _, steady, _ = bundle(samples / "decoder_loop", tmp_path / "steady")
    for folder in (compiled, steady):
        named = set(re.findall(r"^([\w.]+)/? ", (folder / "README.txt").read_text(), re.MULTILINE)) - {
            "tpuprof"
        }
        assert named == {each.name for each in folder.iterdir()} - {"README.txt"}
    assert (compiled / "graphs").is_dir()
    assert not (steady / "graphs").exists()


def test_a_bundle_of_a_bundle_says_that_it_is_of_a_saved_report(samples, tmp_path):
    """It said that the run was not captured by tpuprof, and that its profile was none."""
    bundle(samples / "decoder_loop", tmp_path)
    notes = write_bundle(tmp_path / "again.zip", read_report(tmp_path / "t.zip"), None, Redactor())
    assert notes == [OF_A_SAVED_REPORT]
    with zipfile.ZipFile(tmp_path / "again.zip") as archive:
        assert "run/" not in archive.read("README.txt").decode()
        assert not [name for name in archive.namelist() if name.startswith("run/")]


@pytest.mark.parametrize(
    ("walls", "expected"),
    [
        ([10, 10, 10, 50, 10, 10, 10], [2, 3, 4, 5]),
        ([50, 10, 10, 10, 10], [0, 1, 2, 3]),
        ([10, 10, 10, 10, 50], [1, 2, 3, 4]),
        ([14, 14, 14, 10, 10, 10, 10], [3, 4, 5, 6]),
        ([10, 10], [0, 1]),
    ],
)
def test_which_steps_are_kept(walls, expected):
    window = representative(reports.report(walls), "host-a")
    assert window.steps == expected
    assert representative(reports.report(walls), "elsewhere") is None


@pytest.mark.parametrize("text", ["{", '{"a": ' + "[" * 200_000, "pipe"])
def test_notes_of_a_run_that_cannot_be_read_are_left_out(samples, tmp_path, text):
    shutil.copytree(samples / "recompile_shapes", tmp_path / "run")
    for path in (tmp_path / "run" / "tpuprof").glob("[rt]*.json*"):
        path.unlink()
        if text == "pipe":
            os.mkfifo(path)
        else:
            path.write_text(text)
    _, folder, notes = bundle(tmp_path / "run", tmp_path)
    assert "run.json cannot be read and was left out" in notes
    assert not (folder / "run" / "tpuprof" / "run.json").exists()
    assert analyze_run(folder / "run").steps.count > 0


@pytest.mark.parametrize("kind", [float, str])
def test_events_whose_times_are_texts_stay_in_a_chrome_trace(kind):
    events = [{"ph": "X", "ts": kind(at), "dur": kind(1.0), "name": "a"} for at in (0.0, 5.0, 50.0)]
    window = Window("h", [0], 4_000, 10_000)
    assert cut_down({"traceEvents": events}, window, str)["traceEvents"] == [events[1]]
