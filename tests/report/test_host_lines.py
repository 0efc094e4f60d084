"""What stands for a part of the step: its line, or the function whose lines share it."""

from dataclasses import replace

import pytest

from tpuprof.report.host_lines import (
    CALL_FROM_SHARE,
    LINE_FROM_SHARE,
    at_line,
    is_at,
    where_of,
)
from tpuprof.report.sections import HostStackRow
from tpuprof.report.tracing_lines import (
    FORWARD_FROM_SAMPLES,
    FORWARD_FROM_SHARE,
    forward_at,
    library_at,
    mostly_at,
)

FILE = "/home/u/train.py"
MAIN = f"<module> ({FILE}:90)"
LOOP = f"fit ({FILE}:80)"


def row(line, ms, function="jitter", part="host:python", call="np.clip(a)", below=()):
    frames = [MAIN, LOOP, f"{function} ({FILE}:{line})", *below]
    return HostStackRow(part, frames, call, f"{FILE}:{line}", call, ms, 0.0)


def traced(ms=10.0):
    return HostStackRow("tracing", [MAIN, LOOP], "net(x)", f"{FILE}:80", "net(x)", ms, 0.0)


def test_a_line_with_half_of_the_part_stands_for_it():
    where = where_of([row(20, 10 * LINE_FROM_SHARE), row(21, 3.0), row(22, 2.0), traced()], "host:python")
    assert where.text == f"{FILE}:20 (np.clip(a))"
    assert where.ms == pytest.approx(5.0)


def test_a_line_with_several_expressions_is_named_alone():
    """The line's time would be taken for that of one of them."""
    where = where_of([row(20, 9.2, call="float(self.s[i])"), row(20, 6.0, call="len(self.t)")], "host:python")
    assert (where.text, where.ms) == (f"{FILE}:20", pytest.approx(15.2))


@pytest.mark.parametrize(
    ("share", "named"), [(CALL_FROM_SHARE + 0.01, True), (CALL_FROM_SHARE - 0.01, False)]
)
def test_an_expression_is_named_from_a_share_of_its_line(share, named):
    where = where_of([row(20, share, call="pack(x)"), row(20, 1 - share, call="len(y)")], "host:python")
    assert where.text == (f"{FILE}:20 (pack(x))" if named else f"{FILE}:20")


@pytest.mark.parametrize("other", ["i", ""], ids=["a name within a longer one", "an unknown one"])
def test_what_only_looks_like_a_part_of_an_expression_does_not_count_for_it(other):
    where = where_of([row(20, 6.0, call="print(y)"), row(20, 4.0, call=other)], "host:python")
    assert where.text == f"{FILE}:20"


def test_calls_of_one_line_count_together():
    where = where_of(
        [row(20, 3.0, call="a.cpu()"), row(20, 3.0, call="a.cpu().double()"), row(22, 4.0)], "host:python"
    )
    assert (where.text, where.ms) == (f"{FILE}:20 (a.cpu().double())", pytest.approx(6.0))


def test_what_was_handed_over_before_a_sample_makes_no_loop_of_its_function():
    """The time before a sample is shown with its stack, and the loop hands over just before it calls the function."""
    lines = [row(line, 2.0, call=f"part_{line}") for line in range(20, 25)]
    handed_over = [row(line, 0.1, part="dispatch", call=f"part_{line}") for line in range(20, 25)]
    others = [
        row(40, 4.0, function="other"),
        HostStackRow("sync", [MAIN, LOOP], "", f"{FILE}:80", "", 1.0, 0.0),
    ]
    where = where_of([*lines, *handed_over, *others], "host:python")
    assert (where.function, where.ms) == ("jitter", pytest.approx(10.0))


def test_a_function_that_mostly_hands_over_is_the_loop():
    lines = [row(line, 2.0, call=f"part_{line}") for line in range(20, 25)]
    handed_over = [row(line, 2.5, part="dispatch", call=f"part_{line}") for line in range(20, 25)]
    where = where_of([*lines, *handed_over, row(40, 4.0, function="other")], "host:python")
    assert where.function != "jitter"


def test_lines_that_share_a_part_are_named_with_their_function():
    """Four lines of one function: none has half of it. Time in what it calls counts for the line that calls."""
    inner = row(24, 2.0, below=("mean (/venv/lib/python3.11/site-packages/numpy/core/_methods.py:5)",))
    where = where_of([row(21, 3.0), row(22, 2.5), row(23, 2.5), inner, traced()], "host:python")
    assert where.text == f"{FILE}:21, 22, 23 and 1 more line (in jitter)"
    assert where.ms == pytest.approx(10.0)


