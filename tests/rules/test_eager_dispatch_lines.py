"""Which lines of the program eager-dispatch names, what it advises, and how far its price reaches."""

from dataclasses import replace

import pytest

from tests.builders import TraceBuilder
from tests.rules.given import asleep, given, steps
from tests.rules.situations import dispatched
from tpuprof.analysis.analyze import analyze_run
from tpuprof.rules.pricing import WITHOUT_THE_CALLS
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.rules.tracing.eager_dispatch.rule import SHOWN_FROM_SHARE, SLICES_FROM_SHARE


def sources(*rows):
    found = outcome_of(find_rule("eager-dispatch"), given(**dispatched(), stacks_if_sampled=list(rows)))
    assert found.status == "failed"
    return [each.source for each in found.evidence if each.source]


def test_the_line_that_calls_ops_is_named():
    assert sources(asleep(10.0, part="dispatch")) == ["train.py:9"]


def test_lines_that_do_something_else_are_not():
    assert sources(asleep(10.0, part="host:python"), asleep(0.0, hidden=5.0, part="dispatch")) == []


@pytest.mark.parametrize(
    ("share", "named"),
    [(SHOWN_FROM_SHARE - 0.01, ["train.py:2"]), (SHOWN_FROM_SHARE, ["train.py:2", "train.py:9"])],
)
def test_a_line_with_little_of_it_is_left_out(share, named):
    rare, usual = asleep(100 * share, part="dispatch"), asleep(100 * (1 - share), part="dispatch")
    usual.source = "train.py:2"
    assert sources(rare, usual) == named


def advice(*rows, framework="jax", called=(("add", 20.0),), **given_too):
    situation = {**dispatched(programs=40.0, called=called, kinds=len(called)), "framework": framework}
    situation |= given_too
    situation |= {"stacks_if_sampled": list(rows), "report": {"ops": []}}
    found = outcome_of(find_rule("eager-dispatch"), given(**situation))
    assert found.status == "failed"
    return find_rule("eager-dispatch").page.remedy(framework).text_for(found.cases)


@pytest.mark.parametrize(
    ("frame", "named"), [("mul (/lib/torchax/tensor.py:7)", True), ("f (/lib/jax/a.py:7)", False)]
)
def test_torchax_is_named_to_programs_that_use_it(frame, named):
    """All programs of JAX were told how functions of torch tensors are jitted."""
    row = replace(asleep(10.0, part="dispatch"), frames=["train (train.py:9)", frame])
    assert ("torchax" in advice(row)) is named


@pytest.mark.parametrize(
    ("called", "slices"),
    [
        ((("dynamic_slice", 10.0), ("squeeze", 10.0), ("add", 8.0)), True),
        ((("broadcast_in_dim", 40 * SLICES_FROM_SHARE - 1), ("concatenate", 1.0)), True),
        ((("broadcast_in_dim", 40 * SLICES_FROM_SHARE - 2), ("concatenate", 1.0)), False),
        # `jnp.zeros` and `jnp.ones` are called so as well.
        ((("broadcast_in_dim", 39.0), ("add", 1.0)), False),
    ],
)
def test_a_batch_of_slices_is_to_be_taken_at_once(called, slices):
    assert ("many slices or small arrays" in advice(called=called)) is slices


@pytest.mark.parametrize(
    ("joining", "buffer"), [(FAILS_FROM_SHARE / 0.5 + 0.01, True), (FAILS_FROM_SHARE / 0.5 - 0.01, False)]
)
def test_a_buffer_that_is_copied_whole_is_to_be_changed_in_place(joining, buffer):
    """Joins of a large buffer took 38 % of a step whose device works for half of the time: no batch is made there."""
    called = (("concatenate", 20.0), ("dynamic_slice", 20.0))
    text = advice(called=called, joining_share=joining, steps=steps(dispatch=50.0, compute=50.0))
    assert ("dynamic_update_slice" in text) is buffer
    assert ("many slices or small arrays" in text) is not buffer


STEP, CALLS, LONG, SHORT, COUNT = 1000, 20, 600, 300, 24


def stacked(slow):
    """Steps of JAX on a CPU: ops that are called one by one, and a program that takes `slow` in each second step."""
    trace = TraceBuilder()
    python, device = trace.host().line("python"), trace.host().line("tf_XLATfrtCpuClient/7")
    for number in range(COUNT):
        at = number * STEP
        python.event("train", at, STEP, _r=1, step_num=number)
        for call in range(CALLS):
            python.event(f"PjitFunction({'add' if call % 2 else 'exp'})", at + 20 * call, 18)
        python.event("PjitFunction(step)", at + 20 * CALLS, 18)
        took = slow if number % 2 else SHORT
        device.event("ThunkExecutor::Execute (wait for completion)", at + 20 * CALLS + 10, took)
        for op in range(3):
            begin = at + 20 * CALLS + 10 + op * took // 3
            device.event(
                f"dot.{op}", begin, took // 3, hlo_op=f"dot.{op}", hlo_module="jit_step", program_id=1
            )
        python.event("block_until_ready", at + 20 * CALLS + 20, STEP - 20 * CALLS - 20)
    return trace


@pytest.mark.parametrize("slow", [SHORT, 550])
def test_calls_that_share_the_cpus_with_the_device_save_its_waits_too(tmp_path, slow):
    """7.0 to 7.3 ms was said of batches of slices, and 10 were saved: without the calls the device computes faster."""
    stacked(slow).write(tmp_path / "plugins" / "profile" / "one" / "host0.xplane.pb")
    (found,) = [each for each in analyze_run(tmp_path).findings if each.rule == "eager-dispatch"]
    assert found.status == "failed", found.reason
    assert (found.savings.note == WITHOUT_THE_CALLS) is (slow > SHORT)
    assert (found.savings.high > 1.1 * found.savings.low) is (slow > SHORT), found.savings
    assert found.confidence == "medium"


def with_around(*rows, framework="jax", **parts):
    """The outcome where a typical step of 100 ms dispatches for 6 ms, and has these parts as well."""
    situation = {**dispatched(0.06, programs=40.0, called=(("add", 20.0),), kinds=1), "framework": framework}
    situation |= {"steps": steps(dispatch=6.0, **parts)}
    situation |= {"stacks_if_sampled": list(rows), "report": {"ops": []}, "one_op_programs_share": 0.0}
    return outcome_of(find_rule("eager-dispatch"), given(**situation))


def at(line, ms, part):
    return replace(asleep(ms, part=part), source=f"train.py:{line}")


def test_python_around_the_calls_and_tracing_count_with_them():
    """A model ran outside of a jitted function in each evaluation: calls took 5 % of the time, and jitted it saved 31 %."""
    rows = [at(9, 6.0, "dispatch"), at(9, 5.0, "host:python"), at(30, 5.0, "host:python")]
    parts = {"host:python": 10.0, "tracing": 3.0}
    found = with_around(*rows, **parts)
    assert (found.status, found.share) == ("failed", pytest.approx(0.06 + 0.05 + 0.03))
    assert found.price.most.host == pytest.approx({"dispatch": 0.0, "host:python": 0.5, "tracing": 0.0})
    assert with_around(*rows, framework="torch_tpu", **parts).status == "passed"


def test_python_elsewhere_and_tracing_for_a_compile_do_not():
    rows = [at(9, 6.0, "dispatch"), at(30, 10.0, "host:python")]
    assert with_around(*rows, **{"host:python": 10.0}).status == "passed"
    assert with_around(at(9, 6.0, "dispatch"), tracing=10.0, compile=20.0).status == "passed"
