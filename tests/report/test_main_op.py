"""The op, or the loop, that a device-bound verdict names."""

from io import StringIO

import pytest
from rich.console import Console

from tests.builders import TraceBuilder, op
from tpuprof.analysis.analyze import analyze_run
from tpuprof.analysis.sections.main_op import COSTLY_FROM_SHARE, LONGEST_NAME, MOST_FROM_SHARE
from tpuprof.render.text import render

STEPS, LENGTH = 6, 1000


def device_bound(*ops, framework="PjitFunction(step)"):
    """Steps of 1 ms that a device works through; `ops` are (keywords, begin, duration) in each."""
    trace = TraceBuilder()
    for step in range(STEPS):
        begin = step * LENGTH
        trace.host().line("python").event("train", begin, LENGTH, _r=1, step_num=step)
        trace.host().line("python").event(framework, begin + 1, 8)
        trace.tpu(0).line("XLA Modules").event("jit_step(1)", begin, LENGTH)
        for words, at, duration in ops:
            trace.tpu(0).line("XLA Ops").event(**words, start=begin + at, duration=duration)
    return trace


def at(words, source):
    words["facts"] |= {"source": source}
    return words


@pytest.fixture
def sentence(tmp_path):
    def of(trace):
        return analyze_run(trace.write(tmp_path / "host.xplane.pb")).verdict.sentence

    return of


@pytest.mark.parametrize(
    ("source", "name", "named"),
    [("train.py:18", "sort.2", True), ("train.py:19", "sort.2", False), ("train.py:18", "dot.2", False)],
)
def test_ops_of_one_kind_at_one_line_are_named_together(sentence, source, name, named):
    """A permutation is two sorts: they took 93 % of a step of which nothing was said."""
    second = at(op(name, "sort"), source)
    said = sentence(
        device_bound(
            (at(op("sort.0", "sort"), "train.py:18"), 0, 450), (second, 450, 450), (op("fusion.1"), 900, 100)
        )
    )
    assert said.startswith("Device-bound")
    assert said.endswith(" Most of the device's time is in 2 sort ops at train.py:18 (90 %).") == named


@pytest.mark.parametrize("framework", ["PjitFunction(step)", "SyncTensorsGraph"])
def test_the_op_that_takes_most_of_the_time_is_named_with_its_line(sentence, framework):
    trace = device_bound(
        (at(op("sort.0", "sort"), "train.py:18"), 0, 940), (op("fusion.1"), 940, 60), framework=framework
    )
    said = sentence(trace)
    assert said.startswith("Device-bound")
    assert said.endswith(" Most of the device's time is in sort.0 at train.py:18 (94 %).")


@pytest.mark.parametrize(("share", "named"), [(0.01, True), (-0.01, False)])
def test_it_is_named_where_it_is_most(sentence, share, named):
    most = LENGTH * (MOST_FROM_SHARE + share)
    rest = (LENGTH - most) / 4
    ops = [(op("sort.0", "sort"), 0, most)]
    ops += [(op(f"fusion.{row}"), most + row * rest, rest) for row in range(4)]
    assert ("Most of the device's time" in sentence(device_bound(*ops))) is named


def test_of_many_ops_in_a_loop_the_loop_is_named(sentence):
    """Of loops inside one another the inner one, where it is most."""
    loops = [
        (at(op("while.9", "while"), "train.py:3"), 0, 980),
        (at(op("while.1", "while"), "model.py:40"), 10, 900),
    ]
    body = [(op(f"fusion.{row}"), 10 + 90 * row, 90) for row in range(10)]
    said = sentence(device_bound(*loops, *body))
    assert said.endswith(" Most of the device's time is in the loop while.1 at model.py:40 (90 %).")


def test_the_op_of_a_loop_that_takes_most_comes_first(sentence):
    loop = (at(op("while.1", "while"), "model.py:40"), 0, 980)
    said = sentence(device_bound(loop, (at(op("dot.7", "dot"), "model.py:44"), 0, 900)))
    assert said.endswith(" Most of the device's time is in dot.7 at model.py:44 (90 %).")


