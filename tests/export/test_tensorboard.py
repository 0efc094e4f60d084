"""A run folder in a running TensorBoard: the profile plugin serves it unchanged, our numbers stand beside it."""

import gzip
import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tpuprof.analysis.analyze import analyze_run
from tpuprof.capture.ports import free_port

pytest.importorskip("tensorboard")
SAMPLE = Path(__file__).parents[2] / "sample_traces" / "recompile_shapes"


def get(port, path, patience=0.0):
    until = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(f"http://localhost:{port}/{path}", timeout=60) as answer:
                data = answer.read()
                return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    run = tmp_path_factory.mktemp("tb") / "run"
    shutil.copytree(SAMPLE, run)
    port = free_port()
    command = [sys.executable, "-m", "tpuprof", "tensorboard", str(run), "--port", str(port)]
    server = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        get(port, "data/runs", patience=90)
        yield port
    finally:
        import os
        import signal

        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def test_the_profile_plugin_lists_the_run_and_serves_the_overview(served):
    pytest.importorskip("xprof")
    assert "capture" in json.loads(get(served, "data/plugin/profile/runs", patience=30))
    tools = json.loads(get(served, "data/plugin/profile/run_tools?run=capture"))
    assert "overview_page" in tools
    hosts = json.loads(get(served, "data/plugin/profile/hosts?run=capture&tag=overview_page"))
    host = hosts[0]["hostname"] if isinstance(hosts[0], dict) else hosts[0]
    overview = json.loads(get(served, f"data/plugin/profile/data?run=capture&tag=overview_page&host={host}"))
    assert any("steptime_ms_average" in table.get("p", {}) for table in overview)


def test_step_times_and_breakdown_are_scalars(served):
    def scalars(tag):
        return json.loads(get(served, f"data/plugin/scalars/scalars?run=.&tag={tag}", patience=30))

    report = analyze_run(SAMPLE)
    steps = scalars("tpuprof/step_time_ms")
    assert [row[1] for row in steps] == [step.index for step in report.steps.per_step]
    assert [row[2] for row in steps] == pytest.approx(
        [step.wall_ms for step in report.steps.per_step], rel=1e-6
    )
    assert [row[1] for row in scalars("tpuprof_breakdown_ms/compile")] == [7]


def test_the_verdict_is_text(served):
    text = json.loads(get(served, "data/plugin/text/text?run=.&tag=tpuprof/verdict", patience=30))
    assert "Compile-bound" in text[0]["text"]


def test_writing_again_replaces_the_events(tmp_path):
    shutil.copytree(SAMPLE, tmp_path / "run")
    for _ in range(2):
        command = [sys.executable, "-m", "tpuprof", "tensorboard", str(tmp_path / "run"), "--write-only"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(list((tmp_path / "run").glob("events.*"))) == 1
    assert "wrote" in done.stderr
