"""Waits for Python's lock that look like waits for a CPU, on traces built so that the answer is known."""

import pytest

from tests.model.test_host_samples import ADAM, TRAIN, parts_ms, stack, step
from tpuprof.model.host.lock_shared import SHARED_FROM_SHARE

STEP = 60_000


def two_threads(*, asleep, others=8_000, ready=7_000, process=0, frame=ADAM):
    """Six intervals of 10 ms: in the second the training thread sleeps for `asleep` us, in three it is ready to run."""
    trace = step(STEP)
    ran = {"ops": 40, "stack": 1}
    trace.sampled(0, 10_000, **ran, **stack("opt.step()", TRAIN, frame))
    trace.sampled(10_000, 10_000, cpu=10_000 - asleep, others=asleep, **ran)
    for row in range(2, 5):
        trace.sampled(10_000 * row, 10_000, cpu=3_000, ready=ready, others=others, process=process, **ran)
    return trace.sampled(50_000, 10_000, **ran)


def test_who_is_ready_while_others_run_with_the_lock_waits_for_the_lock(read):
    found = parts_ms(read(two_threads(asleep=9_000, others=4_000)))
    assert found["host:gil"] == pytest.approx(9 + 3 * 4, abs=0.1)


@pytest.mark.parametrize(("beside", "held"), [(0, 7.0), (4_000, 4 + 3 / 2)])
def test_a_wait_for_a_cpu_is_that_thread_s_as_far_as_nothing_else_of_the_process_ran(read, beside, held):
    trace = two_threads(asleep=9_000, others=4_000, process=3_000 + 4_000 + beside)
    assert parts_ms(read(trace))["host:gil"] == pytest.approx(9 + 3 * held, abs=0.1)


@pytest.mark.parametrize(("times", "shared"), [(1.05, True), (0.95, False)])
def test_threads_that_work_without_the_lock_keep_nobody_from_it(read, times, shared):
    """Their share of time in which the training thread sleeps is then small."""
    others = 7_000
    asleep = round(times * SHARED_FROM_SHARE / (1 - times * SHARED_FROM_SHARE) * 3 * others)
    found = parts_ms(read(two_threads(asleep=asleep, others=others)))
    # 21 ms of three intervals, of which none is a wait for the lock by itself.
    assert bool(found.get("host:gil", 0.0) > 21) is shared


def test_sleep_in_the_backward_pass_is_no_sign_of_a_lock_that_is_shared(read):
    """The training thread waits for autograd's there; what other threads run beside it may need no lock."""
    backward = "_engine_run_backward (/venv/lib/python3.11/site-packages/torch/autograd/graph.py:9)"
    found = parts_ms(read(two_threads(asleep=9_000, others=4_000, frame=backward)))
    assert found["host:gil"] == pytest.approx(9, abs=0.1)
