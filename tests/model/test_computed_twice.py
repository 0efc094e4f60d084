"""Programs of JAX that run the model again, which another program of the step runs as well."""

import pytest

from tests.builders import TraceBuilder, op
from tests.model.test_read_graphs import program
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.device.computed_twice import (
    IN_STEPS_FROM_SHARE,
    NAMED_FROM_SHARE,
    SMALLER_UP_TO,
    said_of_twice,
)
from tpuprof.model.host_run import read_host_run

STEPS = 8


def notes(
    tmp_path, loss=100, gradient=500, of_loss=None, of_gradient=None, steps=range(STEPS), framework="jax"
):
    """Steps of 1 ms in which a program computes the loss, in `steps`, and another one the gradient (us)."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    call = "PjitFunction(train)" if framework == "jax" else "SyncTensorsGraph"
    for step in range(STEPS):
        begin = step * 1000
        python.event("train", begin, 990, _r=1, step_num=step)
        python.event(call, begin + 1, 5)
        runs = [("loss", 1, begin + 10, loss)] if step in steps else []
        for name, key, at, takes in [*runs, ("gradient", 2, begin + 20 + loss, gradient)]:
            trace.tpu(0).line("XLA Modules").event(f"jit_{name}({key})", at, takes)
            trace.tpu(0).line("XLA Ops").event(start=at, duration=takes, **op(f"dot.{key}", "dot"))
    embedded = {"jit_loss(1)": of_loss or program(3), "jit_gradient(2)": of_gradient or program(9)}
    for name, data in embedded.items():
        trace.plane("/host:metadata").name_id(name, "", {"hlo_proto": data})
    host = read_host_run("host", trace.write(tmp_path / "host.xplane.pb"))
    return [each for each in host.notes if "also runs" in each]


def test_a_loss_that_the_gradient_computes_as_well_is_named(tmp_path):
    (note,) = notes(tmp_path)
    assert note.startswith("jit_gradient (500 µs) also runs the multiplications")
    assert "of jit_loss (100 µs): the same lines and shapes" in note
    assert "saves up to 100 µs per step" in note
    assert "The trace does not tell what they are given" in note


def test_a_verdict_on_the_device_names_the_programs(tmp_path):
    """An accuracy ran the model again in each step; verdict and findings had no word of it, a note had all."""
    (note,) = notes(tmp_path, loss=400, gradient=590)
    report = analyze_run(tmp_path / "host.xplane.pb")
    assert report.verdict.bound == "device"
    said = (
        " jit_gradient (590 µs) also runs the multiplications and convolutions of jit_loss (400 µs); a note says how to "
        "run them once."
    )
    assert report.verdict.sentence.endswith(said) and said_of_twice(["another note", note]) == said
    assert said_of_twice(["another note"]) == ""


@pytest.mark.parametrize(
    "changed",
    [
        {"of_loss": program(3, size=16)},
        {"of_loss": program(3, line=0)},
        {"of_loss": program(3, line=0), "of_gradient": program(9, line=0)},
        {"of_gradient": program(2)},
        {"framework": "torch_xla"},
    ],
)
def test_other_work_and_what_has_no_lines_is_not_named(tmp_path, changed):
    assert notes(tmp_path, **changed) == []


@pytest.mark.parametrize(
    ("loss", "said"), [(1, False), (60, True), (SMALLER_UP_TO * 500 - 1, True), (480, False)]
)
def test_it_is_a_smaller_program_that_takes_a_tenth_of_the_time(tmp_path, loss, said):
    assert NAMED_FROM_SHARE == 0.1
    assert bool(notes(tmp_path, loss=loss)) is said


def test_programs_that_no_step_holds_are_not_looked_at(tmp_path):
    assert notes(tmp_path, loss=0, gradient=0) == []


@pytest.mark.parametrize(("count", "said"), [(IN_STEPS_FROM_SHARE * STEPS, True), (STEPS // 2 - 1, False)])
def test_an_evaluation_now_and_then_is_not_of_the_step(tmp_path, count, said):
    assert bool(notes(tmp_path, loss=300, steps=range(int(count)))) is said
