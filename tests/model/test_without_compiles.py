"""What the verdict says of steps without compiles, where it is unknown whether compiles come again."""

from dataclasses import replace

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.analysis.sections.steps import mean_step
from tpuprof.analysis.sections.without_compiles import without_compiles
from tpuprof.decode.find import find_all
from tpuprof.model.compile.recurrence import MIN_STEPS_LEFT
from tpuprof.model.run import build_run

STEPS = 12
BUSY = ("Device-bound", "Mostly device-bound")


def trace_of(folder, compiling, traced):
    """Steps of 0.5 ms in which the device works for 0.4: `traced` ones trace 5 ms first, `compiling` ones compile 40."""
    trace = TraceBuilder()
    python, runs = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    at = 0
    for number in range(STEPS):
        begin, before = at, (number in traced, number in compiling)
        handed = at + 5_000 * before[0] + 40_000 * before[1]
        python.event("train_step", begin, handed + 499 - begin, _r=1, step_num=number)
        if before[0]:
            python.event("trace_to_jaxpr", begin, 5_000)
        if before[1]:
            python.event("backend_compile_and_load", handed - 40_000, 40_000)
        python.event("PjitFunction(update)", handed + 1, 20)
        runs.event("ThunkExecutor::Execute", handed + 22, 470)
        at = handed + 500
    path = folder / "host.xplane.pb"
    trace.write(path)
    return path


def if_none_returns(path):
    """The verdict's second answer."""
    sentence = analyze_run(path).verdict.sentence
    assert sentence.startswith("Compile-bound")
    return sentence.partition(" If not: ")[2]


def test_tracing_that_only_steps_with_a_compile_have_goes_with_the_compile(tmp_path):
    assert if_none_returns(trace_of(tmp_path, (3, 7, 9), (3, 7, 9))).startswith(BUSY)


def test_tracing_of_every_step_stays(tmp_path):
    assert if_none_returns(trace_of(tmp_path, (3, 7, 9), range(STEPS))).startswith("Tracing-bound")


@pytest.mark.parametrize(
    ("framework", "quiet", "stays"),
    [
        ("torch_xla", MIN_STEPS_LEFT - 1, True),
        ("torch_xla", MIN_STEPS_LEFT, False),
        ("jax", 1, False),
        ("jax", 0, False),
    ],
)
def test_too_few_steps_without_a_compile_say_nothing_of_the_others_but_in_jax(
    tmp_path, framework, quiet, stays
):
    compiling = range(STEPS - quiet)
    hosts = build_run(find_all(trace_of(tmp_path, compiling, compiling))).hosts
    hosts = [replace(host, framework=framework) for host in hosts]
    rest = without_compiles(hosts, mean_step(hosts)[0])
    assert (rest.parts.get("tracing", 0.0) > 1.0) is stays
    assert rest.parts.get("compile", 0.0) == pytest.approx(0.0)


@pytest.mark.parametrize(("framework", "stays"), [("torch_xla", True), ("jax", False)])
def test_where_each_step_of_jax_compiles_collections_go_with_the_compiles(tmp_path, framework, stays):
    """ "If not: held back by garbage collections, 287 ms of 341 ms" was said of steps of 12 ms without compiles."""
    hosts = build_run(find_all(trace_of(tmp_path, range(STEPS), range(STEPS)))).hosts
    hosts = [replace(host, framework=framework) for host in hosts]
    times = mean_step(hosts)[0]
    times = replace(times, parts={**times.parts, "user:gc": times.parts.pop("tracing")})
    assert (without_compiles(hosts, times).parts.get("user:gc", 0.0) > 1.0) is stays


def test_tracing_of_a_single_step_that_does_not_compile_stays(tmp_path):
    traced = range(STEPS)
    hosts = build_run(find_all(trace_of(tmp_path, range(STEPS - 1), traced))).hosts
    rest = without_compiles(hosts, mean_step(hosts)[0])
    assert rest.parts["tracing"] == pytest.approx(5.0, rel=0.1)


def test_a_capture_in_which_no_step_was_found_has_no_second_answer(tmp_path, monkeypatch):
    monkeypatch.setattr("tpuprof.analysis.sections.verdict.is_whole_capture", lambda steps: True)
    assert not if_none_returns(trace_of(tmp_path, (3, 7, 9), (3, 7, 9)))
