"""Several hosts capture at once: they begin at the same step, and one that does not answer is named."""

import shlex
import sys
import threading

import pytest

from tpuprof.capture.pod import place_of, problems, read_hosts, start_all
from tpuprof.capture.together import AHEAD_SECONDS, PATIENCE_SECONDS, Together
from tpuprof.errors import Code, TpuprofError


class Clock:
    """A clock that tests move."""

    now = 0.0

    def __call__(self):
        return self.now


def train(members, clock, steps, *, seconds=0.5, steady=None):
    """Lets hosts step in turn; at which step each began."""
    began = {}
    for seen in range(1, steps):
        clock.now += seconds
        for number, member in members.items():
            if number not in began and seen >= (steady or {}).get(number, 1) and member.may_start(seen):
                began[number] = seen
    return began


def hosts(folder, count, clock, there=None):
    return {number: Together(folder, number, count, clock) for number in (there or range(count))}


def test_all_hosts_begin_at_the_same_step(tmp_path):
    clock = Clock()
    members = hosts(tmp_path, 4, clock)
    began = train(members, clock, 60, steady={0: 3, 1: 9, 2: 5, 3: 7})
    assert len(began) == 4
    assert len(set(began.values())) == 1
    assert began[0] >= 9 + AHEAD_SECONDS / 0.5
    assert {member.note for member in members.values()} == {""}


def test_the_agreed_step_lies_ahead_by_time_where_steps_are_short(tmp_path):
    clock = Clock()
    began = train(hosts(tmp_path, 2, clock), clock, 4000, seconds=0.01, steady={1: 50})
    assert len(set(began.values())) == 1
    assert began[0] >= 50 + 0.8 * AHEAD_SECONDS / 0.01


def test_a_host_that_never_comes_is_waited_for_so_long_and_named(tmp_path):
    clock = Clock()
    members = hosts(tmp_path, 3, clock, there=(0, 1))
    began = train(members, clock, 400)
    assert len(set(began.values())) == 1
    assert began[0] * 0.5 >= PATIENCE_SECONDS
    assert "1 of 3 hosts" in members[0].note


def test_without_the_first_host_each_begins_by_itself_and_says_so(tmp_path):
    clock = Clock()
    members = hosts(tmp_path, 3, clock, there=(1, 2))
    assert len(train(members, clock, 400)) == 2
    assert all("named no step" in member.note for member in members.values())


def test_one_that_looks_too_late_says_by_how_much(tmp_path):
    (tmp_path / "start").write_text("10", "ascii")
    member = Together(tmp_path, 1, 2, Clock())
    assert member.may_start(14)
    assert "4 steps after" in member.note


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    member = Together(tmp_path / "file" / "below", 0, 2, Clock())
    assert member.may_start(5)
    assert "could not agree" in member.note


@pytest.mark.parametrize(("text", "place"), [("3/8", (3, 8)), ("", (0, 1)), ("8/8", (0, 1)), ("x/2", (0, 1))])
def test_which_host_this_is(text, place):
    assert place_of(text) == place


def test_the_list_of_hosts(tmp_path):
    path = tmp_path / "hosts.txt"
    path.write_text("# workers\nt1v-0\nuser@t1v-1  # the second\n\n", "utf-8")
    assert read_hosts(path) == ["t1v-0", "user@t1v-1"]


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x\n", "a b\n", "a\na\n"])
def test_what_is_no_list_of_hosts(tmp_path, text):
    path = tmp_path / "hosts.txt"
    path.write_text(text, "utf-8")
    with pytest.raises(TpuprofError) as caught:
        read_hosts(path)
    assert caught.value.code is Code.USAGE


def test_a_missing_list(tmp_path):
    with pytest.raises(TpuprofError, match="list of hosts"):
        read_hosts(tmp_path / "none")


def test_every_host_runs_the_command_and_failures_are_named(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    program = (
        "import os, sys; place = os.environ['TPUPROF_POD']; print('here', place, sys.argv[1]);"
        "sys.exit(7 if place == '1/3' else 0)"
    )
    members = start_all(
        ["a", "b", "c"], "sh -c {command}", [sys.executable, "-c", program, "two words; $(x)"]
    )
    assert [member.status for member in members] == [0, 7, 0]
    shown = capfd.readouterr().err
    assert "[a] here 0/3 two words; $(x)" in shown
    assert "[c] here 2/3" in shown
    [error] = problems(members)
    assert error.code is Code.CAPTURE_MISSING_HOST
    assert str(error).startswith("b: its capture ended with status 7. Its last words: here 1/3")


def test_a_host_that_does_not_answer_is_named_and_left(tmp_path):
    script = tmp_path / "reach"
    script.write_text('#!/bin/sh\n[ "$1" = dead ] && exec sleep 600\nexec sh -c "$2"\n', "utf-8")
    script.chmod(0o755)
    members = start_all(["alive", "dead"], shlex.quote(str(script)), ["true"], grace=0.3)
    assert [member.status for member in members] == [0, None]
    assert [str(each) for each in problems(members)] == [
        "dead: it did not answer. Look at that host. [capture-missing-host]"
    ]
    assert threading.active_count() < 50


def test_what_cannot_be_started_is_an_error():
    with pytest.raises(TpuprofError, match="--ssh"):
        start_all(["a"], "/nowhere/ssh {host} {command}", ["true"])


TRAIN = '''
import glob, os, time, torch, torch_xla

def together(step):
    """As a collective would: no process is a step ahead of the other."""
    open(f"at.{os.getpid()}.{step}", "w").close()
    until = time.monotonic() + 60
    while len(glob.glob(f"at.*.{step}")) < 2 and time.monotonic() < until:
        time.sleep(0.005)

model = torch.nn.Linear(8, 8).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(220):
    optimizer.zero_grad()
    model(torch.ones(4, 8, device="xla")).sum().backward()
    optimizer.step()
    torch_xla.sync()
    together(step)
    time.sleep(0.03)
'''


# A machine with other work may keep one process from being steady when the other is.
ATTEMPTS = 3


@pytest.mark.torch_xla
def test_two_processes_record_the_same_steps(tmp_path, monkeypatch):
    pytest.importorskip("torch_xla")
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    captured = []
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        monkeypatch.chdir(folder)
        captured.append(steps_of_two(folder))
        if captured[-1][0] == captured[-1][1] != []:
            return
    pytest.fail(f"the processes recorded other steps each time: {captured}")


def steps_of_two(folder):
    """The steps that each of two processes recorded."""
    import json

    from typer.testing import CliRunner

    from tpuprof.cli.main import app

    (folder / "train.py").write_text(TRAIN, "utf-8")
    (folder / "hosts.txt").write_text("one\ntwo\n", "utf-8")
    script = folder / "reach"
    script.write_text('#!/bin/sh\nexec sh -c "$2"\n', "utf-8")
    script.chmod(0o755)
    command = [
        "capture",
        "--pod",
        "hosts.txt",
        "--ssh",
        str(script),
        "-o",
        "run",
        "--",
        sys.executable,
        "train.py",
    ]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    found = sorted((folder / "run" / "tpuprof").glob("telemetry.*.jsonl"))
    assert len(found) == 2
    return [
        [row["step"] for row in map(json.loads, path.read_text("utf-8").splitlines()) if row["captured"]]
        for path in found
    ]
