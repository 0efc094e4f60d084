"""Causes of compiles from the log of TORCH_TRACE, as torch_tpu 0.2 writes it."""

import json
import os

import pytest

from tests.model.test_torch_tpu import training
from tpuprof.analysis.analyze import analyze_run
from tpuprof.capture.torch_trace import keep
from tpuprof.decode.torch_trace import read_torch_trace
from tpuprof.model.compile.compiles import Compile
from tpuprof.model.compile.traced_causes import cause_of
from tpuprof.model.compile.unseen import unseen_compiles
from tpuprof.model.telemetry import StepRecord
from tpuprof.run_folder import TORCH_TRACE

LOG = "dedicated_log_torch_trace_ab12.log"
LIBRARY = "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py"


def program(argument, body="", *, name="tt_jit_linear", line=7, hit=False, file="/home/me/train.py"):
    """The two records of a program: the ops with their lines, then the program."""
    facts = {"op_name": "torchtpu_eager/linear", "cache_hit": hit, "reason": "debug_mode"}
    graph = f"# Graph: 1 ops\n%1: f32[8] = linear(%0)    # {file}:{line} in step\nreturn %1"
    text = (
        f"module @{name} {{\n  func.func @main(%arg0: tensor<{argument}>) -> tensor<8xf32> {{\n{body}\n}}\n}}"
    )
    found = []
    for kind, payload in (("torchtpu_eager_aten_graph", graph), ("torchtpu_eager_stablehlo", text)):
        head = json.dumps({"artifact": {"name": kind, **facts}, "has_payload": "0"})
        found.append(f"V1122 09:20:57.554000 16235 torch_tpu/_internal/tracing/__init__.py:83] {head}")
        found += [f"\t{row}" for row in payload.splitlines()]
    return "\n".join(found) + "\n"


@pytest.fixture
def log(tmp_path):
    def write(*programs):
        (tmp_path / LOG).write_text("".join(programs))
        return read_torch_trace(tmp_path)

    return write


def last(programs):
    return cause_of(programs, len(programs) - 1)


def test_programs_have_their_inputs_and_the_user_s_lines(log):
    found = log(program("8x64xf32"), program("8x64xf32", hit=True))
    assert [(each.name, each.inputs, each.sources) for each in found] == [
        ("tt_jit_linear", ("8x64xf32",), ("/home/me/train.py:7",))
    ]


def test_another_shape(log):
    found = last(log(program("8x64xf32"), program("9x64xf32", line=9)))
    assert (found.kind, found.detail) == ("shape", "an input changed: f32[8,64] became f32[9,64]")
    assert found.source == "/home/me/train.py:9"


def test_another_dtype(log):
    assert last(log(program("8x64xf32"), program("8x64xbf16"))).kind == "dtype"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%c = stablehlo.constant dense<0.1> : f", "%c = stablehlo.constant dense<0.2> : f"),
        ("%c = stablehlo.slice [0:3]", "%c = stablehlo.slice [0:4]"),
    ],
)
def test_a_number_that_python_baked_in(log, old, new):
    found = last(log(program("8xf32", old), program("8xf32", new)))
    assert found.kind == "constant"
    assert "became" in found.detail


def test_the_same_again_and_other_ops(log):
    assert last(log(program("8xf32", "add"), program("8xf32", "add"))).kind == "again"
    assert last(log(program("8xf32", "add"), program("8xf32", "sub"))).kind == "graph"
    assert last(log(program("8xf32"))).kind == "first"


def test_a_damaged_log_is_read_as_far_as_it_goes(log):
    assert len(log('V1122 x] {"artifact": 3}\n\t?\nV1122 y] {broken\n', program("8xf32")[:-1])) == 1


