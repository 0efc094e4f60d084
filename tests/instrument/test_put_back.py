"""What is put back after a capture, and what is left to the program."""

import pytest

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
