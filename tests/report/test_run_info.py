"""A run.json or a saved report whose fields are of other kinds is read as far as it can be, or refused."""

import json
import shutil
from pathlib import Path

import pytest

from tests.dashboard.conftest import training_trace
from tests.model.test_gpu import gpu_trace
from tpuprof.analysis.analyze import analyze_run
from tpuprof.compare.diff import diff
from tpuprof.compare.text import render_markdown as diff_markdown
from tpuprof.errors import TpuprofError
from tpuprof.render.content import LOOKED_FOR, redaction_note
from tpuprof.render.html import render_html
from tpuprof.render.markdown import render_markdown
from tpuprof.report.as_json import to_json
from tpuprof.report.load import read_report
from tpuprof.report.run_info import CAPTURE_FIELDS, FIELDS, checked
from tpuprof.share.redacted_report import redactor_for
from tpuprof.share.sensitive import Kind
from tpuprof.tables.opened import OpenRun

WRONG = (3, "x", [], [[]], {}, {"a": {}}, True, 1.5, 10**30)


def run(folder, info):
    training_trace(6).write(folder / "plugins" / "profile" / "one" / "h.xplane.pb")
    (folder / "tpuprof").mkdir()
    (folder / "tpuprof" / "run.json").write_text(json.dumps({"schema": "tpuprof.run/1", **info}), "utf-8")
    return folder


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_a_run_whose_notes_are_of_other_kinds(tmp_path, value):
    info = {**dict.fromkeys(FIELDS, value), "predicted": value, "command": value, "cxx11_abi": value}
    capture = dict.fromkeys(CAPTURE_FIELDS, value)
    reports = [
        analyze_run(run(tmp_path / "a", info)),
        analyze_run(run(tmp_path / "b", {**info, "capture": capture})),
    ]
    for report in reports:
        assert report.environment["device_count"] == 1
        assert not any(each.status == "error" for each in report.findings)
        render_html(report)
        render_markdown(report)
        redactor_for(report).value(report)
    diff_markdown(diff(*reports))


def test_a_field_that_is_left_out_is_named(tmp_path):
    report = analyze_run(run(tmp_path, {"versions": [], "capture": {"backend": 3}}))
    assert [note for note in report.warnings if "versions is not what it should be" in note]
    assert [note for note in report.warnings if "capture.backend is not what it should be" in note]


def test_versions_do_not_replace_what_the_trace_says(tmp_path):
    report = analyze_run(run(tmp_path, {"versions": {"device_count": "9", "torch": "2.9.0"}}))
    assert report.environment["device_count"] == 1
    assert report.environment["torch"] == "2.9.0"


def test_what_is_right_is_kept():
    info = {
        "versions": {"torch": "2"},
        "command_line": ["a", 3],
        "capture": {"steps_captured": 4},
        "other": [1],
    }
    assert checked(info) == ({**info, "command_line": ["a", "3"]}, [])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return json.loads(to_json(analyze_run(run(folder / "run", {}))))


@pytest.mark.parametrize(
    "name", ["verdict", "steps", "source", "environment", "breakdown", "findings", "warnings"]
)
@pytest.mark.parametrize("value", [3, "x", [3], {"device_type": []}, None], ids=repr)
def test_a_saved_report_whose_fields_are_of_other_kinds_is_refused(tmp_path, saved, name, value):
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**saved, name: value}), "utf-8")
    with pytest.raises(TpuprofError, match=r"\[input-corrupt\]"):
        read_report(path)


def test_runs_of_one_step_are_compared_and_cannot_be_judged(tmp_path):
    paths = [training_trace(1).write(tmp_path / name / "h.xplane.pb") for name in "ab"]
    text = diff_markdown(diff(*map(analyze_run, paths)))
    assert "Cannot be judged" in text
    assert "nan" not in text


def test_ops_of_no_known_program_have_none_in_tables(tmp_path):
    trace = gpu_trace()
    for plane in trace.space.planes:
        for each in plane.stat_metadata.values():
            each.name = each.name.replace(b"hlo_module", b"other")
    path = trace.write(tmp_path / "h.xplane.pb")
    OpenRun(path).export(tmp_path / "tables")
    programs = {row[0] for row in OpenRun(path).query("SELECT program FROM op_events").rows}
    assert programs == {None}


def test_what_was_looked_for_is_said_whether_or_not_it_was_found(tmp_path):
    report = analyze_run(training_trace().write(tmp_path / "h.xplane.pb"))
    report.redactions = {}
    assert len(LOOKED_FOR) == len(Kind)
    assert "none of them" in redaction_note(report)
    assert all(each in redaction_note(report) for each in LOOKED_FOR)


def test_a_run_folder_with_other_things_where_files_were(tmp_path):
    import os

    folder = run(tmp_path / "run", {})
    own = folder / "tpuprof"
    (own / "telemetry.h.0.jsonl").mkdir()
    os.mkfifo(own / "telemetry.h.1.jsonl")
    os.mkfifo(own / "after.h.0.json")
    os.mkfifo(own / "preflight.json")
    (folder / "prove").mkdir()
    os.mkfifo(folder / "prove" / "a.json")
    (own / "telemetry.h.2.jsonl").symlink_to("telemetry.h.2.jsonl")
    assert analyze_run(folder).steps.count == 6
    shutil.rmtree(own)
    own.mkdir()
    os.mkfifo(own / "run.json")
    assert any("cannot be read" in note for note in analyze_run(folder).warnings)


NOTES = sorted((Path(__file__).parents[2] / "sample_traces").glob("*/tpuprof/run.json"))


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.parts[-3])
def test_what_our_own_writers_write_is_of_the_known_kinds(path):
    """Captured runs and predicted ones: a warning on them would be about ourselves."""
    assert checked(json.loads(path.read_text("utf-8")))[1] == []


def test_there_are_captured_and_predicted_samples():
    predicted = [bool(json.loads(path.read_text("utf-8")).get("predicted")) for path in NOTES]
    assert True in predicted and False in predicted
