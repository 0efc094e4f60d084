"""The page of watched jobs, as components; test_watched_job.py opens it in a browser."""

import json
from pathlib import Path

import pytest

from tests.goodput.test_account import attempt
from tests.ledger.test_ledger import SECOND, FakeClock

pytest.importorskip("dash")


class Store:
    def __init__(self, *paths):
        self._paths = [Path(path) for path in paths]

    def given(self):
        return self._paths


def text_of(parts):
    return str([part.to_plotly_json() if hasattr(part, "to_plotly_json") else part for part in parts])


def rendered(*paths):
    from tpuprof_dashboard.pages.goodput import PAGE

    return text_of(PAGE.of_store(Store(*paths)))


def test_a_watched_job_is_shown_with_its_attempts(tmp_path):
    clock = FakeClock()
    attempt(tmp_path / "job", clock, "a", 1, 50)
    clock.now += 120 * SECOND
    attempt(tmp_path / "job", clock, "b", 41, 100, close="exit")
    (tmp_path / "job" / "status").mkdir()
    (tmp_path / "job" / "status" / "b.json").write_text('{"job": "job", "rank": 0}')
    for opened in (tmp_path, tmp_path / "job"):
        text = rendered(opened)
        assert "python train.py" in text
        assert "idle between attempts" in text
        assert "2 min 0 s" in text
        assert "was killed, or runs" in text


def test_a_folder_with_ledgers_alone_opens_on_the_live_job(tmp_path):
    from tpuprof_dashboard.app import _content, _first_page
    from tpuprof_dashboard.pages.registry import BY_KEY
    from tpuprof_dashboard.store import Store as RealStore

    attempt(tmp_path, FakeClock(), "a", 1, 50, close="exit")
    (tmp_path / "status").mkdir()
    facts = {"job": "job", "rank": 0, "host": "a", "step": 50, "ended": "exit", "wall_seconds": 1.0}
    (tmp_path / "status" / "a.json").write_text(json.dumps(facts))
    store = RealStore([tmp_path])
    try:
        assert store.names() == []
        assert _first_page(store) is BY_KEY["job"]
        for page, expected in (("job", "ended (exit)"), ("goodput", "productive steps")):
            content, status, _ = _content(BY_KEY[page], {}, store, "light")
            assert status == "ready"
            assert expected in text_of(content())
    finally:
        store.close()


def test_without_a_watched_job_the_page_says_how_to_watch_one(tmp_path):
    assert "tpuprof watch" in rendered(tmp_path)
    assert "tpuprof watch" in rendered(tmp_path / "file-that-is-not-there")


def test_a_folder_without_readable_ledgers_is_no_failure(tmp_path):
    (tmp_path / "ledgers").mkdir()
    assert "cannot be read" in rendered(tmp_path)
