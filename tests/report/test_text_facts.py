"""What the terminal says of why: one line a section, nothing where a section has nothing."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.rules.given import transfer
from tpuprof.analysis.analyze import analyze_run
from tpuprof.render.facts import LINE_FROM_STEP_SHARE, _host, _input, _longest_ahead, _shape_text, fact_lines
from tpuprof.report.host_lines import PLACE_FROM_SHARE, library_place
from tpuprof.report.labels import OTHER_CUT
from tpuprof.report.sections import GraphCutRow, HostStackRow, InputRow, OutlierRow

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def facts():
    kept = {}

    def of(name):
        if name not in kept:
            kept[name] = {}
            for subject, line in fact_lines(analyze_run(SAMPLES / name)):
                kept[name].setdefault(subject, []).append(line)
        return kept[name]

    return of


def test_tracing_and_scans(facts):
    (line,) = facts("decoder_scan")["Tracing"]
    assert "Python and dispatch " in line
    # The capture does not time how long scan looks for its traced body.
    assert ", scan " in line
    assert "traced again" not in line


def test_loops_with_their_iterations(facts):
    backward, forward = facts("decoder_scan")["Loops and layers"]
    assert backward.startswith("backward while.9: 4 iterations of ")
    assert forward.startswith("forward while.7: 4 iterations of ")


@pytest.mark.parametrize(("times", "told"), [(1.0, False), (1.004, False), (1.25, True)])
def test_a_loop_that_does_not_run_in_each_step_tells_how_often_it_ran(times, told):
    """ "4 iterations of 1 ms, 3.2 ms per step" does not multiply otherwise."""
    report = analyze_run(SAMPLES / "decoder_scan")
    row = report.loops[0]
    whole = sum(row.iteration_ms) / times
    changed = replace(row, total_ms_per_step=whole, occurrences=13)
    (line,) = (each for what, each in fact_lines(replace(report, loops=[changed])) if "Loops" in what)
    assert ("; 13 executions in all captured steps" in line) is told


def test_repeated_layers(facts):
    (line,) = facts("decoder_loop")["Loops and layers"]
    assert line.startswith("3 equal layers (layers.*) with 12 matrix multiplications each")


def test_input(facts):
    (line,) = facts("input_starved")["Input"]
    assert line.startswith("no prefetch: training makes its own batches; a batch takes 101 ms")


def test_what_a_trace_cannot_tell_says_so(facts):
    (line,) = facts("decoder_loop")["Compute"]
    assert "unavailable" in line


def test_sections_without_anything_to_say_are_left_out(facts):
    assert (
        not {"Hosts", "Uneven steps", "Drift", "CPU fallbacks", "Compilation cache"}
        & facts("decoder_loop").keys()
    )


@pytest.mark.shared_traces
def test_memory_of_the_v6e(shared_traces):
    lines = dict(fact_lines(analyze_run(shared_traces / "tpu_v6e_host_offload")))
    assert lines["Memory"].startswith("20.0 GiB of 31.2 GiB per device")
    assert "beside it in host memory 15.0 GiB" in lines["Memory"]


@pytest.mark.parametrize(
    ("exposed", "end"),
    [
        (46.3, "training waits 64.8 ms per step, 46.3 ms of it while the device idles"),
        (64.8, "training waits 64.8 ms per step"),
        (0.0, "training waits 64.8 ms per step"),
    ],
)
def test_a_wait_for_batches_says_what_of_it_the_device_idles(exposed, end):
    """The breakdown has only that part of it."""
    row = InputRow("vm", "none", 1.0, 62.3, 64.8, exposed, 0.9, "no_prefetch")
    assert _input(row) == f"no prefetch: training makes its own batches; a batch takes 62.3 ms, {end}"


def test_a_line_of_the_program_is_named_once_with_all_that_it_calls():
    """Two places in a library, called at one line of the program."""
    stacks = [
        HostStackRow(
            "host:python", [f"f (/v/site-packages/x.py:{at})"], "g()", "/u/t.py:3", "net(x)", ms, 0.0
        )
        for at, ms in ((7, 4.0), (9, 2.0))
    ]
    tiny = replace(stacks[0], part="host:gil", exposed_ms_per_step=0.99 * LINE_FROM_STEP_SHARE * 20)
    report = SimpleNamespace(
        host_stacks=[*stacks, replace(stacks[0], part="host:io", exposed_ms_per_step=5.0), tiny],
        pod=None,
        breakdown={"compute": SimpleNamespace(ms_per_step=20.0)},
    )
    assert _host(report) == [
        "Code without work for the device: net(x) at /u/t.py:3, 6.00 ms per step",
        "Host reads or writes: net(x) at /u/t.py:3, 5.00 ms per step",
    ]


@pytest.mark.parametrize(
    ("source", "call", "title"),
    [
        ("/u/t.py:3", "train_step(state)", "Python at a line that also calls programs"),
        # Another call of the same line.
        ("/u/t.py:3", "log(train_step(state))", "Code without work for the device"),
        ("/u/t.py:4", "train_step(state)", "Code without work for the device"),
    ],
)
def test_a_line_that_calls_programs_is_not_said_to_have_no_work_for_the_device(source, call, title):
    """What a jitted function's call does beside handing its program over, at the same line."""
    python = HostStackRow("host:python", ["f (/v/x.py:7)"], "g()", "/u/t.py:3", "train_step(state)", 2.0, 0.0)
    report = SimpleNamespace(
        host_stacks=[python, replace(python, part="dispatch", source=source, user_call=call)],
        pod=None,
        breakdown={"compute": SimpleNamespace(ms_per_step=20.0)},
    )
    assert _host(report) == [f"{title}: train_step(state) at /u/t.py:3, 2.00 ms per step"]


