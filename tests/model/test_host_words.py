"""What the verdict adds on the host: the line that makes or awaits batches, the lines that trace."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tpuprof.analysis.sections.host_words import host_beside, host_sentence
from tpuprof.model.host.handing_over import HandingOver
from tpuprof.model.step_times import StepTimes
from tpuprof.report.sections import HostStackRow
from tpuprof.report.tracing_lines import FORWARD_FROM_SAMPLES

FILE = "/home/u/train.py"
BACKWARD = "_engine_run_backward (/venv/lib/python3.11/site-packages/torch/autograd/graph.py:841)"


def times(**parts):
    return StepTimes(wall=100.0, parts=parts, busy=20.0, host_work=80.0, reads_share=0.0)


def row(part, line, ms, call, function="", below=()):
    frames = [f"<module> ({FILE}:{90 if function else line})"]
    frames += [f"{function} ({FILE}:{line})"] if function else []
    return HostStackRow(part, [*frames, *below], call, f"{FILE}:{line}", call, ms, 0.0, FORWARD_FROM_SAMPLES)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            "input_wait",
            " The host makes the next batch, or waits for it, at /home/u/train.py:7 (json.loads(x)), 50.0 ms of 100 ms.",
        ),
        (
            "host_to_device",
            " The host copies to the device at /home/u/train.py:7 (json.loads(x)), 50.0 ms of 100 ms.",
        ),
        ("infeed_outfeed", ""),
    ],
)
def test_where_input_takes_its_time(part, said):
    stacks = [row(part, 7, 50.0, "json.loads(x)", "collate"), row("tracing", 91, 9.0, "model(x)")]
    assert host_sentence("input", "", times(**{part: 55.0}), stacks, run=SimpleNamespace(hosts=[])) == said


@pytest.mark.parametrize(("seen", "named"), [(24.0, False), (26.0, True)])
def test_a_line_that_holds_little_of_the_input_is_not_named(seen, named):
    """Samples that come late show the line after a copy: `float(loss)` copies nothing to the device."""
    stacks = [row("host_to_device", 7, seen, "float(loss)")]
    said = host_sentence("input", "", times(host_to_device=100.0), stacks, run=SimpleNamespace(hosts=[]))
    assert ("float(loss)" in said) == named


def test_the_backward_pass_is_named_with_the_forward_pass_it_repeats(monkeypatch):
    monkeypatch.setattr("tpuprof.analysis.sections.host_words._eager", lambda _run: "")
    stacks = [
        row("tracing", 20, 14.0, "a * b", "giou"),
        row("tracing", 21, 13.0, "a + b", "giou"),
        row("tracing", 82, 38.0, "loss.backward()", below=[BACKWARD]),
        row("tracing", 83, 15.0, "x"),
    ]
    assert host_sentence("tracing", "", times(tracing=80.0), stacks, run=None) == (
        " Most of it is at /home/u/train.py:82 (loss.backward()) and /home/u/train.py:83 (x)."
    )
    assert host_sentence("tracing", "", times(tracing=80.0), stacks[:3], run=None) == (
        " Most of it is at /home/u/train.py:82 (loss.backward())."
        " The backward pass traces what the forward pass built: most of that at /home/u/train.py:20, 21 (in giou)."
    )


@pytest.mark.parametrize(
    ("ms", "waits", "said"),
    [
        ([41.0], 0, " Most of it is at /home/u/train.py:7 (p - g)."),
        (
            [20.0, 18.0, 12.0],
            0,
            " Most of it is at /home/u/train.py:7 (p - g) and /home/u/train.py:8 (p - g).",
        ),
        # Where samples show less than half of it, and where it is a wait for the device.
        ([39.0], 0, " Of that, 60 % is inside 'ExecuteHelper' on one thread."),
        (
            [41.0],
            40,
            " Of that, 50 % is a wait for work that it handed over, while the trace shows none on the device",
        ),
    ],
)
def test_the_lines_that_call_most_are_named_before_an_event_of_the_runtime(ms, waits, said):
    """A verdict on Adam's eager ops named `PjRtCpuExecutable::ExecuteHelper`, and not where they are called."""
    found = HandingOver(80, waits, "ExecuteHelper", 48)
    run = SimpleNamespace(hosts=[SimpleNamespace(handing_over=found, eager_ops=None)])
    stacks = [row("dispatch", 7 + number, each, "p - g") for number, each in enumerate(ms)]
    stacks.append(row("tracing", 9, 90.0, "model(x)"))
    assert host_sentence("dispatch", "", times(dispatch=80.0), stacks, run).startswith(said)


