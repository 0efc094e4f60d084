"""`tpuprof capture -- COMMAND` on real scripts that know nothing of tpuprof."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests import scripts
from tpuprof.analysis.analyze import analyze_run

pytestmark = pytest.mark.torch_xla
ANOTHER = pytest.mark.slow("another real capture")

LOOP = """
for index in range(int(sys.argv[1])):
    train(); torch_xla.sync()
"""


def launch(folder, code, *args, options=(), prelude=True, **env):
    script = scripts.write(folder / "train.py", code, prelude=prelude)
    return scripts.capture(
        folder / "run", sys.executable, script, *args, options=options, env=scripts.environment(**env)
    )


def run_info(folder):
    return json.loads((folder / "run" / "tpuprof" / "run.json").read_text())


def test_an_unchanged_script_is_captured(tmp_path):
    done = launch(tmp_path, LOOP + "print('the end')", 16, options=["--steps", "5", "--name", "mine"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("the end")
    assert "capturing 5" in done.stderr
    assert next(iter((tmp_path / "run" / "plugins" / "profile").iterdir())).name == "mine"
    report = analyze_run(tmp_path / "run")
    assert report.steps.count == 5
    assert report.compiles == []
    info = run_info(tmp_path)
    assert info["capture"]["steps_captured"] == 5
    assert info["capture"]["overhead_seconds"]["waiting"] > 0
    telemetry = [json.loads(line) for line in next((tmp_path / "run" / "tpuprof").glob("telemetry.*")).open()]
    assert [row["captured"] for row in telemetry].count(True) == 5
    compiling = [row for row in telemetry if row["compiles"]]
    assert compiling
    assert any("train.py" in frame for frame in compiling[0]["compiles"][0]["frames"])
    captured = [row for row in telemetry if row["captured"]]
    assert all(
        row["counters"]["CreateXlaTensor"] > 0 and row["metrics"]["LazyTracing"][0] > 0 for row in captured
    )
    # The ops' scopes and lines are there although tracing ran without debugging while steps were captured.
    assert any("train.py" in row.source for row in report.sources)
    again = launch(tmp_path, LOOP, 16, options=["--name", "mine"])
    assert again.returncode == 2
    assert "[output-exists]" in again.stderr


@pytest.mark.slow("a second capture of the same loop")
def test_exit_status_and_output_pass_through(tmp_path):
    code = LOOP + "print('out'); print('err', file=sys.stderr); sys.exit(7)"
    done = launch(tmp_path, code, 14)
    assert done.returncode == 7
    assert done.stdout.endswith("out\n")
    assert "err\n" in done.stderr
    assert analyze_run(tmp_path / "run").steps.count == 8


def test_death_by_signal_is_told_as_a_shell_does(tmp_path):
    done = launch(tmp_path, "import os; os.kill(os.getpid(), 9)", prelude=False)
    assert done.returncode == 128 + signal.SIGKILL


def test_a_request_to_end_while_a_recording_ends_keeps_it(tmp_path):
    """The profiler had ended, and nothing knew yet where its file was: "what was recorded is lost"."""
    code = """
import signal
import torch_xla.debug.profiler as xp
ends = xp.stop_trace
def stop(*args):
    ends(*args)
    os.kill(os.getpid(), signal.SIGTERM)