def test_the_innermost_function_that_holds_enough_is_named():
    helper = [f"grid ({FILE}:5)"]
    rows = [row(21, 3.0, below=helper), row(22, 3.0, below=[f"grid ({FILE}:6)"]), row(23, 4.0)]
    assert where_of(rows, "host:python").function == "jitter"
    rows = [
        HostStackRow(each.part, [*each.frames, f"grid ({FILE}:{at})"], "f()", f"{FILE}:{at}", "f()", 3.0, 0.0)
        for at, each in enumerate(rows)
    ]
    assert where_of(rows, "host:python").function == "grid"


@pytest.mark.parametrize(
    ("share", "named"), [(LINE_FROM_SHARE + 0.01, "jitter"), (LINE_FROM_SHARE - 0.02, "")]
)
def test_a_function_that_holds_too_little_of_the_part_is_not_named(share, named):
    most, rest = 10 * share / 2, 10 * (1 - share)
    rows = [row(21, most), row(22, most), row(60, rest / 2, "log"), row(70, rest / 2, "save"), traced()]
    assert where_of(rows, "host:python").function == named


def test_the_training_loop_is_not_named():
    """The step function traces, too: that the time is in it says nothing."""
    rows = [row(81, 2.0, "step"), row(82, 2.0, "step"), row(83, 2.0, "step")]
    graph = HostStackRow(
        "tracing", [MAIN, LOOP, f"step ({FILE}:84)"], "net(x)", f"{FILE}:84", "net(x)", 9.0, 0.0
    )
    assert where_of([*rows, graph], "host:python").text == f"{FILE}:81 (np.clip(a))"


def called(line, ms, caller):
    """Code of a helper that the loop calls at line `caller`."""
    frames = [f"<module> ({FILE}:{caller})", f"draw_{line} ({FILE}:{line})"]
    return HostStackRow("host:python", frames, "f()", f"{FILE}:{line}", "f()", ms, 0.0)


@pytest.mark.parametrize(("elsewhere", "named"), [(1.9, f"{FILE}:31"), (2.1, f"{FILE}:5")])
def test_the_line_that_calls_all_of_it_is_named_with_what_it_calls(elsewhere, named):
    """No line has half, no function three quarters: the line of the loop that calls them has."""
    rows = [called(5, 2.4, 31), called(6, 2.0, 31), called(7, 1.6, 31), called(8, elsewhere, 33)]
    graph = HostStackRow("tracing", [f"<module> ({FILE}:32)"], "net(x)", f"{FILE}:32", "net(x)", 9.0, 0.0)
    assert where_of([*rows, graph], "host:python").source == named


def test_a_part_without_samples_or_source_has_no_place():
    assert where_of([], "host:python") is None
    assert where_of([HostStackRow("host:io", [], "f.write(a)", "", "", 3.0, 0.0)], "host:io") is None


BACKWARD = "_engine_run_backward (/venv/lib/python3.11/site-packages/torch/autograd/graph.py:841)"


def graph(line, ms, function="", at=80, below=(), samples=FORWARD_FROM_SAMPLES):
    """Tracing at a line of the loop, or of a function that the loop calls at line `at`."""
    frames = [MAIN, f"fit ({FILE}:{at if function else line})"]
    frames += [f"{function} ({FILE}:{line})"] if function else []
    return HostStackRow("tracing", [*frames, *below], "f(x)", f"{FILE}:{line}", "f(x)", ms, 0.0, samples)


def texts(rows):
    return [each.text for each in mostly_at(rows)]


def test_a_line_with_half_of_the_tracing_stands_for_it():
    assert texts([graph(82, 5.0), graph(83, 3.0), graph(84, 2.0)]) == [f"{FILE}:82 (f(x))"]


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (5.2, [f"{FILE}:20, 21 (in match)"]),
        (4.8, [f"{FILE}:82 (f(x))", f"{FILE}:20 (f(x))"]),
    ],
)
def test_tracing_of_a_function_over_many_lines_names_the_function(inside, said):
    """The loop holds all of it, and says nothing: the function that it calls has half, or the largest lines are named."""
    rows = [
        graph(20, inside / 2, "match"),
        graph(21, inside / 2, "match"),
        graph(82, 3.0),
        graph(83, 10 - 3.0 - inside),
    ]
    assert texts(rows) == said


@pytest.mark.parametrize(("beside", "named"), [(1.2, "step"), (0.9, "")])
def test_the_step_that_the_loop_calls_says_nothing(beside, named):
    """A function with nine tenths of all tracing is the training step itself."""
    rows = [graph(30 + row, (10 - beside) / 4, "step") for row in range(4)]
    found = mostly_at([*rows, graph(90, beside)])
    assert found[0].function == named


