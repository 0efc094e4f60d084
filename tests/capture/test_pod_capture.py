"""Several hosts capture at once: they begin at the same step, and one that does not answer is named."""

import json
import os
import random
import shlex
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tpuprof.capture.board import Board, folder_of, forget
from tpuprof.capture.pod import place_of, problems, read_hosts, start_all
from tpuprof.capture.together import AHEAD_SECONDS, NO_STEPS, PATIENCE_SECONDS, TRIES, Together
from tpuprof.cli.capture_pod import hosts_of
from tpuprof.cli.main import app
from tpuprof.errors import Code, TpuprofError


class Clock:
    """A clock that tests move."""

    now = 0.0

    def __call__(self):
        return self.now


def train(members, clock, steps, *, seconds=0.5, steady=None, looks=lambda number, seen: True, told=None):
    """Lets hosts step in turn, and look at the board after each; at which step each began."""
    began = {}
    for seen in range(1, steps):
        clock.now += seconds
        for number, member in members.items():
            if number in began or seen < (steady or {}).get(number, 1):
                continue
            if member.may_start(seen, (told if told is not None else []).append):
                began[number] = seen
            elif looks(number, seen):
                member.look()
    return began


def member_of(folder, number, count, clock):
    return Together(Board(folder), number, count, clock, threaded=False)


def hosts(folder, count, clock, there=None):
    return {number: member_of(folder, number, count, clock) for number in (there or range(count))}


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


@pytest.mark.parametrize("last", [0, 1])
def test_the_last_to_be_steady_knows_how_long_steps_take_before_it_names_one(tmp_path, last):
    clock = Clock()
    members = hosts(tmp_path, 2, clock)
    began = train(members, clock, 4000, seconds=0.01, steady={last: 50})
    assert len(set(began.values())) == 1
    assert began[last] >= 50 + 0.8 * AHEAD_SECONDS / 0.01
    assert {member.note for member in members.values()} == {""}


def test_without_the_first_host_the_others_begin_together_and_say_so(tmp_path):
    clock = Clock()
    members = hosts(tmp_path, 3, clock, there=(1, 2))
    began = train(members, clock, 400)
    assert len(began) == 2
    assert len(set(began.values())) == 1
    assert "1 of 3 hosts were not steady in 60 s (in the list of hosts: 1)" in {
        member.note for member in members.values()
    }


def test_a_host_whose_minute_is_over_first_does_not_begin_without_the_others(tmp_path):
    clock = Clock()
    members = hosts(tmp_path, 3, clock, there=(0, 1))
    began = train(members, clock, 400, steady={0: 40})
    assert len(set(began.values())) == 1
    assert began[0] * 0.5 >= PATIENCE_SECONDS


def test_several_processes_of_one_host(tmp_path):
    clock = Clock()
    members = {
        **hosts(tmp_path, 2, clock),
        "again": member_of(tmp_path, 0, 2, clock),
    }
    began = train(members, clock, 60, steady={1: 9, "again": 12})
    assert len(began) == 3
    assert len(set(began.values())) == 1


def late_one(folder, clock, before, at):
    """A process that joins when the others have agreed, and could begin before the step or only after so many."""
    other = member_of(folder, 1, 2, clock)
    for seen in before:
        clock.now += 1
        assert not other.may_start(seen)
        other.look()
    assert other.may_start(at)
    return other


def test_one_that_cannot_begin_at_the_agreed_step_says_so(tmp_path):
    clock = Clock()
    agreed = train(hosts(tmp_path, 2, clock), clock, 60)[0]
    # It compiled meanwhile.
    other = late_one(tmp_path, clock, [agreed - 3, agreed - 2, agreed - 1], agreed + 5)
    assert other.note == "this host began 5 steps after the agreed one"


