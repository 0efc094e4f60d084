"""Several hosts agree on the step at which all of them begin to capture."""

import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tpuprof.capture.board import Board, folder_of, forget
from tpuprof.capture.together import AHEAD_SECONDS, NO_STEPS, PATIENCE_SECONDS, TRIES, Together
from tpuprof.cli.main import app


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