@pytest.mark.parametrize(
    ("part", "second", "said"),
    [
        (
            "host:python",
            16.0,
            "; it also runs code that gives the device no work at /home/u/train.py:9 (f(x)), 16.0 ms",
        ),
        ("host:sleep", 16.0, "; it also does so at /home/u/train.py:9 (f(x)), 16.0 ms"),
        ("host:python", 14.0, ""),
    ],
)
def test_another_line_that_takes_nearly_as_long_is_named_too(part, second, said):
    """Two captures of one program named the one or the other: a sleep of 12 ms, and a loop that takes as long."""
    stacks = [row("host:sleep", 7, 30.0, "time.sleep(x)"), row(part, 9, second, "f(x)")]
    parts = {"host:sleep": 30.0}
    parts[part] = parts.get(part, 0.0) + second
    assert host_sentence("host", "", times(**parts), stacks, run=None) == (
        f" The host sleeps at /home/u/train.py:7 (time.sleep(x)), 30.0 ms of 100 ms{said}."
    )


@pytest.mark.parametrize(("hidden", "named"), [(14.0, False), (16.0, True)])
def test_what_the_host_does_for_nearly_as_long_while_the_device_works_is_said(hidden, named):
    """A sleep of 12 ms and a loop of 9: which of the two the device works behind is chance."""
    behind = replace(row("host:sleep", 9, 0.0, "time.sleep(x)"), hidden_ms_per_step=hidden)
    stacks = [row("host:python", 7, 30.0, "f(x)"), behind]
    said = host_sentence("host", "", times(**{"host:python": 30.0}), stacks, run=None)
    more = "; it also sleeps at /home/u/train.py:9 (time.sleep(x)), 16.0 ms while the device works"
    assert said == (
        " The host runs code that gives the device no work at /home/u/train.py:7 (f(x)), 30.0 ms of 100 ms"
        f"{more if named else ''}."
    )


def test_what_the_named_line_does_while_the_device_works_is_said_too():
    """The finding named line 7 for both; the verdict named another line for what it does behind the device."""
    first = replace(row("host:python", 7, 6.0, "f(x)"), hidden_ms_per_step=45.0)
    second = replace(row("host:python", 9, 5.0, "g(x)"), hidden_ms_per_step=28.0)
    said = host_sentence("host", "", times(**{"host:python": 11.0}), [first, second], run=None)
    assert said == (
        " The host runs code that gives the device no work at /home/u/train.py:7 (f(x)), 6.00 ms of 100 ms,"
        " and 45.0 ms more while the device works;"
        " it also does so at /home/u/train.py:9 (g(x)), 28.0 ms while the device works."
    )


def test_what_the_named_line_calls_is_no_other_line():
    below = ["deep (/venv/lib/python3.11/site-packages/x.py:1)"]
    stacks = [
        row("host:python", 7, 30.0, "g(x)"),
        HostStackRow("host:io", [f"<module> ({FILE}:7)", *below], "", f"{FILE}:7", "g(x)", 25.0, 0.0, 9),
    ]
    said = host_sentence("host", "", times(**{"host:python": 30.0, "host:io": 25.0}), stacks, run=None)
    assert (
        said
        == " The host runs code that gives the device no work at /home/u/train.py:7 (g(x)), 30.0 ms of 100 ms."
    )


def test_a_line_that_hands_programs_over_is_not_said_to_give_the_device_no_work():
    stacks = [row("host:python", 7, 30.0, "model(x).cpu()"), row("dispatch", 7, 9.0, "model(x).cpu()")]
    said = host_sentence("host", "", times(**{"host:python": 30.0}), stacks, run=None)
    assert said == (
        " The host runs code beside calls that give the device work at /home/u/train.py:7 (model(x).cpu()), "
        "30.0 ms of 100 ms."
    )


def test_of_two_lines_that_compute_each_is_said_what_it_does():
    stacks = [
        row("host:python", 7, 30.0, "f(x)"),
        row("host:python", 9, 28.0, "model(x).cpu()"),
        row("dispatch", 9, 9.0, "model(x).cpu()"),
    ]
    said = host_sentence("host", "", times(**{"host:python": 58.0}), stacks, run=None)
    assert said == (
        " The host runs code that gives the device no work at /home/u/train.py:7 (f(x)), 30.0 ms of 100 ms; "
        "it also runs code beside calls that give the device work at /home/u/train.py:9 (model(x).cpu()), 28.0 ms."
    )


def test_the_line_that_holds_most_of_the_other_work_is_said_beside_another_cause():
    loop, other = row("host:python", 45, 30.0, "rng.choice(x)"), row("host:sleep", 9, 15.0, "time.sleep(x)")
    parts = {"host:python": 32.0, "host:sleep": 15.0}
    said = f", most of it at {FILE}:45 (rng.choice(x))"
    assert host_beside(times(**parts), [loop, other]) == said
    assert host_beside(times(**{**parts, "host:sleep": 29.0}), [loop, other]) == ""
    assert host_beside(times(tracing=50.0), []) == ""
