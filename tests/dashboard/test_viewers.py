"""Other viewers of the same run: started once for each folder, ended with the dashboard."""

import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("dash")
from tpuprof_dashboard import viewers
from tpuprof_dashboard.viewers import Viewers, logdir_of


@pytest.fixture
def web_server(monkeypatch):
    """Python's own web server plays TensorBoard."""
    monkeypatch.setattr(
        viewers,
        "_command",
        lambda folder, port: [
            sys.executable,
            "-m",
            "http.server",
            "-b",
            "127.0.0.1",
            "-d",
            str(folder),
            str(port),
        ],
    )


def answers(address):
    parts = urlsplit(address)
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname, parts.port)) == 0


def test_a_folder_is_opened_once_and_ended_with_the_dashboard(web_server, tmp_path):
    opened = Viewers()
    first = opened.open(tmp_path)
    assert answers(first)
    assert opened.open(tmp_path) == first
    opened.close()
    assert not answers(first)


def test_no_more_than_a_few_run_at_a_time(web_server, tmp_path, monkeypatch):
    monkeypatch.setattr(viewers, "MAX_RUNNING", 1)
    opened = Viewers()
    first = opened.open(tmp_path)
    (tmp_path / "other").mkdir()
    second = opened.open(tmp_path / "other")
    assert not answers(first)
    assert answers(second)
    opened.close()


def test_one_that_ends_at_once_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(viewers, "_command", lambda *_: [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(OSError, match="status 3"):
        Viewers().open(tmp_path)


def test_the_logdir_is_the_folder_above_plugins():
    assert logdir_of(Path("/a/run/plugins/profile/one/h.xplane.pb")) == Path("/a/run")
    assert logdir_of(Path("/a/h.xplane.pb")) is None


def test_xprof_opens_from_the_timeline(web_server, tab, tmp_path, monkeypatch):
    from tpuprof_dashboard.components import elsewhere
    from tpuprof_dashboard.store import Store

    from tests.dashboard.conftest import open_page, served, training_trace

    monkeypatch.setattr(elsewhere, "missing_viewer", lambda: "")
    training_trace().write(tmp_path / "plugins" / "profile" / "one" / "x.xplane.pb")
    with served(Store([tmp_path], Viewers())) as url:
        open_page(tab, url, "?page=timeline")
        tab.get_by_role("button", name="Open in XProf").click()
        tab.get_by_role("link", name="XProf on this run").wait_for()
        assert answers(tab.get_by_role("link", name="XProf on this run").get_attribute("href"))


def test_strangers_start_nothing(tab, tmp_path):
    from tpuprof_dashboard.store import Store

    from tests.dashboard.conftest import open_page, served, training_trace

    training_trace().write(tmp_path / "plugins" / "profile" / "one" / "x.xplane.pb")
    with served(Store([tmp_path])) as url:
        open_page(tab, url, "?page=timeline")
        assert tab.get_by_role("button", name="Open in XProf").is_disabled()
        assert "tpuprof tensorboard" in tab.inner_text("#page")
