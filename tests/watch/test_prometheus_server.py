"""A real Prometheus server scrapes a real watched process; its own tool checks the metrics and the example alerts."""

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.watch.live import free_port, training, until
from tpuprof.ledger.reader import read_folder

pytest.importorskip("prometheus_client")
EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
ALERTS = EXAMPLES / "prometheus-alerts.yml"
SERVER, TOOL = shutil.which("prometheus"), shutil.which("promtool")
pytestmark = pytest.mark.skipif(not (SERVER and TOOL), reason="needs Debian's package prometheus")
CONFIG = """
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: ["ALERTS"]
scrape_configs:
  - job_name: training
    static_configs: [{targets: ["127.0.0.1:PORT"]}]
"""


def port_of(folder):
    """Where the process in this folder serves its metrics, 0 while that is unknown."""
    if not list(folder.glob("ledgers/*")):
        return 0
    return read_folder(folder)[0].meta.get("metrics_port", 0)


@contextmanager
def prometheus(folder, scraped):
    """A server that scrapes a port; a function that asks its API."""
    port = free_port()
    folder.mkdir()
    config = CONFIG.replace("ALERTS", str(ALERTS)).replace("PORT", str(scraped))
    (folder / "prometheus.yml").write_text(config)
    command = [SERVER, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip

    def ask(path, **query):
        url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except OSError:
            return {}

    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            yield ask
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """What the process served, and the server's answers after it had scraped a few times."""
    place = tmp_path_factory.mktemp("prometheus")
    with training(place / "runs", 0.02, metrics_port=0):
        port = until(lambda: port_of(place / "runs"))
        with prometheus(place / "server", port) as ask:
            until(lambda: values(ask, "step_time") and values(ask, "rate(tpuprof_steps_total[5s]) > 0"))
            board = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
            panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
            asked = {each: ask("query", query=each.replace("$job", "live")) for each in panels}
            rules = ask("rules")
            steps = values(ask, "step_time")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read()
    return {"text": text, "panels": asked, "rules": rules, "step_time": steps}


def values(ask, query):
    return [(each["metric"], float(each["value"][1])) for each in ask("query", query=query).get("result", [])]


def test_a_server_reads_the_step_time_of_a_watched_process(scraped):
    ((labels, seconds),) = scraped["step_time"]
    assert labels["job_name"] == "live"
    assert labels["job"] == "training"
    # The process sleeps for 20 ms per step; a busy machine adds to it.
    assert 0.02 <= seconds < 2


def test_every_panel_of_the_example_dashboard_has_an_answer(scraped):
    empty = [query for query, answer in scraped["panels"].items() if not answer.get("result")]
    # The process has no device, so its memory is left out.
    assert empty == ['max(tpuprof_device_memory_bytes{job_name="$job"})']


def test_the_example_alerts_are_evaluated_without_an_error(scraped):
    rules = [rule for group in scraped["rules"]["groups"] for rule in group["rules"]]
    assert len(rules) >= 4
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] == "err"} == {}


def test_promtool_accepts_the_metrics(scraped):
    done = subprocess.run([TOOL, "check", "metrics"], input=scraped["text"], capture_output=True, check=False)
    # Google's SDK names it without a unit, and so do we.
    complaints = [line for line in done.stderr.decode().splitlines() if not line.startswith("step_time ")]
    assert complaints == []


def test_promtool_accepts_the_alerts_and_they_fire_when_they_should():
    subprocess.run([TOOL, "check", "rules", str(ALERTS)], check=True, capture_output=True)
    done = subprocess.run(
        [TOOL, "test", "rules", str(Path(__file__).parent / "prometheus-alerts-test.yml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
