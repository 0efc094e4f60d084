"""Instrumentation inside real training on the CPU device."""

import pytest

from tests import scripts
from tpuprof.analysis.analyze import analyze_run

pytestmark = pytest.mark.torch_xla

GRAPHS = """
from tpuprof.instrument.state import STATE
from tpuprof.instrument import sync_guard
compiles = lambda: torch_xla._XLAC._xla_counter_value("UncachedCompile")
runs = lambda: (torch_xla._XLAC._xla_counter_value("CachedCompile") or 0) + compiles()
for _ in range(3):
    train(); torch_xla.sync()
before, runs_before = compiles(), runs()
hash_of = lambda: torch_xla._XLAC._get_graph_hash([train()])
plain = hash_of(); torch_xla.sync()
compiled_plain = compiles() - before

handle = tpuprof.annotate_modules(model)
STATE.armed = True
sync_guard.install()
before, runs_before = compiles(), runs()
annotated = hash_of(); torch_xla.sync()
for step in range(3):
    tpuprof.step(step)
    with tpuprof.annotate("around the cut"):
        train()
        torch_xla.sync()
        train()
    torch_xla.sync()
facts(same_hash=plain == annotated, compiles=compiles() - before, graphs=runs() - runs_before, notes=STATE.notes)

import torch_xla.core.xla_model as xm
with tpuprof.annotate("mark_step"):
    train(); xm.mark_step()
with tpuprof.annotate("torch_xla.step"):
    with torch_xla.step():
        train()
with tpuprof.annotate("nested"), tpuprof.annotate("inner"):
    with torch_xla.step():
        with tpuprof.annotate("innermost"):
            train()
facts(still_armed=STATE.armed, still_no_notes=STATE.notes)
try:
    with tpuprof.annotate("x"):
        raise KeyError("the user's own")
except KeyError as error:
    facts(own_error=str(error))

import tpuprof.instrument.spans as spans
def broken(*args, **kwargs):
    raise RuntimeError("broken inside")
spans.counter = broken
with tpuprof.annotate("x"):
    train()
torch_xla.sync()
facts(note=STATE.notes, armed=STATE.armed, loss=float(train().item()) > 0)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return scripts.facts(scripts.run(scripts.write(tmp_path_factory.mktemp("graphs") / "train.py", GRAPHS)))


def test_the_graph_is_the_same_with_and_without_annotations(told):
    assert told["same_hash"]
    assert told["compiles"] == 0


def test_the_graph_is_cut_where_the_program_cuts_it_and_nowhere_else(told):
    assert told["graphs"] == 7  # one for the hash's own sync, two in each of three steps


def test_annotations_may_span_every_kind_of_graph_cut(told):
    assert told["still_armed"]
    assert told["still_no_notes"] == []


def test_the_users_own_exception_passes(told):
    assert told["own_error"] == '"the user\'s own"'


def test_a_failure_of_ours_switches_us_off_and_training_goes_on(told):
    assert "broken inside" in told["note"][0]
    assert told["armed"] is False
    assert told["loss"]


LOOP = """
tpuprof.annotate_modules(model)
with tpuprof.profile(sys.argv[1], warmup=2, steps=3, name="one") as capture:
    for index in range(8):
        train(); torch_xla.sync()
        capture.step()
from tpuprof.instrument.state import STATE
facts(armed=STATE.armed, listeners=len(STATE.listeners), guard=torch_xla._XLAC._xla_step_marker.__name__)
"""


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loop")
    done = scripts.run(scripts.write(folder / "train.py", LOOP), folder / "run")
    return folder / "run", scripts.facts(done)


def test_profile_captures_the_steps_asked_for(captured):
    report = analyze_run(captured[0])
    assert report.steps.count == 3
    assert report.steps.method == "step markers"
    assert report.compiles == []
    assert report.environment["torch_xla"] == "2.9.0"


def test_modules_have_forward_and_backward_time_on_host_and_device(captured):
    rows = {(row.name, row.kind): row for row in analyze_run(captured[0]).annotations}
    for kind in ("module", "module_backward"):
        for name in ("Model", "layers.0", "layers.1.up", "head"):
            assert rows[name, kind].occurrences == 3, (name, kind)
            assert rows[name, kind].host_ms > 0
        assert rows["layers.1.up", kind].device_ms
    inside = rows["layers.0", "module_backward"].host_ms + rows["layers.1", "module_backward"].host_ms
    assert inside < rows["Model", "module_backward"].host_ms


def test_all_is_put_back_afterwards(captured):
    assert captured[1] == {"armed": False, "listeners": 0, "guard": "_xla_step_marker"}


SHAPES = """
import torch_xla.core.xla_model as xm
from torch_xla.distributed.parallel_loader import MpDeviceLoader

def accumulate():
    optimizer.zero_grad()
    for _ in range(3):
        forward_backward()
    optimizer.step()
    torch_xla.sync()

def with_step():
    with torch_xla.step():
        train()

def with_mark_step():
    train(); xm.mark_step()

@torch_xla.compile
def compiled():
    return train()

def loop(style, steps=9):
    if style == "loader":
        data = [torch.ones(4, 8) for _ in range(steps)]
        for x in MpDeviceLoader(data, device):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        return
    body = {"accumulate": accumulate, "step": with_step, "mark_step": with_mark_step, "compile": compiled}[style]
    for index in range(steps):
        body()

for style in ("accumulate", "step", "mark_step", "compile", "loader"):
    tpuprof.profile(f"{sys.argv[1]}/{style}", warmup=1, steps=3, name="one")(loop)(style)
"""


@pytest.fixture(scope="module")
def styles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("styles")
    scripts.run(scripts.write(folder / "train.py", SHAPES), folder)
    return folder


@pytest.mark.parametrize("style", ["accumulate", "step", "mark_step", "compile", "loader"])
@pytest.mark.slow("five more real captures")
def test_every_way_to_write_a_step_is_one_step(styles, style):
    report = analyze_run(styles / style)
    assert report.steps.count == 3
    assert (report.steps.method, report.steps.confidence) == ("optimizer steps", "high")
    assert (
        report.environment["run"]["warnings"] == []
        or "before the capture" in report.environment["run"]["warnings"][0]
    )
    assert report.ops


@pytest.mark.slow("five more real captures")
def test_batches_of_a_queue_that_was_full_before_the_capture_are_not_made_in_it(styles):
    """MpDeviceLoader has all nine batches in its queue while the first steps compile."""
    (row,) = analyze_run(styles / "loader").input
    assert (row.prefetch, row.batch_ms, row.batches_per_step) == ("background", None, 1)
    assert row.diagnosis in ("ok", "unseen")


SERVER = """
import tpuprof.capture.profile
from tpuprof.capture.backend import OverServer
sys.modules["tpuprof.capture.profile"].choose_backend = lambda: OverServer(seconds=1.0)
with tpuprof.profile(sys.argv[1], warmup=2, steps=5, name="one") as capture:
    import time
    for index in range(12):
        train(); torch_xla.sync()
        time.sleep(0.1)
        capture.step()
"""


@pytest.mark.slow("another real capture")
def test_the_way_over_the_server_of_older_torch_xla(tmp_path):
    scripts.run(scripts.write(tmp_path / "train.py", SERVER), tmp_path / "run")
    report = analyze_run(tmp_path / "run")
    assert report.steps.method == "step markers"
    assert report.steps.count >= 3
    assert report.environment["run"]["capture"]["backend"] == "OverServer"