@pytest.mark.parametrize(
    ("samples", "named"), [((1,), False), ((1, 1), False), ((1, 2), True), ((0,), True), ((0, 0), True)]
)
def test_a_line_that_a_sample_or_two_saw_is_not_named(samples, named):
    """A thread that lost its CPU for long is seen once, wherever it was; 0 samples are unknown ones."""
    stacks = [
        HostStackRow(
            "host:python", [f"f (/u/t.py:{at})"], "perf_counter()", "/u/t.py:3", "tick()", 4.0, 0.0, count
        )
        for at, count in enumerate(samples)
    ]
    report = SimpleNamespace(
        host_stacks=stacks, pod=None, breakdown={"compute": SimpleNamespace(ms_per_step=20.0)}
    )
    assert bool(_host(report)) is named


@pytest.mark.parametrize(
    ("exposed", "hidden", "shown"), [(0.0, None, None), (0.0, 1.0, 0.0), (2.0, None, 2.0), (2.0, 1.0, 2.0)]
)
def test_a_transfer_of_which_nothing_was_seen_by_itself_is_unknown_and_not_0(exposed, hidden, shown):
    assert transfer(exposed=exposed, hidden=hidden).seen_exposed_ms == shown


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        (["train (/u/t.py:3)", "mask (/v/site-packages/transformers/masking_utils.py:761)"], "transformers/masking_utils.py:761"),
        # The framework's own frames are not where the read is.
        (["train (/u/t.py:3)", "item (/v/site-packages/torch/_tensor.py:9)"], ""),
        (["train (/u/t.py:3)"], ""),
        # The checks that PyTorch itself makes are.
        (
            ["__init__ (/v/site-packages/torch/distributions/normal.py:66)", "__init__ (/v/site-packages/torch/distributions/distribution.py:76)"],
            "torch/distributions/distribution.py:76",
        ),
        (["clip_grad_norm_ (/v/site-packages/torch/nn/utils/clip_grad.py:84)", "_wrapped_call_impl (/v/site-packages/torch/nn/modules/module.py:1775)"], "torch/nn/utils/clip_grad.py:84"),
        (["clip_grad_norm_ (/v/site-packages/torch_xla/_patched_functions.py:51)"], "torch_xla/_patched_functions.py:51"),
        (["sync (/v/site-packages/torch_xla/torch_xla.py:80)"], ""),
        (["train (/u/t.py:3)", "item (/v/lib/python3.11/site-packages/torchax/ops/jaten.py:3524)"], ""),
        (["train (/u/t.py:3)", "getMessage (/usr/lib/python3.11/logging/__init__.py:368)"], ""),
        (["accuracy (/v/lib/python3.11/site-packages/sklearn/metrics.py:7)"], "sklearn/metrics.py:7"),
        (["read (/opt/lab/common/metrics.py:8)"], "common/metrics.py:8"),
    ],
)  # fmt: skip
def test_the_place_in_a_library_that_a_line_of_the_program_leads_to(frames, place):
    rows = [
        HostStackRow("device_to_host_sync", frames, "g()", "/u/t.py:3", "train()", 1.0, 4.0),
        HostStackRow("tracing", ["a (/v/site-packages/x/y.py:1)"], "g()", "/u/t.py:3", "train()", 9.0, 0.0),
        HostStackRow(
            "device_to_host_sync", ["b (/v/site-packages/x/z.py:1)"], "g()", "/u/t.py:8", "log()", 9.0, 0.0
        ),
    ]
    assert library_place(rows, "device_to_host_sync", "/u/t.py:3") == place
    assert library_place([], "device_to_host_sync", "/u/t.py:3") == ""


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([PLACE_FROM_SHARE], " and 1 other line"),
        ([PLACE_FROM_SHARE / 2], ""),
        ([0.2, 0.3], " and 2 other lines"),
    ],
)
def test_other_lines_of_a_library_that_take_much_are_counted(others, said):
    """L-BFGS reads at two lines, eleven times per step: the report named one of them."""
    shares = {401: 1.0 - sum(others), **{408 + row: each for row, each in enumerate(others)}}
    rows = [
        HostStackRow(
            "device_to_host_sync", [f"step (/v/site-packages/torch/optim/lbfgs.py:{line})"], "g()", "/u/t.py:3", "g()",
            50.0 * share, 50.0 * share,
        )
        for line, share in shares.items()
    ]  # fmt: skip
    assert library_place(rows, "device_to_host_sync", "/u/t.py:3") == f"torch/optim/lbfgs.py:401{said}"


