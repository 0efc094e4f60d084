"""Compiles that looks at the training thread see after a recording by the clock."""

from types import SimpleNamespace

import pytest

from tests.rules.given import given, steps
from tpuprof.analysis.sections.compiles_elsewhere import MOST_FROM_SHARE, compiles_elsewhere, said_of_looks
from tpuprof.model.compile import later_looks
from tpuprof.model.compile.later_looks import LATE, LOOKS_FROM, OCCASIONS_FROM, compiling_looks
from tpuprof.model.decisions import Decisions
from tpuprof.model.long_later import FROM_SHARE
from tpuprof.model.step_times import StepTimes
from tpuprof.own_events import LOOK_COMPILES, LOOK_WORKS
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of

LINE = "main (/u/train.py:65)"
LOADS = f"{LINE}\nbackend_compile_and_load (/v/lib/python3.11/site-packages/jax/_src/compiler.py:378)"
READS = "main (/u/train.py:66)\n_item (/v/lib/python3.11/site-packages/jax/_src/numpy/array_methods.py:215)"
# Behind eight frames of libraries JAX's own are not kept.
CUT = f"{LINE}\napply (/v/lib/python3.11/site-packages/flax/core/lift.py:10)"
STACKS = [LOADS, READS, CUT]


def noted(*stretches):
    looks = sum(each[2] for each in stretches)
    return {
        "looks": looks,
        "seconds": 0.1 * looks,
        "stacks": STACKS,
        "stretches": [list(each) for each in stretches],
    }


def seen(*stretches, before=9):
    return compiling_looks(noted(*stretches), lambda line: before if line == LINE else 0)


def test_a_line_that_compiles_on_is_named_with_its_share():
    """20 widths compiled all over the run: two seconds without any were recorded, and "device-bound" was said."""
    found = seen((0, LOOK_WORKS, 11), (1, LOOK_WORKS, 17), (2, LOOK_COMPILES, 14), (1, LOOK_WORKS, 3))
    assert (found.share, found.stretches, found.source) == (pytest.approx(25 / 45), 2, "/u/train.py:65")
    assert f"after the capture {found.what}" == (
        "after the capture the training thread compiled 2 times at /u/train.py:65, for 56 % of that time"
    )
    assert seen((2, LOOK_WORKS, 25), (1, LOOK_WORKS, 20)) is None


@pytest.mark.parametrize(("before", "found"), [(OCCASIONS_FROM - 2, True), (OCCASIONS_FROM - 3, False)])
def test_compiles_of_the_line_before_the_capture_count(before, found):
    rows = (0, 0, 10), (1, 0, 10), (0, 0, 10)
    assert bool(seen(*rows, before=before)) == found


@pytest.mark.parametrize(("last", "found"), [(0, True), (1, False)])
def test_the_last_one_comes_late(last, found):
    """The first evaluation compiles several functions, and then none."""
    of = 40
    begins = round(LATE * of) - last
    assert bool(seen((0, 0, 5), (1, 0, begins - 5), (0, 0, 10), (1, 0, of - begins - 10))) == found


@pytest.mark.parametrize(("looks", "found"), [(LOOKS_FROM, True), (LOOKS_FROM - 1, False)])
def test_few_looks_say_nothing(looks, found):
    assert bool(seen((1, 0, looks - 5), (0, 0, 5))) == found


@pytest.mark.parametrize(("share", "found"), [(FROM_SHARE, True), (FROM_SHARE - 0.01, False)])
def test_a_small_share_is_nothing(share, found):
    looks = round(100 * share)
    assert bool(seen((1, 0, 100 - looks), (0, 0, looks))) == found


@pytest.mark.parametrize("damaged", [{}, {"looks": "x"}, {**noted((0, 0, 30)), "stretches": [[9, 0, 30]]}])
def test_damaged_notes_say_nothing(damaged):
    assert compiling_looks(damaged, lambda _: 9) is None


def verdict(share):
    looks = round(100 * share)
    host = SimpleNamespace(
        after=None, looks=noted((1, 0, 100 - looks), (0, 0, looks)), records=[], steps=range(8)
    )
    return host, compiles_elsewhere([host], StepTimes(25.0, {"compute": 20.0}, 20.0, 1.0, 0.0), Decisions())


@pytest.mark.parametrize(("share", "elsewhere"), [(MOST_FROM_SHARE, True), (MOST_FROM_SHARE - 0.01, False)])
def test_compiles_that_take_most_of_the_time_are_the_verdict(monkeypatch, share, elsewhere):
    monkeypatch.setattr(later_looks, "compiles_before", lambda _records, _line: 9)
    host, found = verdict(share)
    assert (found is not None) == elsewhere
    if found is not None:
        assert found.sentence.startswith(
            "Compile-bound: after the capture the training thread compiled 1 time at "
        )
    # A verdict on the captured steps says it as well.
    assert said_of_looks([host]).startswith(" After the capture the training thread compiled 1 time at ")


def test_the_finding_says_where_and_how_much():
    looks = seen((0, 0, 30), (1, 0, 40), (0, 0, 60))
    signals = given(
        steps=steps(), step_compiles=[], compile_share=0.0, after_capture=None, phases=[], uncut_steps=0.0,
        compiling_looks_if_seen=looks, fallbacks=[],
    )  # fmt: skip
    found = outcome_of(find_rule("recompiles-other"), signals)
    assert (found.status, found.confidence, found.share) == ("failed", "medium", pytest.approx(90 / 130))
    assert found.evidence[0].source == "/u/train.py:65"
