"""Which lines of the program hand ops over, where each op is an event of its own: TorchTPU."""

from itertools import pairwise

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.render.facts import fact_lines

STEP, STEPS = 10_000, 8
# A step is NumPy for 4 ms, a call of the model for 2 ms, `backward()` for 3 ms, in autograd's thread, and the update.
CALLED, BACKWARD, UPDATE = 4_000, 6_000, 9_000
NUMPY = {
    "frames": "main (/home/u/train.py:20);make_batch (/home/u/train.py:7)",
    "call": "rng.normal(size=n)",
    "source": "/home/u/train.py:7",
    "user_call": "rng.normal(size=n)",
}
CALL = {
    "frames": "main (/home/u/train.py:9);norm (/v/site-packages/torch/functional.py:9)",
    "call": "torch.linalg.vector_norm(x)",
    "source": "/home/u/train.py:9",
    "user_call": "torch.norm(batch)",
}


def training(*, called=0, late_us=0):
    """The thread is looked at in NumPy in each step, and in the call of the model in so many of them."""
    trace = TraceBuilder()
    main, autograd, run = (trace.host().line(name) for name in ("python", "pt_autograd_0", "python "))
    # A look before the first step, and further ones as they come.
    looks = [(2_000 - STEP, NUMPY, 1)]
    for number in range(STEPS):
        begin = number * STEP
        main.event("ProfilerStep", begin, STEP - 10)
        for at in range(begin + CALLED, begin + BACKWARD, 100):
            main.event("aten::linear", at, 90)
            run.event("ExecutionTask::Run", at + 2_000, 40)
        for at in range(begin + BACKWARD, begin + UPDATE, 100):
            autograd.event("aten::mm", at, 90)
            run.event("ExecutionTask::Run", at + 2_000, 40)
        main.event("Optimizer.step", begin + UPDATE, 900)
        looks.append((begin + 2_000, NUMPY, 1))
        if number < called:
            looks.append((begin + CALLED + 1_050, CALL, 2))
    known = set()
    for (before, _, _), (at, words, stack) in pairwise(looks):
        gap = at - before
        # It slept in `backward()`, and waited for nothing where it was looked at.
        cpu = gap - 3_000 if gap > 4_000 else gap
        trace.sampled(
            before + late_us,
            gap,
            ops=5,
            cpu=cpu,
            stack=stack,
            asleep=False,
            late_us=late_us,
            **({} if stack in known else words),
        )
        known.add(stack)
    return trace


@pytest.fixture
def report(tmp_path):
    return lambda trace: analyze_run(trace.write(tmp_path / "vm.xplane.pb"))


def lines_of(found, part):
    return {row.source for row in found.host_stacks if row.part == part}


# The sampler may write a look when the thread is in the next call already.
@pytest.mark.parametrize("late_us", [0, 2_500])
def test_code_before_and_after_calls_is_not_said_to_call_programs(report, late_us):
    found = report(training(late_us=late_us))
    assert lines_of(found, "host:python") == {"/home/u/train.py:7"}
    assert lines_of(found, "dispatch") == set()
    said = next(text for subject, text in fact_lines(found) if subject == "Host")
    assert said.startswith("Code without work for the device: rng.normal(size=n) at /home/u/train.py:7")


def test_a_line_with_a_function_of_the_framework_calls_programs(report):
    found = report(training(called=STEPS))
    assert lines_of(found, "dispatch") == {"/home/u/train.py:9"}


def test_a_window_that_calls_no_compiled_function_makes_no_fraction(report):
    trace = TraceBuilder()
    main, run = (trace.host().line(name) for name in ("python", "python "))
    for number in range(STEPS):
        main.event("ProfilerStep", number * STEP, STEP - 10)
        if number < STEPS - 1:
            main.event("Torch-Compiled Region: 0/0", number * STEP + 100, 2_000)
        for at in range(number * STEP + 3_000, number * STEP + 9_000, 300):
            main.event("aten::linear", at, 290)
            run.event("ExecutionTask::Run", at + 40, 30)
    rule = next(each for each in report(trace).findings if each.rule == "eager-dispatch")
    said = next(each for each in rule.evidence if each.text.startswith("different functions"))
    assert (said.value, said.unit) == (1, "per step that calls any")
