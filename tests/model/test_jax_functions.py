"""JAX's own profiler traces Python functions: they say what the host does where no other event does."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.host.python_calls import SLOWS_EVERY_PS

STEPS, LENGTH, BUSY = 8, 10_000, 4_000


def loop(*functions, calls=1):
    """Steps of 10 ms whose first 6 ms are in these functions, the outer one first, while the device idles."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.event("$train.py:20 loop", 0, STEPS * LENGTH)
    for step in range(STEPS):
        begin = step * LENGTH
        python.event("train", begin + 1, LENGTH - 2, _r=1, step_num=step)
        for depth, name in enumerate(functions):
            for call in range(calls):
                length = (LENGTH - BUSY - 100) / calls
                python.event(name, begin + 10 + call * length + depth / 100, length - depth / 50)
        python.event("PjitFunction(step)", begin + LENGTH - BUSY - 50, 40)
        trace.tpu(0).line("XLA Modules").event("jit_step(1)", begin + LENGTH - BUSY, BUSY)
        trace.tpu(0).line("XLA Ops").event("fusion.1", begin + LENGTH - BUSY, BUSY)
    return trace


def test_a_sleep_is_named_with_its_line(analyze):
    report = analyze(loop("$train.py:10 wait", "$time sleep"))
    assert report.verdict.bound == "host"
    assert "The host sleeps at train.py:10 (in wait)" in report.verdict.sentence
    assert report.breakdown["host:sleep"].ms_per_step == pytest.approx(5.9, rel=0.01)


def test_python_of_the_program_is_named_with_its_line(analyze):
    report = analyze(loop("$augment.py:7 augment"))
    assert "augment.py:7 (in augment)" in report.verdict.sentence


def test_functions_of_jax_are_on_the_way_to_a_call(analyze):
    assert analyze(loop("$pjit.py:300 _infer_params")).verdict.bound == "dispatch"


def test_of_a_file_that_may_be_jaxs_or_the_users_the_name_alone_is_said(analyze):
    report = analyze(loop("$util.py:3 work"))
    assert report.verdict.bound == "unknown"
    assert "inside 'util.py:3 work' on the training thread" in report.verdict.sentence


def test_a_users_function_around_it_is_no_reason_to_name_it(analyze):
    assert analyze(loop("$train.py:10 wait", "$util.py:3 work")).verdict.bound == "unknown"


@pytest.mark.parametrize(("often", "told"), [(1.1, True), (0.9, False)])
def test_a_tracer_that_notes_many_calls_slows_the_host(analyze, often, told):
    calls = round(often * LENGTH * 1_000_000 / SLOWS_EVERY_PS)
    report = analyze(loop("$augment.py:7 augment", calls=calls))
    assert any("calls of Python functions, which slows the host" in each for each in report.warnings) is told
    assert next(each for each in report.findings if each.rule == "truncated-trace").status == "passed"
