"""What is put around a call of the program's changes nothing of it, and adds no Python frame where it is compiled."""

import sys
import traceback
import warnings

import pytest

from tpuprof.instrument.wrapped_calls import frameless, with_frame

compiled = pytest.mark.skipif(frameless is with_frame, reason="the native module is not built")
BOTH = pytest.mark.parametrize("around", [pytest.param(frameless, marks=compiled), with_frame])


class Owner:
    def __init__(self):
        self.ended = []

    def before(self, args, kwargs):
        return kwargs.get("event", args[-1] if args else None)


def given(*args, **kwargs):
    return args, kwargs


def failing(*args, **kwargs):
    raise KeyError(args)


@BOTH
@pytest.mark.parametrize(
    ("args", "kwargs", "ended"), [((1, "e"), {"a": 2}, ["e"]), ((None,), {}, []), ((), {"event": 5}, [5])]
)
def test_a_call_gets_and_gives_what_it_did(around, args, kwargs, ended):
    owner = Owner()
    call = around(given, owner.before, owner.ended.append)
    assert call(*args, **kwargs) == (args, kwargs)
    assert owner.ended == ended


@BOTH
def test_an_exception_of_the_program_passes_and_ends_the_event(around):
    owner = Owner()
    with pytest.raises(KeyError) as found:
        around(failing, owner.before, owner.ended.append)("e")
    assert found.value.args == (("e",),)
    assert found.value.__context__ is None
    assert owner.ended == ["e"]


@BOTH
def test_as_a_method_it_gets_its_object(around):
    owner = Owner()

    class Tensor:
        item = around(lambda tensor, more: (type(tensor).__name__, more), owner.before, owner.ended.append)
        __bool__ = around(lambda tensor: True, lambda args, kwargs: None, owner.ended.append)

    assert Tensor().item(3) == ("Tensor", 3)
    assert bool(Tensor())
    assert owner.ended == [3]


@compiled
def test_a_warning_names_the_line_of_the_program():
    """C++ code of torch warns of the Python frame that called it: `tpuprof/instrument/host_events.py:137` was named."""
    owner = Owner()
    warn = frameless(warnings.warn, owner.before, owner.ended.append)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn("casting complex values")
    assert [each.filename for each in found] == [__file__]
    assert owner.ended == ["casting complex values"]


@compiled
def test_no_frame_is_added():
    assert (
        frameless(sys._getframe, lambda args, kwargs: None, print)().f_code.co_name
        == "test_no_frame_is_added"
    )
    stack = frameless(traceback.extract_stack, lambda args, kwargs: "event", lambda span: None)()
    assert stack[-1].name == "test_no_frame_is_added"
