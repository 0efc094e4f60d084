"""What dynamo noted of breaks and recompiles, as torch 2.13 notes it."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tpuprof.capture import dynamo

WHY = "Skip calling `torch.compiler.disable()`d function\n  Explanation: at length"


def compiled(name, line, *, restart=(), fail=None, recompile=None):
    return SimpleNamespace(
        co_name=name, co_filename="train.py", co_firstlineno=line, is_forward=True,
        restart_reasons=set(restart), fail_reason=fail, recompile_reason=recompile,
    )  # fmt: skip


@pytest.fixture
def noted(monkeypatch):
    def give(rows):
        utils = ModuleType("torch._dynamo.utils")
        utils.get_compilation_metrics = lambda: rows
        monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
        return dynamo.notes()

    return give


def test_a_break_has_the_line_at_which_the_function_goes_on_and_the_reason_of_the_part_before(noted):
    found = noted(
        [compiled("forward", 13, restart=[WHY]), compiled("torch_dynamo_resume_in_forward_at_16", 16)]
    )
    reason = "Skip calling `torch.compiler.disable()`d function"
    assert found == {"breaks": [{"source": "train.py:16", "reason": reason, "function": "forward"}]}


def test_a_function_that_was_given_up_is_a_break_at_its_beginning(noted):
    found = noted([compiled("forward", 13, fail="graph break in <function f at 0x7f84b5a54e00>\nmore")])
    assert found["breaks"][0] == {
        "source": "train.py:13", "reason": "graph break in <function f>", "function": "forward"
    }  # fmt: skip


def test_recompiles_have_their_reason(noted):
    found = noted([compiled("forward", 13, recompile="0/0: tensor 'x' size mismatch at index 0")])
    assert found == {
        "recompiles": [{"source": "train.py:13", "reason": "0/0: tensor 'x' size mismatch at index 0"}]
    }


def test_another_release_of_torch_gives_nothing(noted):
    assert noted([SimpleNamespace(name="no such fields")]) == {}


def test_a_break_in_our_own_wrapper_of_a_read_is_none_of_the_program(noted):
    own = compiled("wrapped", 127, fail="Attempted to call function marked as skipped")
    own.co_filename = str(Path(dynamo.__file__).parents[1] / "instrument" / "host_events.py")
    assert [each["source"] for each in noted([own, compiled("forward", 13, fail="a branch")])["breaks"]] == [
        "train.py:13"
    ]


@pytest.mark.parametrize(("times", "said"), [(6, False), (7, True)])
def test_a_function_that_was_compiled_as_often_as_it_may_is_told(monkeypatch, noted, times, said):
    config = ModuleType("torch._dynamo.config")
    config.recompile_limit = 8
    monkeypatch.setitem(sys.modules, "torch._dynamo.config", config)
    rows = [compiled("power", 8, recompile=f"0/{at}: k == 2.00{at}   # return z**k") for at in range(times)]
    notes = noted(rows)
    found = dynamo.warnings(notes)
    assert len(found) == len(notes.get("limits", [])) == said
    if said:
        assert notes["limits"] == [{"source": "train.py:8", "times": "8", "reason": "0/6: k == 2.006"}]
        assert "at train.py:8 8 times" in found[0]
        assert found[0].endswith("this did not hold: 0/6: k == 2.006")


def test_graphs_that_dynamo_makes_are_seen_step_by_step(monkeypatch):
    """It compiled in each of eight steps, which no counter of torch_xla showed: they were captured as steady."""
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    new = dynamo.NewGraphs()
    assert not new.came()
    utils = ModuleType("torch._dynamo.utils")
    utils.counters = {}
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
    assert not new.came()
    utils.counters["stats"] = {"unique_graphs": 2}
    assert [new.came(), new.came()] == [True, False]
    utils.counters["stats"] = "not as it was"
    assert new.came()
    assert not new.came()