def test_another_verdict_names_no_op(sentence):
    trace = TraceBuilder()
    for step in range(STEPS):
        trace.host().line("python").event("train", step * LENGTH, LENGTH, _r=1, step_num=step)
        trace.tpu(0).line("XLA Modules").event("jit_step(1)", step * LENGTH, 300)
        trace.tpu(0).line("XLA Ops").event(**op("sort.0"), start=step * LENGTH, duration=300)
    assert "Most of the device's time" not in sentence(trace)


def test_a_hostile_name_is_cut_and_printed_as_text(tmp_path):
    words = op("x")
    words["display"] = "sort\x1b[31m[bold]" + "y" * 200
    path = device_bound((words, 0, LENGTH)).write(tmp_path / "host.xplane.pb")
    report = analyze_run(path)
    assert len(report.verdict.sentence) < 200 + LONGEST_NAME
    shown = StringIO()
    render(report, Console(file=shown, width=300))
    assert "\x1b[31m" not in shown.getvalue() and "[bold]" in shown.getvalue()


@pytest.mark.parametrize(
    ("name", "source", "more", "named"),
    [
        ("sort.0", "train.py:28", 10, True),
        ("sort.0", "train.py:28", -10, False),
        ("sort.0", "/site-packages/torch/functional.py:5", 10, False),
        ("convolution.0", "train.py:28", 10, False),
    ],
    ids=["costly", "short", "a library's line", "a product"],
)
def test_an_op_that_does_little_for_its_time_is_named_where_none_is_most(sentence, name, source, more, named):
    """A whole sort for the few hardest examples took a sixth of a step of which nothing was said."""
    costs = int(LENGTH * COSTLY_FROM_SHARE) + more
    half = (LENGTH - costs) // 2
    said = sentence(
        device_bound(
            (at(op(name, name.partition(".")[0]), source), 0, costs),
            (op("fusion.1"), costs, half),
            (op("fusion.2"), costs + half, half),
        )
    )
    assert (f" {name} at {source} takes 11 % of the device's time." in said) == named


@pytest.mark.parametrize(
    ("source", "said_of"),
    [
        ("train.py:64", "2 sort ops at train.py:64 take 40 %"),
        ("train.py:65", "sort.2 at train.py:65 takes 20 %"),
    ],
)
def test_costly_ops_of_one_kind_at_one_line_count_together(sentence, source, said_of):
    """ "sort.2 takes 24 % of the device's time", of a permutation whose two sorts took 47 %."""
    said = sentence(
        device_bound(
            (at(op("sort.0", "sort"), "train.py:64"), 0, 200),
            (at(op("sort.2", "sort"), source), 200, 200),
            (op("fusion.1"), 400, 300),
            (op("fusion.2"), 700, 300),
        )
    )
    assert said.endswith(f" {said_of} of the device's time.")


@pytest.mark.parametrize(("long", "named"), [(260, True), (240, False)])
def test_copies_that_are_most_of_the_time_are_named_together(sentence, long, named):
    """90 % of the device's time was in copies of a cache: "the device is busy" was all that was said."""
    copies = [(op(f"copy.{row}", "copy"), row * long, long) for row in range(2)]
    rest = (LENGTH - 2 * long) // 2
    said = sentence(
        device_bound(*copies, *((op(f"fusion.{row}"), 2 * long + row * rest, rest) for row in range(2)))
    )
    assert said.endswith(" Most of the device's time is in 2 ops that copy or transpose (52 %).") is named


def test_an_op_that_a_library_made_is_named_at_the_programs_own_line(sentence):
    library = "/venv/lib/python3.11/site-packages/haiku/_src/stateful.py"
    words = at(op("sort.0", "sort"), f"{library}:644")
    words["facts"]["source_stack"] = f"{library}:644:8\n/u/train.py:63:4\n/u/train.py:90:0\n"
    said = sentence(device_bound((words, 0, 900), (op("fusion.1"), 900, 100)))
    assert said.endswith(" Most of the device's time is in sort.0 at /u/train.py:63 (90 %).")
