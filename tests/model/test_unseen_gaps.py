"""Gaps between calls of JAX that no sample fell into are told by looks in other gaps between the same calls."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.sections.host_stacks import host_stack_rows
from tpuprof.model.host.unseen_gaps import ALIKE_WITHIN, LONG_FROM_PS, LOOKS_TO_TELL

TRAIN = "train (/home/u/train.py:7)"
READS = ";".join((TRAIN, "_value (/venv/lib/python3.11/site-packages/jax/_src/array.py:9)"))
STEPS, STEP = 12, 20_000
# Microseconds of a step: the call, then the read of its result, then a sleep up to the next call.
CALLED, READ, SLEPT = 500, 9_500, 10_000


def loop(looks, gap=SLEPT, others=()):
    """Steps that call, read and sleep. Each is looked at in its read; the first `looks` of them in the sleep too.

    `others` are lengths of the sleeps of further steps, in which nobody looks (us).
    """
    trace = TraceBuilder()
    python = trace.host().line("python")
    at = before = 0
    for number, slept in enumerate([*[gap] * STEPS, *others]):
        length = STEP - SLEPT + slept
        python.event("train", at, length, _r=1, step_num=number)
        python.event("PjitFunction(step)", at, CALLED)
        python.event("np.asarray(jax.Array)", at + CALLED, READ)
        reading = {
            "frames": READS,
            "call": "self._value",
            "source": "/home/u/train.py:7",
            "user_call": "float(loss)",
        }
        trace.sampled(
            before, at + 5_000 - before, cpu=500, stack=1, asleep=True, **(reading if not number else {})
        )
        before = at + 5_000
        if number < looks:
            sleeping = {"frames": TRAIN, "call": "time.sleep(0.01)", "source": "/home/u/train.py:9"}
            sleeping["user_call"] = sleeping["call"]
            moment = at + CALLED + READ + slept * (number + 1) // (looks + 1)
            trace.sampled(
                before, moment - before, cpu=200, stack=2, asleep=True, **(sleeping if not number else {})
            )
            before = moment
        at += length
    python.event("PjitFunction(step)", at, CALLED)
    trace.sampled(before, at + CALLED - before, cpu=200, stack=1, asleep=True)
    return trace


def ms(host, part):
    column = host.breakdown.parts.get(part)
    # After the last gap comes another call than after the others.
    return float(column[:-1].sum()) / 1e9 if column is not None else 0.0


def test_a_gap_that_nobody_looked_into_holds_what_the_others_do(read):
    host = read(loop(LOOKS_TO_TELL))
    assert ms(host, "host:sleep") == pytest.approx((STEPS - 1) * SLEPT / 1e3, rel=0.02)
    assert ms(host, "dispatch") < STEPS * 1.5 * CALLED / 1e3
    (row,) = (each for each in host_stack_rows([host]) if each.part == "host:sleep")
    assert row.source == "/home/u/train.py:9"
    # What others tell is no look: the certainty of a line goes by looks, before and after which an interval is.
    assert row.samples <= 2 * LOOKS_TO_TELL


def test_too_few_looks_tell_nothing_of_other_gaps(read):
    host = read(loop(LOOKS_TO_TELL - 1))
    assert ms(host, "host:sleep") < STEPS * SLEPT / 2e3


@pytest.mark.parametrize(("longer", "told"), [(1.0, True), (ALIKE_WITHIN * 1.1, False)])
def test_gaps_of_another_length_hold_something_else(read, longer, told):
    host = read(loop(STEPS, others=[longer * SLEPT] * 4))
    slept = ms(host, "host:sleep") - STEPS * SLEPT / 1e3
    assert (slept > 0.9 * 3 * longer * SLEPT / 1e3) is told


@pytest.mark.parametrize(("beyond", "told"), [(1.1, True), (0.9, False)])
def test_short_gaps_are_the_way_from_one_call_to_the_next(read, beyond, told):
    gap = round(beyond * LONG_FROM_PS / 1e6)
    host = read(loop(STEPS // 2, gap=gap))
    assert (ms(host, "host:sleep") > 0.9 * (STEPS - 1) * gap / 1e3) is told
