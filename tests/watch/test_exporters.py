"""Metrics as their readers see them: Prometheus' own parser, OTLP collectors, TensorBoard's reader."""

import json
import re
import socket
import subprocess
import threading
import urllib.request
from contextlib import contextmanager
from gzip import decompress as gunzip
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.watch.live import free_port, until
from tpuprof.watch import exporters
from tpuprof.watch.options import WatchOptions

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
FACTS = {
    "wall_seconds": 1.76e9,
    "step": 41,
    "steps": 40,
    "median_step_seconds": 0.25,
    "last_step_seconds": 0.3,
    "own_work_seconds": None,
    "compiles": 2,
    "anomalies": 1,
    "host_bytes": 2**30,
    "device_bytes": None,
    "seconds": {"compile": 3.5, "input_wait": 1.0},
}


def started(tmp_path, failures, **options):
    def failed(which, error):
        failures.append((which, error))

    return exporters.exporters_of(WatchOptions(str(tmp_path), **options), "my job", "host-1-17-42", failed)


def test_prometheus_reads_what_is_served(tmp_path):
    parser = pytest.importorskip("prometheus_client.parser")
    failures = []
    (exporter,) = started(tmp_path, failures, metrics_port=0)
    try:
        exporter.update(FACTS)
        with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    finally:
        exporter.stop()
    assert failures == []
    samples = {
        (each.name, each.labels.get("part", "")): each
        for family in parser.text_string_to_metric_families(text)
        for each in family.samples
    }
    assert samples["step_time", ""].value == 0.25
    assert samples["step_time", ""].labels == {"job_name": "my job", "host": "host-1"}
    assert samples["tpuprof_compiles_total", ""].value == 2
    assert samples["tpuprof_part_seconds_total", "compile"].value == 3.5
    # What is unknown is not there, and not 0.
    assert not any(name.startswith(("tpuprof_own_work", "tpuprof_device")) for name, _ in samples)


def test_a_busy_port_is_reported_and_the_next_ones_are_tried(tmp_path):
    pytest.importorskip("prometheus_client")
    failures = []
    (first,) = started(tmp_path, failures, metrics_port=0)
    (second,) = started(tmp_path, failures, metrics_port=first.port)
    try:
        assert second.port > first.port
    finally:
        first.stop()
        second.stop()
    (none,) = (started(tmp_path, failures, metrics_port=1, metrics_host="203.0.113.1"),)
    assert none == []
    assert failures[0][0] == "prometheus"


@contextmanager
def collector():
    """What was posted to a collector of ours (path, body), and its address."""
    bodies = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            data = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append(
                (self.path, gunzip(data) if self.headers.get("Content-Encoding") == "gzip" else data)
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield bodies, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def push(tmp_path, monkeypatch, address):
    """Push the facts once."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    failures = []
    (exporter,) = started(tmp_path, failures)
    exporter.update(FACTS)
    exporter.stop()
    assert failures == []


def assert_has_the_facts(path, body):
    """What a collector was sent is what is known, under the job's name."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    assert path == "/v1/metrics"
    request = ExportMetricsServiceRequest.FromString(body)
    (resource,) = request.resource_metrics
    assert {each.key: each.value.string_value for each in resource.resource.attributes}[
        "tpuprof.job_name"
    ] == "my job"
    metrics = {each.name: each for each in resource.scope_metrics[0].metrics}
    assert metrics["step_time"].gauge.data_points[0].as_double == 0.25
    parts = metrics["tpuprof_part_seconds"].sum.data_points
    assert {each.attributes[0].value.string_value: each.as_double for each in parts} == FACTS["seconds"]


def test_otlp_reaches_a_collector(tmp_path, monkeypatch):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with collector() as (bodies, address):
        push(tmp_path, monkeypatch, address)
    assert_has_the_facts(*bodies[-1])


def test_a_real_collector_takes_the_metrics_and_hands_them_on(tmp_path, monkeypatch):
    """Rotel is a collector that PyPI has: pip install rotel."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    rotel = pytest.importorskip("rotel", reason="needs the collector rotel of PyPI")
    agent = Path(rotel.__file__).parent / "rotel-agent"
    port = free_port()
    with collector() as (bodies, address):
        command = [agent, "start", "--exporter", "otlp", "--otlp-exporter-protocol", "http",
                   "--otlp-exporter-endpoint", address, "--batch-timeout", "100ms",
                   "--otlp-http-endpoint", f"127.0.0.1:{port}",
                   "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}"]  # fmt: skip
        with (
            (tmp_path / "log").open("wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as server,
        ):
            try:
                until(lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
                push(tmp_path, monkeypatch, f"http://127.0.0.1:{port}")
                until(lambda: bodies)
            finally:
                server.terminate()
    assert_has_the_facts(*bodies[-1])


def test_tensorboard_reads_the_scalars(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    failures = []
    (exporter,) = started(tmp_path, failures, tensorboard=True)
    exporter.update(FACTS)
    exporter.update(FACTS | {"step": 42, "median_step_seconds": 0.5})
    exporter.stop()
    events = EventAccumulator(str(tmp_path / "tensorboard" / "host-1-17-42"))
    events.Reload()
    assert [(each.step, each.value) for each in events.Scalars("step_time")] == [(41, 0.25), (42, 0.5)]


def served_names():
    names = {each.name + ("_total" if each.kind == "counter" else "") for each in exporters.METRICS}
    return names | {f"{exporters.PART_SECONDS.name}_total", "up"}


def used_names(expression):
    words = set(
        re.findall(r"[a-zA-Z_]\w+(?=[\[{ )]|$)", re.sub(r"\{[^}]*\}|\((?:[a-z_, ]+)\)", "", expression))
    )
    return {word for word in words if word.startswith(("tpuprof_", "step_time"))}


def test_the_example_dashboard_uses_metrics_that_are_served():
    board = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(expressions) >= 6
    for expression in expressions:
        assert used_names(expression), expression
        assert used_names(expression) <= served_names()


def test_the_example_alerts_use_metrics_that_are_served():
    yaml = pytest.importorskip("yaml")
    rules = yaml.safe_load((EXAMPLES / "prometheus-alerts.yml").read_text())["groups"][0]["rules"]
    assert {each["alert"] for each in rules} >= {"TpuprofNoSteps", "TpuprofAnomaly", "TpuprofStepTimeUp"}
    for each in rules:
        assert used_names(each["expr"]) <= served_names()
        assert each["annotations"]["summary"]