def test_tracing_over_too_many_lines_names_none():
    assert mostly_at([graph(line, 1.0) for line in range(80, 88)]) == []
    assert mostly_at([]) == []


def test_the_forward_pass_that_the_backward_pass_repeats():
    """A backward pass has no lines of its own: what it traces was built in the forward pass."""
    forward = [graph(20, 2.0, "giou"), graph(21, 1.9, "giou"), graph(60, 0.9, "body")]
    backward = graph(82, 6.0, below=[BACKWARD])
    assert forward_at([*forward, backward]).text == f"{FILE}:20, 21 (in giou)"
    assert forward_at(forward) is None
    assert forward_at([*forward, graph(61, 2.0, "head"), backward]) is None


@pytest.mark.parametrize(
    ("samples", "named"), [(FORWARD_FROM_SAMPLES, True), (FORWARD_FROM_SAMPLES - 1, False)]
)
def test_few_samples_say_nothing_of_the_forward_pass(samples, named):
    """One sample in what a log calls had 3 ms of tracing before it, and was most of a small forward pass."""
    rows = [graph(20, 3.0, "giou", samples=samples), graph(82, 6.0, below=[BACKWARD])]
    assert (forward_at(rows) is not None) is named


def test_what_sleeps_longer_than_it_traces_is_no_forward_pass():
    acquire, backward = graph(11, 3.0, "acquire"), graph(82, 6.0, below=[BACKWARD])
    assert forward_at([acquire, backward]).function == "acquire"
    assert (
        forward_at([acquire, replace(acquire, part="host:sleep", exposed_ms_per_step=4.0), backward]) is None
    )


def test_what_makes_batches_for_longer_than_it_traces_is_no_forward_pass():
    """What was traced before a sample in pandas code counted as traced there, and that code as the forward pass."""
    features, backward = graph(31, 3.0, "features"), graph(82, 6.0, below=[BACKWARD])
    batches = replace(features, part="input_wait", exposed_ms_per_step=4.0)
    assert forward_at([features, backward]).function == "features"
    assert forward_at([features, batches, backward]) is None


@pytest.mark.parametrize(("forward", "named"), [(0.51, True), (0.49, False)])
def test_a_forward_pass_that_samples_hardly_show_is_unknown(forward, named):
    backward = graph(82, 10 - forward, below=[BACKWARD])
    assert FORWARD_FROM_SHARE == 0.05
    assert (forward_at([graph(31, forward, "features"), backward]) is not None) is named


def test_an_optimizer_of_the_users_own_is_no_forward_pass():
    """torch calls its `step` from a file of its own."""
    update, backward = graph(11, 8.0, "step"), graph(82, 6.0, below=[BACKWARD])
    wrapper = "wrapper (/venv/lib/python3.11/site-packages/torch/optim/optimizer.py:9)"
    assert forward_at([update, backward]).function == "step"
    update = replace(update, frames=[*update.frames[:-1], wrapper, update.frames[-1]])
    assert forward_at([update, backward]) is None


def test_what_runs_without_gradients_is_no_forward_pass():
    """PPO's agent plays under `@torch.no_grad()`; what it traces there was "what the backward pass traces again"."""
    act, backward = graph(17, 8.0, "act"), graph(82, 6.0, below=[BACKWARD])
    without = "decorate_context (/venv/lib/python3.11/site-packages/torch/utils/_contextlib.py:120)"
    assert forward_at([act, backward]).function == "act"
    act = replace(act, frames=[*act.frames[:-1], without, act.frames[-1]])
    assert forward_at([act, backward]) is None
    assert forward_at([act, graph(20, 1.0, "evaluate"), backward]).function == "evaluate"


def test_a_line_that_reads_is_no_forward_pass():
    """A callback that reads the norm of each gradient traces what it reads, after the backward pass."""
    logs, backward = graph(12, 4.0, "on_batch_end", at=85), graph(82, 6.0, below=[BACKWARD])
    read = replace(logs, part="device_to_host_sync")
    forward = [graph(20, 1.0, "giou"), graph(21, 0.9, "giou")]
    assert forward_at([logs, backward]).source == f"{FILE}:12"
    assert forward_at([logs, read, backward]) is None
    assert forward_at([*forward, logs, read, backward]).function == "giou"
    # A read elsewhere in the function leaves its other lines.
    elsewhere = replace(read, source=f"{FILE}:22")
    assert forward_at([*forward, elsewhere, backward]).function == "giou"


