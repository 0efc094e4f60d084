"""Notes on an upload are kept as long as it is, go into its ticket, and are gone with it."""

import json
import time
import zipfile
from io import BytesIO

import pytest

from tests.dashboard.conftest import training_trace
from tpuprof.report.schema import Report
from tpuprof.report.span_note import SpanNote

pytest.importorskip("dash")
from tpuprof_dashboard.store import Store

NOTE = SpanNote(
    "", "Steps", "step 1", 1_000, 2_000, "the loader was restarted here", "2026-11-23T00:00:00+00:00"
)


def read(store, name):
    until = time.monotonic() + 60
    while not isinstance(report := store.report(name), Report):
        assert time.monotonic() < until, report
        time.sleep(0.05)
    return report


def test_notes_on_an_upload_go_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store = Store([])
    name = store.upload("x.xplane.pb", BytesIO(training_trace().to_bytes()))
    other = store.upload("y.xplane.pb", BytesIO(training_trace().to_bytes()))
    read(store, name)
    assert store.may_note(name)
    assert store.note(name, lambda notes: [*notes, NOTE]) is None
    assert [each.text for each in read(store, name).span_notes] == [NOTE.text]
    assert read(store, other).span_notes == []
    ticket = tmp_path / "ticket.zip"
    assert store.bundle(name, ticket) is None
    with zipfile.ZipFile(ticket) as archive:
        inside = next(each for each in archive.namelist() if each.endswith("report.json"))
        assert json.loads(archive.read(inside))["span_notes"][0]["text"] == NOTE.text
    folder = store.path(name).parent
    assert not (tmp_path / "state").exists()
    store.remove(name)
    assert not [path for path in folder.iterdir() if path.name.startswith("upload1")]
    store.close()


def test_a_saved_report_takes_no_note():
    store = Store([])
    name = store.upload("report.json", BytesIO(b'{"schema": "tpuprof.report/1"}'))
    assert not store.may_note(name)
    assert store.note(name, lambda notes: [*notes, NOTE]) is not None