def test_one_that_comes_when_all_is_over_says_by_how_much(tmp_path):
    clock = Clock()
    agreed = train(hosts(tmp_path, 2, clock), clock, 60)[0]
    other = late_one(tmp_path, clock, [agreed + 1, agreed + 2], agreed + 4)
    assert other.note == "this host began 4 steps after the agreed one"


def test_where_one_has_passed_the_step_all_agree_again_and_say_so(tmp_path):
    clock, told = Clock(), []
    members = hosts(tmp_path, 2, clock)
    # The first host does not get to look while the second one names a step.
    began = train(
        members, clock, 200, looks=lambda number, seen: number == 1 or seen < 4 or seen > 20, told=told
    )
    assert len(began) == 2
    assert len(set(began.values())) == 1
    assert began[0] > 20
    assert any("agree on a step again: host 1 (in the list of hosts)" in each for each in told), told


def test_who_has_ended_is_not_waited_for(tmp_path):
    clock = Clock()
    members = hosts(tmp_path, 3, clock)
    began = train(members, clock, 400, looks=lambda number, seen: number != 2 or seen < 4)
    assert began[0] == began[1]
    assert {member.note for member in (members[0], members[1])} == {""}


def test_hosts_that_never_agree_begin_by_themselves(tmp_path):
    clock = Clock()
    members = hosts(tmp_path, 2, clock)
    for number in range(1, TRIES + 1):
        tmp_path.joinpath(f"decision.{number}").write_text("again", "utf-8")
    assert len(train(members, clock, 400)) == 2
    assert "did not agree" in members[0].note


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whenever_each_looks_all_begin_at_one_step_or_say_that_they_did_not(seed):
    """A loaded machine: steps of any length, threads that get to look now and then; training is in step."""
    chance = random.Random(seed)
    share = [chance.choice([0.02, 0.1, 0.5, 1.0]) for _ in range(3)]
    steady = {number: chance.randint(1, 30) for number in range(3)}
    seconds = chance.choice([0.02, 0.1, 2.0])
    clock = Clock()
    with tempfile.TemporaryDirectory() as place:
        members = hosts(Path(place), 3, clock)
        began = train(
            members,
            clock,
            20_000,
            seconds=seconds,
            steady=steady,
            looks=lambda number, _: chance.random() < share[number] * min(seconds / 0.2, 1),
        )
    assert len(began) == 3
    agreed = min(began.values())
    for number, seen in began.items():
        assert seen == agreed or members[number].note


def test_without_steps_each_is_recorded_by_its_own_clock(tmp_path):
    said = []
    assert member_of(tmp_path, 1, 2, Clock()).may_start(0, said.append)
    assert said == [NO_STEPS]


def test_what_was_agreed_before_is_forgotten(tmp_path):
    folder = folder_of(tmp_path, "again")
    clock = Clock()
    before = train(hosts(folder, 2, clock), clock, 60)
    forget(folder)
    assert not folder.exists()
    members = hosts(folder, 2, clock)
    assert train(members, clock, 200, steady={0: 100})[0] > before[0]
    assert {member.note for member in members.values()} == {""}


def test_a_capture_of_a_pod_removes_what_was_agreed_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = folder_of(tmp_path / "run", "again")
    folder.mkdir(parents=True)
    (folder / "step.1").write_text("10", "ascii")
    (tmp_path / "hosts.txt").write_text("one\n", "utf-8")
    reach = "sh -c 'test ! -e run/tpuprof/pod/again/step.1' {host} {command}"
    done = CliRunner().invoke(
        app, ["capture", "--pod", "hosts.txt", "--ssh", reach, "-o", "run", "--name", "again", "--", "true"]
    )
    assert done.exit_code == 0, done.output


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    clock = Clock()
    members = {0: member_of(tmp_path / "file" / "below", 0, 2, clock)}
    assert train(members, clock, 10) == {0: 4}
    assert "did not agree" in members[0].note


def test_a_file_system_without_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    board = Board(tmp_path)
    assert board.settle("step.1", "one") == "one"
    assert board.settle("step.1", "another") == "one"
    assert board.names() == {"step.1"}


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