def test_a_comprehension_is_part_of_its_function():
    """Lines of comprehensions of several functions are not those of one function called <listcomp>."""
    inner = (f"<listcomp> ({FILE}:22)",)
    rows = [
        row(21, 3.0),
        HostStackRow("host:python", [*row(22, 0).frames, *inner], "ord(c)", f"{FILE}:22", "ord(c)", 3.0, 0.0),
        row(23, 3.0),
        row(60, 1.0, "collate", below=(f"<listcomp> ({FILE}:60)",)),
        traced(),
    ]
    assert where_of(rows, "host:python").text == f"{FILE}:21, 22, 23 (in jitter)"


def test_the_step_that_calls_backward_is_no_forward_pass():
    """torch_xla.compile cuts the graph outside of the step, so the step holds less than all tracing."""
    rows = [graph(20, 2.0, "step"), graph(21, 2.0, "step"), graph(90, 3.0)]
    backward = graph(22, 6.0, "step", below=[BACKWARD])
    assert forward_at([*rows[:2], backward]) is None
    assert forward_at([*rows, backward]) is None


LIBRARY = "/venv/lib/python3.11/site-packages/transformers"
TRAINER = (f"train ({LIBRARY}/trainer.py:2500)", f"training_step ({LIBRARY}/trainer.py:4000)")


def trained(ms, *below):
    """Tracing inside `trainer.train()`, at line 90 of the user's script."""
    frames = [MAIN, *TRAINER, *below]
    return HostStackRow(
        "tracing", frames, "f(x)", f"{FILE}:90", "trainer.train()", ms, 0.0, FORWARD_FROM_SAMPLES
    )


def block(line):
    inner = "linear (/venv/lib/python3.11/site-packages/torch/nn/functional.py:125)"
    return (f"forward ({LIBRARY}/models/gpt2/modeling_gpt2.py:{line})", inner)


def test_a_library_that_trains_is_named_by_the_function_of_its_forward_pass():
    rows = [trained(2.0, *block(400)), trained(1.5, *block(410)), trained(6.0, BACKWARD), trained(0.5)]
    assert texts(rows) == [f"{FILE}:90 (trainer.train())"]
    assert library_at(rows).text == "transformers/models/gpt2/modeling_gpt2.py:400, 410 (in forward)"


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [trained(6.0, BACKWARD), trained(4.0)],
        [trained(3.0, *block(400)), trained(2.0, f"pack ({LIBRARY}/data.py:7)"), trained(6.0, BACKWARD)],
        [graph(82, 5.0, below=block(400)), graph(83, 3.0), graph(84, 2.0)],
    ],
    ids=["nothing", "no function", "two functions", "a line of the user's own loop"],
)
def test_no_function_of_a_library_is_named(rows):
    assert library_at(rows) is None


def test_a_function_with_half_is_named_rather_than_the_loop_around_it():
    """The loop waits for the device, and calls jitted functions; no event of JAX says that it trains."""
    rows = [row(21, 3.0), row(22, 3.0), row(60, 2.0, "log"), row(70, 2.0, "save")]
    waits = HostStackRow("device_to_host_sync", [MAIN, LOOP], "loss", f"{FILE}:81", "loss", 1.0, 0.0)
    assert where_of([*rows, waits], "host:python").text == f"{FILE}:21, 22 (in jitter)"


@pytest.mark.parametrize(
    ("call", "source", "text"),
    [
        ("time.sleep(1)", "train.py:7", "time.sleep(1) at train.py:7"),
        ("", "train.py:7", "train.py:7"),
        ("loss", "train.py:7", "freeing what loss held at train.py:7"),
        ("", "", "source unknown"),
    ],
)
def test_what_runs_where(call, source, text):
    assert at_line(call, source) == text


@pytest.mark.parametrize(("path", "named"), [("<ipython-input-3-0a1b2c>", "make"), ("<string>", "")])
def test_functions_of_a_notebooks_cell_are_the_users(path, named):
    rows = [
        replace(each, frames=[MAIN, LOOP, f"make ({path}:{line})"], source=f"{path}:{line}")
        for line, each in ((7, row(7, 3.0)), (8, row(8, 3.0)), (9, row(9, 3.0)))
    ]
    assert where_of([*rows, traced()], "host:python").function == named


def test_a_stack_without_a_line_of_the_user_s_is_at_its_innermost_frame():
    """All of a program in packages: the same line was named twice."""
    frames = ["dumps (/usr/lib/python3.11/json/__init__.py:9)"]
    rows = [HostStackRow("host:python", frames, "f(x)", "", "", 5.0, 0.0)]
    assert is_at(rows[0], where_of(rows, "host:python"))
