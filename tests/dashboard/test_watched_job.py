"""The pages of a watched job in a real Chromium, opened on a folder that holds ledgers and nothing else."""

import json
import time

import pytest

from tests.dashboard.conftest import HOSTILE, assert_accessible, open_page, screenshot, served
from tests.goodput.test_account import attempt
from tests.ledger.test_ledger import SECOND, FakeClock
from tests.watch.test_follow import status

pytest.importorskip("dash")

ANOMALY = {"kind": "recompile", "step": 90, "message": "step 90 compiled 1 graph(s) after training was warm"}
VERDICT = "Compile-bound: 9 of 10 ms."


@pytest.fixture
def job(tmp_path):
    """Two attempts of four hosts, of which rank 2 is slow and rank 3 is silent."""
    folder, clock = tmp_path / "job", FakeClock()
    attempt(folder, clock, "p0-old", 1, 50)
    clock.now += 120 * SECOND
    attempt(folder, clock, "p0", 41, 100)
    now = time.time()
    unavailable = {"mfu": "unknown FLOPs"}
    status(folder, "p0", rank=0, wall_seconds=now, last_anomalies=[ANOMALY], unavailable=unavailable)
    status(folder, "p1", rank=1, wall_seconds=now, tpu_duty_cycle=71.5)
    status(folder, "p2", rank=2, wall_seconds=now, own=0.5)
    status(folder, "p3", rank=3, wall_seconds=now - 500)
    where = folder / "captures" / "p0-recompile-90"
    where.mkdir(parents=True)
    (where / "verdict.json").write_text(json.dumps({"anomaly": ANOMALY, "capture": VERDICT}))
    return folder


@pytest.fixture
def address(job, tab):
    from tpuprof_dashboard.store import Store

    with served(Store([job])) as url:
        yield url


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_job_is_the_first_page_of_a_folder_without_captures(tab, address, theme):
    open_page(tab, address, f"?theme={theme}")
    text = tab.inner_text("#page")
    assert "3 of 4 processes give a sign of life" in text
    assert "192.0" in text
    assert "71.5 %" in text
    assert "unknown FLOPs" in text
    rows = tab.locator("#plain-hosts-job-0 tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["host-3", "host-2", "host-0", "host-1"]
    assert "no sign of life" in rows[0]
    assert rows[1].split("\t")[4] == "0.40"
    assert VERDICT in tab.inner_text("#plain-anomalies-job-0")
    screenshot(tab, f"job-{theme}")
    assert_accessible(tab)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_goodput_needs_no_capture_in_the_folder(tab, address, theme):
    open_page(tab, address, f"?page=goodput&theme={theme}")
    text = tab.inner_text("#page")
    assert "idle between attempts" in text
    assert "2 min 0 s" in text
    assert VERDICT in text
    screenshot(tab, f"goodput-job-{theme}")
    assert_accessible(tab)


def test_the_page_follows_the_job_and_shows_hostile_names_as_text(tab, address, job):
    open_page(tab, address)
    bad = {"kind": HOSTILE[0], "step": 140, "message": HOSTILE[1]}
    status(job, "p0", rank=0, wall_seconds=time.time(), step=140, last_anomalies=[bad])
    tab.locator("#plain-hosts-job-0 tbody tr:has-text('host-0'):has-text('140')").wait_for()
    assert HOSTILE[1] in tab.inner_text("#plain-anomalies-job-0")
    assert tab.locator("#page img, #page script, #page b").count() == 0


def test_a_job_whose_folder_is_damaged_says_why(tab, address, job):
    for each in (job / "status").iterdir():
        each.write_text("{")
    open_page(tab, address)
    assert "No status file can be read" in tab.inner_text("#page")
