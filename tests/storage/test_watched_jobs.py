"""Watched jobs in a store: ledgers go there while a job runs, and are read from there."""

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.goodput.test_account import attempt
from tests.ledger.test_ledger import FakeClock
from tpuprof.errors import TpuprofError
from tpuprof.goodput.jobs import goodput_of
from tpuprof.watch import remote

pytest.importorskip("s3fs")


def test_a_message_names_the_url_and_not_the_copy(s3):
    s3("jobs/empty/marker", b"")
    with (
        pytest.raises(TpuprofError, match="s3://pods/jobs/empty: there is no ledger in it"),
        remote.job_folder(Path("s3://pods/jobs/empty")) as (copy, _),
    ):
        goodput_of(copy)


def test_a_job_goes_to_a_store_while_it_runs_and_is_read_from_there(s3, monkeypatch):
    from tpuprof.cli.main import app

    monkeypatch.setattr(remote, "SYNC_SECONDS", 0.05)
    s3("marker", b"")
    url = "s3://pods/jobs/llama"
    clock = FakeClock()
    with remote.uploaded_to(url) as folder:
        attempt(folder, clock, "a", 1, 50)
        for _ in range(200):
            time.sleep(0.05)
            with remote.job_folder(Path(url)) as (copy, mirror):
                if (copy / "ledgers" / "a.tail").is_file():
                    break
        else:
            pytest.fail("the tail did not reach the store while the job ran")
        clock.now += 60 * 10**9
        attempt(folder, clock, "b", 41, 100, close="exit")
        (folder / "status").mkdir()
        (folder / "status" / "b.json").write_text(
            json.dumps({"job": "job", "rank": 0, "wall_seconds": 1.0, "step": 100})
        )
        (folder / "captures" / "x").mkdir(parents=True)
        (folder / "captures" / "x" / "verdict.json").write_text("{}")
        (folder / "captures" / "x" / "large.pb").write_bytes(bytes(1000))
    with remote.job_folder(Path(url)) as (copy, mirror):
        assert (copy / "captures" / "x" / "verdict.json").is_file()
        assert not (copy / "captures" / "x" / "large.pb").exists()
        assert mirror.refresh() == 0
    done = CliRunner().invoke(app, ["goodput", url, "--json"], catch_exceptions=False)
    (job,) = json.loads(done.stdout)["jobs"]
    assert (job["kept_steps"], job["wasted_steps"]) == (100, 10)
    shown = CliRunner().invoke(app, ["watch", "--follow", url, "--once"], catch_exceptions=False)
    assert "step 100" in shown.stdout


def test_a_store_that_fails_for_a_while_loses_nothing(tmp_path, monkeypatch):
    from tpuprof.errors import Code, TpuprofError

    put, fails = [], [True]

    def unreliable(path, url):
        if fails[0]:
            raise TpuprofError(Code.UNREADABLE, "down")
        put.append(url)

    monkeypatch.setattr(remote, "put", unreliable)
    (tmp_path / "a").write_text("1")
    seen = {}
    assert remote.copy_changed(tmp_path, "gs://b/j", seen) == 0
    fails[0] = False
    assert remote.copy_changed(tmp_path, "gs://b/j", seen) == 1
    assert remote.copy_changed(tmp_path, "gs://b/j", seen) == 0
    assert put == ["gs://b/j/a"]