def test_a_recompile_of_a_capture_gets_cause_and_line(tmp_path):
    session = tmp_path / "plugins" / "profile" / "one"
    session.mkdir(parents=True)
    training(6, compile_us=4000, ops=10).write(session / "vm.xplane.pb")
    (tmp_path / TORCH_TRACE).mkdir(parents=True)
    text = "".join(program("8xf32", f"%c = stablehlo.constant dense<0.{n}> : f") for n in range(1, 7))
    (tmp_path / TORCH_TRACE / LOG).write_text(text)
    finding = analyze_run(tmp_path).findings[0]
    assert finding.rule == "recompiles-constant"
    row = next(each for each in finding.evidence if each.source)
    assert row.source == "/home/me/train.py:7"
    assert "0.5 became 0.6" in row.text


def test_a_line_of_torch_is_named_by_the_programs_line_that_calls_it(tmp_path):
    """The log has the innermost line of an op; samples of the stack know who called it."""
    session = tmp_path / "plugins" / "profile" / "one"
    session.mkdir(parents=True)
    trace = training(6, compile_us=4000, ops=10)
    inner = f"forward ({LIBRARY}:134)"
    for at, line in enumerate((20, 20, 9)):
        frames = f"step (/home/me/train.py:{line});{inner}"
        words = {"call": "F.linear()", "source": f"/home/me/train.py:{line}", "user_call": "model(x)"}
        trace.sampled(at * 5000, 5000, stack=line, frames=frames, **words)
    trace.write(session / "vm.xplane.pb")
    (tmp_path / TORCH_TRACE).mkdir(parents=True)
    text = "".join(program(f"{n}x64xf32", file=LIBRARY, line=134) for n in range(1, 7))
    (tmp_path / TORCH_TRACE / LOG).write_text(text)
    rows = analyze_run(tmp_path).compiles
    assert {(row.cause.kind, row.cause.source_file, row.cause.source_line) for row in rows} == {
        ("shape", "/home/me/train.py", 20)
    }


@pytest.mark.parametrize(("line", "source"), [(134, ("/home/me/train.py", 15)), (160, (LIBRARY, 160))])
def test_a_line_of_torch_is_named_by_the_line_that_the_capture_noted(tmp_path, line, source):
    """An eager call of some microseconds is in no sample. A line of another function keeps its own name."""
    session = tmp_path / "plugins" / "profile" / "one"
    session.mkdir(parents=True)
    training(6, compile_us=4000, ops=10).write(session / "vm.xplane.pb")
    (tmp_path / TORCH_TRACE).mkdir(parents=True)
    text = "".join(program(f"{n}x64xf32", file=LIBRARY, line=line) for n in range(1, 7))
    (tmp_path / TORCH_TRACE / LOG).write_text(text)
    calls = [
        {"file": LIBRARY, "first": 130, "last": 140, "source": "/home/me/train.py:15"},
        {"file": LIBRARY, "first": 1, "last": 150, "source": "/home/me/train.py:3"},
        {"file": LIBRARY, "first": "damaged"},
    ]
    info = {"schema": "tpuprof.run/1", "library_calls": calls}
    (tmp_path / "tpuprof" / "run.json").write_text(json.dumps(info))
    rows = analyze_run(tmp_path).compiles
    assert {(row.cause.source_file, row.cause.source_line) for row in rows} == {source}


def test_a_capture_keeps_the_logs_of_its_time(tmp_path, monkeypatch):
    logs, run = tmp_path / "logs", tmp_path / "run"
    logs.mkdir()
    (logs / LOG).write_text("new")
    (logs / LOG.replace("ab12", "old")).write_text("old")
    os.utime(logs / LOG.replace("ab12", "old"), (1, 1))
    keep(run, 1000.0)
    assert not run.exists()
    monkeypatch.setenv("TORCH_TRACE", str(logs))
    keep(run, 1000.0)
    assert [path.name for path in (run / TORCH_TRACE).iterdir()] == [LOG]


@pytest.mark.parametrize(("asked", "warned"), [(6, False), (7, True)])
def test_a_host_that_runs_ahead_of_its_compiles_is_warned_of(asked, warned):
    compiles = [Compile(row, "", "tt_jit_add", row, 1) for row in range(6)]
    records = [StepRecord(0, 0, captured=True, counters={"UncachedCompile": asked})]
    found = unseen_compiles(compiles, records)
    assert [("runs ahead of its compiles" in each) for each in found] == [True] * warned
