"""A program that cuts the graph by reads alone: neither an optimizer call nor a graph cut shows a step."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests import scripts
from tpuprof.analysis.analyze import analyze_run
from tpuprof.capture.by_clock import GRAPHS_WITHOUT_STEP, ByClock
from tpuprof.capture.ir_debug import notes_on_tracing
from tpuprof.capture.recording import Recording

INFER = """
import torch, torch_xla
torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Linear(256, 256).to(device).eval()
total = 0.0
with torch.no_grad():
    for number in range(2500):
        total += model(torch.ones(32, 256).to(device)).cpu().sum().item()
print("total", total)
"""


def test_it_is_recorded_by_the_clock_and_its_reads_end_steps(tmp_path):
    script = tmp_path / "infer.py"
    script.write_text(INFER)
    bare = subprocess.run(
        [sys.executable, script], env=scripts.environment(), capture_output=True, text=True, check=True
    )
    done = scripts.capture(tmp_path / "run", sys.executable, script, env=scripts.environment())
    assert done.returncode == 0, done.stderr
    assert bare.stdout == done.stdout
    assert "no training step was seen so far" in done.stderr
    report = analyze_run(tmp_path / "run")
    assert (report.steps.method, report.steps.confidence) == ("inferred from reads that run graphs", "medium")
    assert report.steps.count >= 8
    assert {row.source.rpartition("/")[2] for row in report.host_reads} == {"infer.py:9"}


@pytest.mark.parametrize(
    ("framework", "graphs", "awake"),
    [
        (None, GRAPHS_WITHOUT_STEP, True),
        (None, GRAPHS_WITHOUT_STEP - 1, False),
        # JAX shows no step from outside, whatever it ran.
        (SimpleNamespace(tells_compiles=True), 0, True),
    ],
)
def test_programs_of_torch_xla_must_run_some_graphs_first(monkeypatch, framework, graphs, awake):
    monkeypatch.setattr("tpuprof.capture.by_clock.STATE", SimpleNamespace(framework=framework))
    followed = SimpleNamespace(graphs_run=lambda: graphs, compiles=lambda: 2)
    assert ByClock(followed, lambda: None).awake() == awake


@pytest.mark.parametrize(
    ("compiles", "graphs", "restless"),
    [
        # Each graph compiles.
        (12, 18, True),
        (7, 18, True),
        (6, 18, False),
        # Nothing ran since.
        (2, 8, False),
    ],
)
def test_lines_are_collected_where_most_graphs_compile(monkeypatch, compiles, graphs, restless):
    monkeypatch.setattr("tpuprof.capture.by_clock.STATE", SimpleNamespace(framework=None))
    counts = {"compiles": 2, "graphs": GRAPHS_WITHOUT_STEP}
    followed = SimpleNamespace(graphs_run=lambda: counts["graphs"], compiles=lambda: counts["compiles"])
    paced = ByClock(followed, lambda: None)
    assert not paced.restless()
    assert paced.awake() and not paced.restless()
    counts.update(compiles=compiles, graphs=graphs)
    assert paced.restless() == restless


@pytest.mark.parametrize(
    ("recording", "wanted"),
    [
        (Recording(early=True, after=3), True),
        (Recording(early=True, after=3, prefetched=True), False),
        (Recording(early=False, after=3), False),
        (Recording(early=True, after=0, by_clock=True), False),
        (Recording(early=True, after=0, by_clock=True, restless=True), True),
    ],
)
def test_recordings_that_hold_compiles_want_lines(recording, wanted):
    assert recording.wants_lines == wanted
    assert bool(notes_on_tracing(recording, source_lines=False)) == wanted
