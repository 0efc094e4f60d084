"""Notes on spans: kept with the run, never in a user's own folder, and read as hostile input."""

import json
from dataclasses import replace

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis import cache
from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode.find import find
from tpuprof.errors import TpuprofError
from tpuprof.model.span_notes import LONGEST_NOTE, MOST_NOTES, notes_file, read_span_notes, write_span_notes
from tpuprof.render.html import render_html
from tpuprof.render.markdown import render_markdown
from tpuprof.report.span_note import SpanNote

NOTE = SpanNote("vm", "python", "train", 1_000, 2_000, "this is <b>late</b>", "2026-11-23T05:00:00+00:00")


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def trace_in(folder):
    trace = TraceBuilder()
    for number in range(4):
        trace.host().line("python").event("train", 1000 * number, 900, _r=1, step_num=number)
    return trace.write(folder / "plugins" / "profile" / "1" / "vm.xplane.pb")


def run_of_ours(folder):
    trace_in(folder)
    (folder / "tpuprof").mkdir()
    (folder / "tpuprof" / "run.json").write_text(json.dumps({"schema": "tpuprof.run/1"}))
    return find(folder)


def test_notes_of_a_run_lie_in_its_folder_and_come_back(tmp_path):
    found = run_of_ours(tmp_path / "run")
    assert read_span_notes(found) == []
    assert write_span_notes(found, [NOTE]) == [NOTE]
    assert read_span_notes(find(tmp_path / "run")) == [NOTE]
    assert notes_file(found) == tmp_path / "run" / "tpuprof" / "span_notes.json"


def test_a_folder_that_another_tool_made_is_not_written_to(tmp_path, state):
    path = trace_in(tmp_path / "logdir")
    before = sorted((tmp_path / "logdir").rglob("*"))
    for found in (find(tmp_path / "logdir"), find(path)):
        write_span_notes(found, [NOTE])
        assert notes_file(found).is_relative_to(state)
        assert read_span_notes(found) == [NOTE]
    assert sorted((tmp_path / "logdir").rglob("*")) == before


def test_reports_have_the_notes_and_their_cache_knows_them(tmp_path):
    path = trace_in(tmp_path / "logdir")
    found = find(path)
    before = cache.key(found)
    write_span_notes(found, [NOTE])
    assert cache.key(found) != before
    report = analyze_run(path)
    assert report.span_notes == [NOTE]
    assert report.to_dict()["span_notes"][0]["text"] == NOTE.text
    assert "this is &lt;b&gt;late&lt;/b&gt;" in render_html(report)
    assert "late" in render_markdown(report)
    assert "<b>" not in render_markdown(report)


def test_bounds_of_notes(tmp_path):
    found = run_of_ours(tmp_path / "run")
    long = replace(NOTE, text="x" * (LONGEST_NOTE + 1), name="n" * 10_000)
    kept = write_span_notes(found, [long] * (MOST_NOTES + 1))
    assert len(kept) == MOST_NOTES == len(read_span_notes(found))
    assert len(kept[0].text) == LONGEST_NOTE
    assert len(kept[0].name) == 300


@pytest.mark.parametrize(
    "wrong",
    [
        "no json",
        "[]",
        '{"schema": "tpuprof.span-notes/2", "notes": []}',
        '{"schema": "tpuprof.span-notes/1", "notes": 3}',
        '{"schema": "tpuprof.span-notes/1", "notes": [3, null, {"text": "x"}]}',
    ],
)
def test_what_is_no_note_is_passed_over(tmp_path, wrong):
    found = run_of_ours(tmp_path / "run")
    notes_file(found).write_text(wrong)
    assert read_span_notes(found) == []


@pytest.mark.parametrize(
    ("field", "value"), [("start_ns", -1), ("start_ns", 2**62), ("duration_ns", 1.5), ("text", 7)]
)
def test_fields_of_other_kinds_make_no_note(tmp_path, field, value):
    found = run_of_ours(tmp_path / "run")
    write_span_notes(found, [NOTE])
    told = json.loads(notes_file(found).read_text())
    told["notes"].append({**told["notes"][0], field: value})
    notes_file(found).write_text(json.dumps(told))
    assert read_span_notes(found) == [NOTE]


def test_notes_that_cannot_be_kept_say_why(tmp_path):
    found = run_of_ours(tmp_path / "run")
    notes_file(found).mkdir()
    with pytest.raises(TpuprofError, match=r"notes cannot be kept"):
        write_span_notes(found, [NOTE])
    assert [each.name for each in notes_file(found).parent.iterdir() if "span_notes.json." in each.name] == []


def test_private_values_of_notes_are_replaced_in_what_is_sent(tmp_path):
    from tpuprof.share.redacted_report import redactor_for

    path = trace_in(tmp_path / "logdir")
    secret = "ask alice.smith@example.com, see /home/alice/project/train.py"
    write_span_notes(find(path), [replace(NOTE, text=secret)])
    report = analyze_run(path)
    (sent,) = redactor_for(report).value(report).span_notes
    assert "alice" not in sent.text
    assert sent.text.startswith("ask ")
    assert sent.start_ns == NOTE.start_ns
