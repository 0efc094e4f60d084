"""A price that is more than a whole step takes outside of the capture is the same share of that step."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.rules.given import given
from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture
from tpuprof.model.outside_capture import STRETCHED_FROM
from tpuprof.model.steps.table import HIGH, Steps, StepSource
from tpuprof.report.schema import Savings
from tpuprof.rules.base import Outcome, Price
from tpuprof.rules.later_steps import BEGINS_LOWER_FROM
from tpuprof.rules.pricing import Pricing, doubted
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import _finding

CAPTURED_MS = 500.0


def pricing(after_ms, steps=MIN_STEPS_AFTER, compiles_ms=0.0):
    after = AfterCapture(steps, 0, 0, steps * compiles_ms / 1e3, steps * after_ms / 1e3, ended=True)
    start = np.arange(8) * int(CAPTURED_MS * 1e9)
    captured = Steps(StepSource.MARKERS, HIGH, np.arange(8), start, start + int(CAPTURED_MS * 1e9))
    host = SimpleNamespace(steps=captured, after_steps=after)
    return Pricing(given(hosts=[host], step_ms=CAPTURED_MS), lambda: "")


@pytest.mark.parametrize(
    ("saved", "after_ms", "steps", "said"),
    [
        (460.0, 250.0, MIN_STEPS_AFTER, True),
        (240.0, 250.0, MIN_STEPS_AFTER, True),
        (460.0, 250.0, MIN_STEPS_AFTER - 1, False),
        (460.0, CAPTURED_MS / STRETCHED_FROM - 1, MIN_STEPS_AFTER, True),
    ],
)
def test_a_price_of_steps_that_recording_stretches(saved, after_ms, steps, said):
    """A price that the shorter step has room for may be of what is not stretched: it ends where it was."""
    found = pricing(after_ms, steps).of_captured_steps(Savings(0.9 * saved, saved, "counterfactual"))
    assert ("without tpuprof a step takes" in found.note) is said
    share = after_ms / CAPTURED_MS if said else 1.0
    assert found.low == pytest.approx(0.9 * saved * share)
    assert found.high == pytest.approx(saved if saved <= after_ms else saved * share)
    if said:
        assert found.step_low_ms + found.high == pytest.approx(after_ms)
        assert ("begins with what such a step" in found.note) is (saved <= after_ms)
    assert not doubted(found)


def test_a_price_that_begins_at_nothing_says_nothing_of_where_it_begins():
    found = pricing(250.0).of_captured_steps(Savings(0.0, 200.0, "bound"))
    assert found.note == "without tpuprof a step takes 250 ms"


@pytest.mark.parametrize(
    ("saved", "after_ms", "said"),
    [
        # Far shorter steps have another rule, see above.
        (460.0, CAPTURED_MS / STRETCHED_FROM + 1, True),
        (200.0, CAPTURED_MS / BEGINS_LOWER_FROM - 1, True),
        (200.0, CAPTURED_MS / BEGINS_LOWER_FROM + 1, False),
        (0.0, CAPTURED_MS / STRETCHED_FROM + 1, False),
    ],
)
def test_a_price_begins_with_what_somewhat_shorter_steps_save(saved, after_ms, said):
    """ "Saves 18.0 to 18.3 ms" was said of 13.8: captured steps took 49.3 ms, and later ones 44.6."""
    captured = Savings(saved, saved, "counterfactual", CAPTURED_MS - saved, CAPTURED_MS - saved)
    found = pricing(after_ms).of_captured_steps(captured)
    assert found.low == pytest.approx(saved * (after_ms / CAPTURED_MS if said else 1.0))
    assert (found.high, found.step_low_ms) == (saved, CAPTURED_MS - saved)
    assert found.step_high_ms == pytest.approx(CAPTURED_MS - found.low)
    takes = (
        f"without tpuprof a step takes {after_ms:.0f} ms, and the price begins with what such a step saves"
    )
    assert found.note == (takes if said else "")
    assert not doubted(found)


@pytest.mark.parametrize(
    ("compiles_ms", "said"), [(0.4, ""), (0.6, " with its compiles"), (10.0, " with its compiles")]
)
def test_a_price_says_that_it_is_of_steps_with_their_compiles_where_these_show(compiles_ms, said):
    """ "Without tpuprof a step takes 269 ms" stood beside a note that says 259 ms of the same steps."""
    found = pricing(250.0, compiles_ms=compiles_ms).of_captured_steps(Savings(0.0, 200.0, "bound"))
    assert found.note == f"without tpuprof a step takes 250 ms{said}"


@pytest.mark.parametrize(
    ("saved", "later_ms", "confidence"),
    [
        ((200.0, 200.0), 300.0, "medium"),
        ((200.0, 200.0), 450.0, "high"),
        # It begins at nothing, so that it cannot begin lower.
        ((0.0, 200.0), 300.0, "medium"),
        ((0.0, 200.0), 450.0, "high"),
        # It is more than the later step takes, and so the same share of that.
        ((400.0, 400.0), 300.0, "medium"),
    ],
)
def test_a_price_that_recording_may_have_stretched_is_not_sure(saved, later_ms, confidence):
    """ "Saves 26.0 to 27.3 ms, high confidence" was said of 16: captured steps took 58.8 ms, later ones 40.9."""

    class Pricing:
        slowed_by_tools, sees_device, step_ms, usual_step_ms = False, True, CAPTURED_MS, CAPTURED_MS
        unrecorded_ms = pricing(later_ms).unrecorded_ms

        def disturbed_share(self, price):
            return 0.0

        def savings(self, price):
            return Savings(*saved, "counterfactual"), ""

        def of_captured_steps(self, savings, of_step):
            return pricing(later_ms).of_captured_steps(savings, of_step)

    class Places:
        def of(self, outcome, category):
            return outcome.evidence

    outcome = Outcome("failed", share=0.9, price=Price(), confidence="high")
    found = _finding(find_rule("host-blocked"), outcome, Pricing(), Places(), "torch_xla")
    assert found.confidence == confidence
    # It holds what is saved where recording stretches all alike, and where it stretches only what is left.
    low, high = saved
    share = later_ms / CAPTURED_MS if confidence == "medium" else 1.0
    assert found.savings.low <= low * share
    assert found.savings.high == pytest.approx(high if high <= later_ms else high * share)


def test_a_price_by_the_later_rate_is_a_share_of_a_step_at_that_rate():
    """Three of four later steps compiled: 104 of 146 ms were said to be saved, and the cure left 4 ms."""
    found = pricing(250.0).of_captured_steps(Savings(360.0, 360.0, "counterfactual"), 0.8)
    assert found.high == pytest.approx(250.0 * 360.0 / (0.8 * CAPTURED_MS))
    assert found.step_low_ms == pytest.approx(250.0 - found.high)


def test_what_a_start_saves_is_no_part_of_a_step():
    saved = Savings(460.0, 460.0, "bound", per="start")
    assert pricing(250.0).of_captured_steps(saved) == saved