xp.stop_trace = stop
"""
    done = launch(tmp_path, "import os\n" + code + LOOP, 40)
    assert done.returncode == 128 + signal.SIGTERM
    assert analyze_run(tmp_path / "run").steps.count == 8, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=ANOTHER)])
def test_what_was_captured_is_kept_when_told_to_stop(tmp_path, number):
    code = "index = 0\nwhile True:\n    train(); torch_xla.sync(); index += 1\n    print(index, flush=True)\n"
    script = scripts.write(tmp_path / "train.py", code)
    process = scripts.capture_begun(
        tmp_path / "run", sys.executable, script, options=["--steps", "1000000"], stderr=subprocess.PIPE
    )
    try:
        for line in process.stdout:
            if int(line) == 40:
                break
        process.send_signal(number)
        _, stderr = process.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode in (128 + number, 1, 130), stderr
    assert analyze_run(tmp_path / "run").steps.count >= 20


READS = "for _ in range(6):\n    torch.ones(3, device=torch_xla.device()).add(1).cpu()\n"


@pytest.mark.parametrize(
    ("code", "prelude", "steps", "expected"),
    [
        ("print('no xla here')", False, 0, "[capture-empty]"),
        pytest.param("torch_xla.sync()", True, 0, "[capture-no-steps]", marks=ANOTHER),
        pytest.param(READS, True, 0, "needs a tpuprof.step(i) for each batch", marks=ANOTHER),
        # It ends right when the recording begins.
        pytest.param(LOOP, True, 3, "[capture-never-steady]", marks=ANOTHER),
    ],
)
def test_nothing_captured_says_why_and_what_to_do(tmp_path, code, prelude, steps, expected):
    done = launch(tmp_path, code, steps, prelude=prelude)
    assert done.returncode == 2
    assert expected in done.stderr


@ANOTHER
def test_a_program_that_never_gets_steady_is_captured_with_a_warning(tmp_path):
    code = "for index in range(12):\n    train(index + 1); torch_xla.sync()\n"
    done = launch(tmp_path, code, options=["--patience", "5", "--steps", "3"])
    assert done.returncode == 0
    report = analyze_run(tmp_path / "run")
    assert [row.step for row in report.compiles] == [step.index for step in report.steps.per_step]
    assert {step.bound for step in report.steps.per_step} == {"compile"}
    assert len({row.graph_hash for row in report.compiles}) == 3
    graphs = {path.name for path in (tmp_path / "run" / "tpuprof" / "graphs").iterdir()}
    # The last step's program may run only after the capture has ended: then nothing tells which it was.
    told = {f"{row.graph_hash}.hlo.pb" for row in report.compiles if row.program}
    assert len(told) >= 2
    assert told <= graphs
    assert any(
        "never became steady" in note and note.endswith("and 3 of the 3 captured ones")
        for note in report.warnings
    )
    assert run_info(tmp_path)["capture"]["source_lines"]  # for what they compile
    assert not any("source line" in each.reason for each in report.measure_next)
    telemetry = [json.loads(line) for line in next((tmp_path / "run" / "tpuprof").glob("telemetry.*")).open()]
    hashes = [row["compiles"][0]["graph_hashes"] for row in telemetry if row["captured"]]
    assert hashes == [[row.graph_hash] for row in report.compiles]
    assert all("train.py" in row.frames[0] for row in report.compiles)


@ANOTHER
def test_tpuprof_step_in_the_program_takes_precedence_over_graph_cuts(tmp_path):
    code = """
for index in range(14):
    tpuprof.step(100 + index, samples=32)
    train(); torch_xla.sync()
    train(); torch_xla.sync()
"""
    done = launch(tmp_path, code, options=["--steps", "4"])
    assert done.returncode == 0, done.stderr
    report = analyze_run(tmp_path / "run")
    assert report.steps.count == 4
    assert all(step.index > 100 for step in report.steps.per_step)
    assert report.throughput.samples_per_step == 32
    seconds = sum(step.wall_ms for step in report.steps.per_step) / 1e3
    assert report.throughput.samples_per_s == pytest.approx(4 * 32 / seconds, rel=0.05)


def test_the_users_own_sitecustomize_still_runs(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os; os.environ['OWN_RAN'] = 'yes'")
    code = "import os; print(os.environ.get('OWN_RAN'))"
    done = launch(tmp_path, code, prelude=False, PYTHONPATH=f"{own}:{scripts.ROOT}")
    assert done.stdout.strip() == "yes"


@ANOTHER
def test_host_offload_on_the_cpu_device_is_explained(tmp_path):
    code = """
from torch_xla.experimental.stablehlo_custom_call import place_to_host, place_to_device
for index in range(3):
    x = torch.ones(64, 64, device=device) * index
    y = place_to_device(place_to_host(x)) + 1
    torch_xla.sync()
    print(y.sum().item())
"""
    done = launch(tmp_path, code)
    assert done.returncode != 0
    assert "Unknown custom-call API version" in done.stderr
    assert "[capture-host-offload-on-cpu]" in done.stderr


def test_a_command_that_does_not_exist(tmp_path):
    done = scripts.capture(tmp_path, "no-such-program", timeout=60)
    assert done.returncode == 2
    assert "no-such-program" in done.stderr


def test_usage(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "capture", "-o", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()[-7:]) == (2, "[usage]")


FALLBACK = """
indices = torch.arange(8, device=device)
for index in range(int(sys.argv[1])):
    counts = torch.bincount(indices)
    loss = train() + counts.sum(); torch_xla.sync()
