"""Commands of the docs: each is one that the command line takes; those that need no training are run, and what a page
prints below a command is what the command prints.
"""

import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tests.goodput.test_account import attempt
from tests.ledger.test_ledger import FakeClock
from tpuprof.cli.main import app
from tpuprof.errors import TpuprofError
from tpuprof.instrument.call_watch import Event
from tpuprof.prove.experiment import Outcome
from tpuprof.prove.prediction import Prediction
from tpuprof.prove.proof import sentence
from tpuprof.prove.timing import BY_STEPS
from tpuprof.testing.expect import ExpectationError, _too_many

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_traces"
PAGES = [
    ROOT / "README.md", *sorted(set((ROOT / "docs").glob("*.md")) - set((ROOT / "docs").glob("*.head.md"))), *sorted((ROOT / "docs" / "rules").glob("*.md")),
    SAMPLES / "README.md",
]  # fmt: skip
GROUP = get_command(app)
# What runs that pages speak of are here, and the folder of a watched job.
RUNS = {
    "runs/first": "device_to_host_sync", "runs/second": "decoder_scan", "runs/capture": "recompile_shapes",
    "path/to/logdir": "decoder_loop", "RUN": "device_to_host_sync", "BASE": "device_to_host_sync", "CANDIDATE": "decoder_scan",
}  # fmt: skip
JOB = "runs/job"
# Commands that read files alone, and end.
OFFLINE = {"analyze", "report", "diff", "check", "query", "export", "rules", "goodput", "history"}
# The others start programs, servers or compilers: the test that runs each for real.
RUN_BY = {
    "capture": "tests/capture/test_launch.py",
    "watch": "tests/watch/test_watch_command.py",
    "prove": "tests/prove/test_prove.py",
    "preflight": "tests/preflight/test_command.py",
    "dashboard": "tests/dashboard/test_security.py",
    "mcp": "tests/mcp/test_server.py",
    "tensorboard": "tests/export/test_tensorboard.py",
    "demo": "tests/cli/test_demo.py",
}
# A run in a bucket, or on a machine of a pod, is not here; tests/storage and tests/pod read theirs. README's first run is of
# a real TPU, and test_docs.py compares its block. test_tutorial.py captures the runs of the tutorial.
ELSEWHERE = re.compile(
    r"runs/host_offload|gs://|s3://|/mnt/|/shared/|--hosts|--dask|--follow|--base|\bcase\b"
)


def commands(text):
    """Each command of a page with the lines that it prints there: in console blocks, and in indented ones."""
    found, printed, block = [], None, ""
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line.startswith("```"):
            block, printed = ("" if block else line.strip("`") or "plain"), None
            continue
        command = re.match(r"\$ (tpuprof .*)" if block == "console" else r" {4}(?:\$ )?(tpuprof .*)", line)
        if command and (block == "console" or not block):
            printed = []
            found.append((command[1], printed))
        elif block == "console" and printed is not None:
            printed.append(line) if not line.startswith("$ ") else (printed := None)
    return found


def words(command):
    """A command as a shell takes it, behind `tpuprof`; marks of what may be left out count as given."""
    prose = re.split(r"\s{3,}(?!#)", command)[0]
    taken = shlex.split(re.sub(r"[\[\]|]", " ", prose) if "[-" in prose else prose, comments=True)
    return taken[1 : taken.index(">")] if ">" in taken else taken[1:]


ALL = [(page, command, printed) for page in PAGES for command, printed in commands(page.read_text("utf-8"))]
DISTINCT = {command: (page, command) for page, command, _ in ALL}
HERE = [
    (page, command, printed)
    for page, command, printed in ALL
    if words(command)[0] in OFFLINE and not ELSEWHERE.search(command) and words(command)[-1] != "nowhere"
]


def test_pages_have_commands():
    assert len(DISTINCT) >= 60
    assert len(HERE) >= 20


@pytest.mark.parametrize(("page", "command"), DISTINCT.values(), ids=DISTINCT)
def test_the_command_line_takes_each_command(page, command):
    name, *rest = words(command)
    GROUP.commands[name].make_context(name, list(rest))


def test_a_command_that_does_not_exist_is_found():
    with pytest.raises(KeyError):
        GROUP.commands["analyse"]
    with pytest.raises(Exception, match="--jason"):
        GROUP.commands["analyze"].make_context("analyze", ["RUN", "--jason"])


@pytest.mark.parametrize("name", sorted({words(command)[0] for _, command, _ in ALL} - OFFLINE))
def test_what_is_not_run_here_is_run_by_another_test(name):
    assert re.search(rf"[\"' ]{name}\b", (ROOT / RUN_BY[name]).read_text("utf-8"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder in which the runs that pages speak of are there, with a job, and the budget of check.md."""
    folder = tmp_path_factory.mktemp("docs")
    for name, sample in RUNS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(SAMPLES / sample)
    clock = FakeClock()
    attempt(folder / JOB, clock, "a", 1, 50, lost=0.5)
    clock.now += 120 * 10**9
    attempt(folder / JOB, clock, "b", 41, 100, close="exit", compile_us=200_000, input_us=100_000)
    budget = (ROOT / "docs" / "check.md").read_text("utf-8").split("```toml\n")[1].split("```")[0]
    (folder / "tpuprof.toml").write_text(budget)
    return folder


def shown(taken):
    """What a command prints on both streams, and its exit status."""
    done = CliRunner(env={"COLUMNS": "120", "TPUPROF_BASE": ""}).invoke(app, taken)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return [line.rstrip() for line in done.output.splitlines()], done.exit_code


@pytest.mark.parametrize(
    ("page", "command", "printed"), HERE, ids=[f"{page.name}: {line}" for page, line, _ in HERE]
)
def test_a_command_that_needs_no_training_runs_and_prints_what_its_page_shows(
    page, command, printed, place, monkeypatch
):
    monkeypatch.chdir(place)
    synopsis = {"FILE": "found.xml"}
    taken = [synopsis.get(each, each) for each in words(command)]
    if taken[0] == "export" or "-o" in taken:
        taken.append("--force")
    try:
        lines, status = shown(taken)
    except TpuprofError as error:
        pytest.fail(f"{command}: {error}")
    assert status in (0, 1, 2, 4) if taken[0] in ("diff", "check") else status == 0
    assert lines
    rest = iter(lines)
    for line in printed:
        assert line in ("", "...") or line.rstrip() in rest, (
            f"{page.name}: {line!r} is not printed (or not there)"
        )


def test_the_block_of_a_proof_is_what_is_printed():
    tried = SimpleNamespace(
        outcome=Outcome.CONFIRMED,
        before_ms=88.1,
        before=[SimpleNamespace(read_from=BY_STEPS)],
        saving=SimpleNamespace(mean=21.4, low=18.0, high=24.8),
        losses=True,
        reason="",
    )
    text = (ROOT / "docs" / "prove.md").read_text("utf-8")
    assert (
        sentence(tried, Prediction(20.0, 25.0, 91.2))
        in text.split("```console\n")[1].split("```")[0].splitlines()
    )


def test_the_block_of_an_expectation_is_what_is_printed():
    change = "graph cut; shape: s64[4,33] became s64[4,41] in to at data.py:12"
    events = [Event("read", 1, "train.py:33", step, "item") for step in range(6)]
    problems = [
        *_too_many("recompiles", 0, [Event("compile", 1, "train.py:31", 4, change)]),
        *_too_many("device_to_host_syncs", 0, events),
    ]
    text = (ROOT / "docs" / "testing.md").read_text("utf-8")
    assert str(ExpectationError(problems)).strip() == text.split("```text\n")[1].split("```")[0].strip()