GCLOUD = """#!/bin/sh
echo "$@" >> "$GCLOUD_SAID"
[ "$4" = describe ] && [ "$5" = small ] && echo '{"networkEndpoints": [{"ipAddress": "10.0.0.1"}, {"ipAddress": "10.0.0.2"}]}' && exit
[ "$4" = describe ] && echo "ERROR: (gcloud) NOT_FOUND: no such TPU" >&2 && exit 1
for word; do case "$word" in --command=*) exec sh -c "${word#--command=}";; esac; done
"""


@pytest.fixture
def gcloud(tmp_path, monkeypatch):
    """A program in place of gcloud that knows one TPU of two workers; the file with what it was asked."""
    place = tmp_path / "bin" / "gcloud"
    place.parent.mkdir()
    place.write_text(GCLOUD, "utf-8")
    place.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GCLOUD_SAID", str(tmp_path / "said"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "said"


def test_a_tpu_vm_is_captured_on_all_its_workers(gcloud, capfd):
    names, ssh, label = hosts_of(None, "small", "us-central2-b", "")
    command = [
        sys.executable,
        "-c",
        "import os, sys; print(os.environ['TPUPROF_POD'], sys.argv[1])",
        "two words",
    ]
    members = start_all(names, ssh, command, label=label)
    assert [(member.name, member.status, member.last) for member in members] == [
        ("small worker 0", 0, "0/2 two words"),
        ("small worker 1", 0, "1/2 two words"),
    ]
    asked = gcloud.read_text("utf-8").splitlines()
    assert asked[0] == "compute tpus tpu-vm describe small --zone=us-central2-b --format=json"
    assert any("ssh small --zone=us-central2-b --quiet --worker=1 --command=" in each for each in asked)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--tpu-name", "none"], Code.CAPTURE_CONNECT, "no such TPU"),
        (["--tpu-name", "--worker=all"], Code.USAGE, "is no name"),
        (["--tpu-name", "small", "--zone", "a b"], Code.USAGE, "is no name"),
        (["--zone", "us-central2-b"], Code.USAGE, "two ways"),
        (["--tpu-name", "small", "--ssh", "ssh"], Code.USAGE, "two ways"),
    ],
)
def test_what_is_no_tpu_vm(gcloud, options, code, said):
    given = dict(zip(options[::2], options[1::2], strict=True))
    with pytest.raises(TpuprofError, match=said) as caught:
        hosts_of(None, given.get("--tpu-name", ""), given.get("--zone", ""), given.get("--ssh", ""))
    assert caught.value.code is code


def test_without_gcloud(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TpuprofError, match="gcloud cannot be started"):
        hosts_of(None, "small", "", "")


TRAIN = '''
import glob, os, time, torch, torch_xla

def together(step):
    """As a collective would: no process is a step ahead of the other."""
    open(f"at.{os.getpid()}.{step}", "w").close()
    until = time.monotonic() + 60
    while len(glob.glob(f"at.*.{step}")) < 2 and time.monotonic() < until and not os.path.exists("over"):
        time.sleep(0.005)

model = torch.nn.Linear(8, 8).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3000):
    optimizer.zero_grad()
    model(torch.ones(4, 8, device="xla")).sum().backward()
    optimizer.step()
    torch_xla.sync()
    together(step)
    if os.path.exists("over") or len(glob.glob("run/tpuprof/telemetry.*.jsonl")) == 2:
        open("over", "w").close()
        break
    time.sleep(0.03)
'''


@pytest.mark.torch_xla
def test_two_processes_record_the_same_steps(tmp_path, monkeypatch):
    pytest.importorskip("torch_xla")
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    monkeypatch.chdir(tmp_path)
    one, two = steps_of_two(tmp_path)
    assert one == two != []


def steps_of_two(folder):
    """The steps that each of two processes recorded."""
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
