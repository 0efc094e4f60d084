"""torch_xla programs that use its profiler themselves, run for real under a capture: neither is in the other's way."""

import json
import os
import sys
import threading
import types

import pytest

from tests import scripts
from tpuprof.capture.asked_server import BEGINS_WITHIN_SECONDS, AskedServer
from tpuprof.capture.ports import free_port
from tpuprof.capture.profiler_session import AGAIN_AFTER_SECONDS, OurSession, ProfilerTakenError
from tpuprof.capture.recorder import GAVE_WAY
from tpuprof.instrument.profiler_on import profiler_on

PROGRAM = """
import sys, time
import torch, torch_xla, torch_xla.debug.profiler as xp
way, steps = sys.argv[1], int(sys.argv[2])
model = torch.nn.Linear(64, 64).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if way == "server":
    server = xp.start_server(PORT)
    xp.trace_detached("localhost:PORT", "theirs", duration_ms=2000)
for step in range(steps):
    if way == "trace" and step == 6:
        xp.start_trace("theirs")
    if way == "trace" and step == 30:
        xp.stop_trace()
    x = torch.randn(16, 64).to("xla")
    optimizer.zero_grad()
    (model(x) - x).square().mean().backward()
    optimizer.step()
    torch_xla.sync()
    time.sleep(0.03)
print("trained")
"""


def profiles(folder):
    return sorted(path.relative_to(folder).parts[0] for path in folder.rglob("*.xplane.pb"))


@pytest.mark.parametrize(
    ("way", "steps"),
    [("trace", 60), pytest.param("server", 250, marks=pytest.mark.slow("another real capture"))],
)
def test_a_program_that_records_itself_has_its_profile_and_ours(tmp_path, way, steps):
    pytest.importorskip("torch_xla")
    (tmp_path / "train.py").write_text(PROGRAM.replace("PORT", str(free_port())))
    (tmp_path / "theirs").mkdir()
    done = scripts.capture(
        "run",
        sys.executable,
        "train.py",
        way,
        str(steps),
        cwd=tmp_path,
        env={**os.environ, "PJRT_DEVICE": "CPU"},
    )
    assert done.returncode == 0, done.stderr
    assert "trained" in done.stdout and "Traceback" not in done.stderr
    assert profiles(tmp_path) == ["run", "theirs"]
    said = json.loads((tmp_path / "run" / "tpuprof" / "run.json").read_text())["warnings"]
    assert (GAVE_WAY in said) is (way == "trace")


@pytest.fixture
def profiler(monkeypatch):
    """A module that keeps a session, and an extension that tells whether events are recorded (`on`)."""
    module = types.ModuleType("a_profiler")
    module._profile_state = types.SimpleNamespace(lock=threading.Lock(), profile_session=None)
    module.on = True
    trace_me = types.SimpleNamespace(is_enabled=lambda level: module.on)
    module.extension = types.SimpleNamespace(profiler=types.SimpleNamespace(TraceMe=trace_me))
    monkeypatch.setitem(sys.modules, "a_profiler", module)
    return module


@pytest.mark.parametrize(("later", "busy"), [(AGAIN_AFTER_SECONDS - 0.1, True), (AGAIN_AFTER_SECONDS, False)])
def test_a_session_that_recorded_nothing_did_not_begin(profiler, monkeypatch, later, busy):
    state, lock = profiler._profile_state, profiler._profile_state.lock
    session = OurSession("a_profiler", lambda: profiler.extension)

    def start():
        state.profile_session = object()

    def stop():
        raise RuntimeError("ALREADY_EXISTS: Another profiling session active.")

    profiler.on = False
    with pytest.raises(ProfilerTakenError):
        session.begin(start, stop)
    # The program finds the profiler as it was.
    assert (state.profile_session, state.lock) == (None, lock)
    now = session._taken + later
    monkeypatch.setattr("tpuprof.capture.profiler_session.time.monotonic", lambda: now)
    assert session.busy() is busy
    profiler.on = True
    assert session.busy()
    session.begin(start, stop)
    assert state.lock is session


@pytest.mark.parametrize(("later", "waits"), [(0.0, True), (BEGINS_WITHIN_SECONDS + 0.1, False)])
def test_a_request_to_a_server_ends_ours_before_it_is_sent(monkeypatch, later, waits):
    order = []
    theirs = types.SimpleNamespace(trace=lambda *_: order.append("theirs"))
    server, trace = AskedServer(), theirs.trace
    server.install(theirs, lambda: order.append("ours ends"))
    assert not server.begins()
    theirs.trace("localhost:9012")
    assert order == ["ours ends", "theirs"]
    now = server._asked + later
    monkeypatch.setattr("tpuprof.capture.asked_server.time.monotonic", lambda: now)
    assert server.begins() is waits
    server.remove()
    assert theirs.trace is trace


@pytest.mark.parametrize(
    ("is_enabled", "told"),
    [
        (lambda level: level == 1, True),
        (lambda level: False, False),
        (lambda: True, None),
        (None, None),
    ],
)
def test_a_version_that_is_asked_otherwise_does_not_tell(is_enabled, told):
    extension = types.SimpleNamespace(
        profiler=types.SimpleNamespace(TraceMe=types.SimpleNamespace(is_enabled=is_enabled))
    )
    assert profiler_on(extension) is told
    assert profiler_on(None) is None