@pytest.mark.parametrize(
    ("call", "source", "said"),
    [
        ("sync", "t.py:5", "2 graphs per step by sync at t.py:5"),
        (OTHER_CUT, "", "2 graphs per step by nothing that the program calls: an implicit read, or an op"),
    ],
)
def test_graph_cuts_that_no_call_makes_say_what_they_may_be(call, source, said):
    """It said "12 graphs per step by other"."""
    report = analyze_run(SAMPLES / "decoder_scan")
    rows = [GraphCutRow(call, source, 2.0)]
    assert said in dict(fact_lines(replace(report, graph_cuts=rows)))["Graph cuts"]


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ("f32[32,4]", "f32[32,4]"),
        ("(f32[], f32[32,4])", "tuple of 2 arrays"),
        ("(s32[2])", "tuple of 1 array"),
    ],
)
def test_a_tuple_is_not_listed_array_by_array(shape, said):
    assert _shape_text(shape) == said


@pytest.mark.parametrize(
    ("compiles", "said"),
    [
        (5.0, "step 7 took 10.0 ms: compile 5.00 ms more"),
        (
            4.9,
            "step 7 took 10.0 ms: the host runs ahead of the device, and waits there for the work of the steps before",
        ),
    ],
)
def test_a_long_step_of_a_host_that_runs_ahead_waits_or_does_work_of_its_own(compiles, said):
    reasons = {"compile": compiles, "compute": 10.0 - compiles}
    assert _longest_ahead(OutlierRow(7, "vm", 0, 10.0, 9.9, reasons)) == said