"""


@pytest.mark.slow("the capture with graph cuts has a fallback too")
def test_the_line_of_a_fallback(tmp_path):
    done = launch(tmp_path, FALLBACK, 20, options=["--steps", "4"])
    assert done.returncode == 0, done.stderr
    (row,) = analyze_run(tmp_path / "run").fallbacks
    lines = (tmp_path / "train.py").read_text().splitlines()
    planted = 1 + next(number for number, line in enumerate(lines) if "torch.bincount" in line)
    assert (row.op, row.per_step) == ("aten::bincount", 1)
    assert row.source == f"{tmp_path / 'train.py'}:{planted}"


@pytest.mark.slow("two more real captures")
def test_without_source_lines_captured_steps_trace_as_usual(tmp_path):
    code = LOOP.replace("train();", "train(); shown.append(torch_xla._XLAC._get_ir_debug());")
    code = "import torch_xla\nshown = []\n" + code + "print('ON', sum(shown))"
    steps_on = []
    for options in (["--steps", "4"], ["--steps", "4", "--source-lines"]):
        done = launch(tmp_path, code, 14, options=[*options, "--force", "--name", "a"])
        assert done.returncode == 0, done.stderr
        steps_on.append(int(done.stdout.rpartition("ON ")[2]))
    assert steps_on[1] == steps_on[0] + 4
    assert run_info(tmp_path)["capture"]["source_lines"]
    assert any("--source-lines" in note for note in analyze_run(tmp_path / "run").warnings)


@ANOTHER
def test_what_the_users_ir_debugging_costs_is_measured(tmp_path):
    code = "shown = []\n" + LOOP.replace(
        "train();", "train(); shown.append(torch_xla._XLAC._get_ir_debug());"
    )
    code += "print('ON', *map(int, shown))"
    done = launch(tmp_path, code, 20, options=["--steps", "4"], XLA_IR_DEBUG="1")
    assert done.returncode == 0, done.stderr
    capture = run_info(tmp_path)["capture"]
    shown = [word == "1" for word in done.stdout.rpartition("ON ")[2].split()]
    assert [number for number, on in enumerate(shown) if not on] == capture["ir_debug_off_in_steps"]
    assert len(capture["ir_debug_off_in_steps"]) == 3
    (finding,) = [each for each in analyze_run(tmp_path / "run").findings if each.rule == "debug-flags-on"]
    assert [each.value > 0 for each in finding.evidence if "median step" in each.text] == [True, True]


CUTS = """
indices = torch.arange(8, device=device)
for index in range(int(sys.argv[1])):
    tpuprof.step(index)
    counts = torch.bincount(indices + 1)
    loss = forward_backward() + counts.sum()
    torch_xla.sync()  # first cut
    optimizer.step()
    torch_xla.sync()  # second cut
"""


def test_who_cuts_graphs_and_what_a_fallback_costs(tmp_path):
    done = launch(tmp_path, CUTS, 20, options=["--steps", "4"])
    assert done.returncode == 0, done.stderr
    report = analyze_run(tmp_path / "run")
    lines = (tmp_path / "train.py").read_text().splitlines()
    planted = {1 + number for number, line in enumerate(lines) if line.endswith(" cut")}
    syncs = [row for row in report.graph_cuts if row.call == "sync"]
    assert {row.source for row in syncs} == {f"{tmp_path / 'train.py'}:{number}" for number in planted}
    assert {row.per_step for row in syncs} == {1}
    # The op on the CPU needs its input's value, so torch_xla cuts a graph for it, by nobody's line.
    assert [(row.call, row.per_step) for row in report.graph_cuts if row.call != "sync"] == [
        ("aten::bincount", 1)
    ]
    (fallback,) = report.fallbacks
    assert 0 < fallback.ms_per_step < report.steps.median_ms


def test_a_process_that_is_left_behind_may_go_on_writing(tmp_path):
    """Without a reader its next line to stderr would end it (SIGPIPE)."""
    late = tmp_path / "late.txt"
    go = tmp_path / "go"
    script = f"(while [ ! -e {go} ]; do sleep 0.1; done; echo late >&2; echo done > {late}) & exit 0"
    command = scripts.capture_command(tmp_path / "run", "bash", "-c", script)
    done = subprocess.run(
        command, env=scripts.environment(), stderr=subprocess.DEVNULL, timeout=120, check=False
    )
    assert done.returncode == 2
    go.touch()
    until = time.monotonic() + 60
    while not late.exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert late.read_text("utf-8") == "done\n"


@ANOTHER
def test_a_profiler_that_the_program_has_on_does_not_see_the_capture_written(tmp_path):
    """torch.profiler with stacks recorded our own work: the step in which it wrote took 29 s instead of 1.4."""
    code = """
seen = set()
sys.setprofile(lambda frame, event, _: seen.add(frame.f_code.co_filename.replace("\\\\", "/")))
for index in range(20):
    train(); torch_xla.sync()
sys.setprofile(None)
print("seen", sum("/tpuprof/model/" in path for path in seen))
"""
    done = launch(tmp_path, code, options=["--steps", "4"])
    assert done.returncode == 0, done.stderr
    assert "seen 0" in done.stdout
    assert len(analyze_run(tmp_path / "run").steps.per_step) == 4
