"""What is put back after a capture, and what is left to the program."""

import signal

import pytest

from tpuprof.instrument.state import STATE, from_signal_handler, note_failure
from tpuprof.instrument.wrapped_calls import Replaced


class Owner:
    def call(self):
        return "own"


@pytest.fixture
def replaced():
    found = Replaced()
    found.replace(Owner, "call", lambda call: lambda self: f"wrapped {call(self)}")
    yield found
    Owner.call = _OWN


_OWN = Owner.call


def test_ours_is_taken_away(replaced):
    assert Owner().call() == "wrapped own"
    replaced.put_back()
    assert Owner.call is _OWN


def test_what_the_program_put_in_its_place_stays(replaced):
    def theirs(self):
        return "theirs"

    Owner.call = theirs
    replaced.put_back()
    assert Owner.call is theirs


class AlarmError(Exception):
    pass


@pytest.fixture
def alarm():
    def handler(*_):
        raise AlarmError

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def armed(monkeypatch):
    monkeypatch.setattr(STATE, "armed", True)
    monkeypatch.setattr(STATE, "notes", [])


def test_what_a_handler_of_the_program_raises_goes_on_to_it(alarm, armed):
    with pytest.raises(AlarmError):
        try:
            signal.raise_signal(signal.SIGUSR1)
        except Exception as error:
            note_failure("our work", error)
    assert STATE.armed and not STATE.notes


def test_an_error_of_ours_ends_with_us(alarm, armed):
    note_failure("our work", AlarmError("no handler raised it"))
    assert not STATE.armed
    assert STATE.notes == [
        "our work failed and instrumentation was switched off: AlarmError: no handler raised it"
    ]
    assert not from_signal_handler(ValueError())
