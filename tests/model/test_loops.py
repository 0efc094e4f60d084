"""Iterations of `while` loops, and layers repeated without one."""

import json
from dataclasses import replace

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.device.loops import OUTLIER_FACTOR, STEADY_FROM_SHARE, Loop, _direction
from tpuprof.model.device.unrolled import MIN_LAYERS, MIN_UNNAMED_LAYERS, SAME_FLOPS_WITHIN


def program(steps=2):
    trace = TraceBuilder()
    begins = [1000 * i for i in range(steps)]
    trace.host().line("python").repeat("train", begins, 1000, _r=1)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", begins, 1000)
    return trace, begins


def run(trace, name, opcode, starts, duration, *, category="", scope="", source="", flops=0):
    facts = {"hlo_category": category or opcode, "tf_op": scope, "source": source, "flops": flops}
    trace.tpu(0).line("XLA Ops").repeat(
        f"%{name} = f32[8]{{0}} {opcode}(f32[8]{{0}} %p)", starts, duration, display=name, facts=facts
    )


def loop(trace, begins, lengths, *, scope="xla__scan/aot_forward/aten__mm"):
    """A while of 4 iterations of given lengths (us), each a matmul, then half as long an add; a condition runs 5 times."""
    total = sum(lengths)
    run(trace, "while.1", "while", begins, total)
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    for i, length in enumerate(lengths):
        at = [b + starts[i] for b in begins]
        run(trace, "dot.1", "dot", at, length * 0.5, category="convolution", scope=scope)
        run(trace, "add.1", "add", [a + length * 0.5 for a in at], length * 0.4, scope=scope)
        run(trace, "compare.1", "compare", [a + length * 0.95 for a in at], length * 0.01)
    run(trace, "compare.1", "compare", [b + total - 0.001 for b in begins], 0.0005)


def test_iterations_of_a_loop(analyze):
    trace, begins = program()
    loop(trace, begins, [100, 100, 100, 100])
    row = analyze(trace).loops[0]
    assert (row.kind, row.name, row.trip_count, row.occurrences, row.direction) == (
        "while", "while.1", 4, 2, "forward",
    )  # fmt: skip
    assert row.iteration_ms == pytest.approx([0.1] * 4)
    assert row.total_ms_per_step == pytest.approx(0.4)
    assert row.outliers == []


@pytest.mark.parametrize(("factor", "found"), [(OUTLIER_FACTOR - 0.05, []), (OUTLIER_FACTOR + 0.05, [2])])
def test_an_iteration_that_stands_out(analyze, factor, found):
    trace, begins = program()
    loop(trace, begins, [100, 100, 100 * factor, 100])
    assert analyze(trace).loops[0].outliers == found


def test_no_iteration_stands_out_on_this_machines_cpu():
    """The system stops its threads now and then: iterations of 14 us took 85 or more on a busy machine."""
    of_tpu = Loop("while.1", "f", "", 3, 1, 300, [100.0, 100.0, 100.0 * OUTLIER_FACTOR * 2], "", "")
    assert (of_tpu.outliers, replace(of_tpu, interrupted=True).outliers) == ([2], [])


def test_a_backward_loop(analyze):
    trace, begins = program()
    loop(
        trace,
        begins,
        [100] * 4,
        scope="Decoder@backward.1/xla__scan/Decoder@backward.1/aot_backward.3/aten__mm",
    )
    assert analyze(trace).loops[0].direction == "backward"


def test_a_loop_inside_a_loop_does_not_lend_it_its_iterations(analyze):
    trace, begins = program()
    run(trace, "while.1", "while", begins, 400)
    for outer in range(2):
        at = [b + 200 * outer for b in begins]
        run(trace, "dot.1", "dot", at, 50)
        run(trace, "while.2", "while", [a + 50 for a in at], 150)
        for inner in range(3):
            run(trace, "dot.2", "dot", [a + 50 + 50 * inner for a in at], 50)
    outer, inner = analyze(trace).loops
    assert (outer.name, outer.trip_count, inner.name, inner.trip_count) == ("while.1", 2, "while.2", 3)
    assert inner.occurrences == 4
    assert (outer.within, inner.within) == ("", "while.1")


def test_executions_that_differ_have_no_iterations(analyze):
    trace, begins = program()
    run(trace, "while.1", "while", begins, 400)
    run(trace, "dot.1", "dot", [0, 100, 200, 1000], 50)
    row = analyze(trace).loops[0]
    assert (row.trip_count, row.iteration_ms) == (None, None)
    assert "differs" in row.detail


@pytest.mark.parametrize(
    ("once", "trips"), [(2 * STEADY_FROM_SHARE - 0.1, None), (2 * STEADY_FROM_SHARE + 0.1, 1)]
)
def test_an_op_that_runs_once_in_each_execution_is_no_iteration(analyze, once, trips):
    """A NUTS tree took 1 to 64 iterations, "1 iterations of 692 us" in all."""
    trace, begins = program(3)
    run(trace, "while.1", "while", begins, 900)
    run(trace, "copy.1", "copy", begins, 100 * once)
    at = [
        begin + 300 + 120 * trip
        for begin, times in zip(begins, (1, 2, 4), strict=True)
        for trip in range(times)
    ]
    run(trace, "dot.1", "dot", at, 300 / 7, category="convolution")
    (row,) = analyze(trace).loops
    assert row.trip_count == trips
    assert ("differs between executions" in row.detail) is (trips is None)


def layers(trace, begins, count, *, scope="", flops=1 << 30, flops_of=None):
    """`count` layers with a forward and two backward matmuls each, and a head."""
    for layer in range(count):
        for part in range(3):
            run(
                trace, f"dot.{layer}{part}", "dot", [b + 10 * layer + 3 * part for b in begins], 2,
                category="convolution fusion", flops=flops_of(layer) if flops_of else flops, source="" if part else "model.py:12",
                scope=scope.format(layer) + ("aten__mm" if part < 2 else "aten__mm_backward"),
            )  # fmt: skip
    run(trace, "dot.head", "dot", [b + 900 for b in begins], 1, category="convolution", flops=flops // 4)


@pytest.mark.parametrize("count", [MIN_UNNAMED_LAYERS - 1, MIN_UNNAMED_LAYERS, 24])
def test_layers_without_names(analyze, count):
    trace, begins = program()
    layers(trace, begins, count)
    found = [row for row in analyze(trace).loops if row.kind == "unrolled"]
    if count < MIN_UNNAMED_LAYERS:
        assert found == []
    else:
        assert [(row.trip_count, row.source) for row in found] == [(count, "model.py:12")]
        assert "3 matrix multiplications each" in found[0].detail


@pytest.mark.parametrize(("named", "expected"), [(0, 8), (4, 4), (MIN_LAYERS - 1, 8), (7, None)])
def test_names_of_inputs_say_how_many_layers_there_are(tmp_path, named, expected):
    """Four layers that use each line twice look like eight; a preflight notes what the inputs are called."""
    trace, begins = program()
    layers(trace, begins, 8)
    profile = tmp_path / "plugins" / "profile" / "2026"
    profile.mkdir(parents=True)
    trace.write(profile / "host.xplane.pb")
    names = [f"{of}layers.{n}.up.weight" for n in range(named) for of in ("", "exp_avg of ")]
    (tmp_path / "tpuprof").mkdir()
    info = {
        "schema": "tpuprof.run/1",
        "predicted": True,
        "preflight": {"parameter_names": ["", "head.weight", *names]},
    }
    (tmp_path / "tpuprof" / "run.json").write_text(json.dumps(info))
    found = [row.trip_count for row in analyze_run(tmp_path).loops if row.kind == "unrolled"]
    assert found == ([expected] if expected else [])


@pytest.mark.parametrize("more", [SAME_FLOPS_WITHIN * 0.9, SAME_FLOPS_WITHIN * 1.2])
def test_what_is_fused_into_a_matmul_makes_it_no_other_one(analyze, more):
    trace, begins = program()
    # Every second layer's matmuls state more FLOPs, by what the compiler fused into them.
    layers(trace, begins, 16, flops_of=lambda layer: int((1 << 30) * (1 + more * (layer % 2))))
    found = [row for row in analyze(trace).loops if row.kind == "unrolled"]
    assert [row.trip_count for row in found] == ([16] if more < SAME_FLOPS_WITHIN else [8])


@pytest.mark.parametrize("count", [MIN_LAYERS - 1, MIN_LAYERS])
def test_layers_with_names(analyze, count):
    trace, begins = program()
    layers(trace, begins, count, scope="Decoder.1/layers.{0}.2/layers.{0}.up.5/")
    found = [(row.trip_count, row.name) for row in analyze(trace).loops]
    assert found == ([(count, "layers.*")] if count >= MIN_LAYERS else [])


def test_the_ops_of_layers_with_names_are_counted(analyze):
    trace, begins = program()
    # Nine ops in layers, one that names nothing (the head of `layers`), and one of another part of the model.
    layers(trace, begins, 3, scope="Decoder.1/layers.{0}.2/layers.{0}.up.5/")
    run(trace, "dot.last", "dot", [b + 950 for b in begins], 1, scope="Decoder.1/out.9/aten__mm")
    row = analyze(trace).loops[0]
    assert (row.ops_share_low, row.ops_share_high) == pytest.approx((9 / 11, 10 / 11))


def test_ops_of_layers_without_names_are_not_counted(analyze):
    trace, begins = program()
    layers(trace, begins, MIN_UNNAMED_LAYERS)
    row = analyze(trace).loops[0]
    assert (row.ops_share_low, row.ops_share_high) == (None, None)


def test_without_flops_and_names_nothing_is_claimed(analyze):
    trace, begins = program()
    layers(trace, begins, 12, flops=0)
    assert analyze(trace).loops == []


@pytest.mark.shared_traces
def test_a_real_model_of_64_layers(shared_traces):
    rows = analyze_run(shared_traces / "tpu_vllm_qwen3").loops
    assert [(row.kind, row.trip_count) for row in rows] == [("unrolled", 64)]
    # Fused query, key and value; the attention's output; gate and up; down.
    assert "4 matrix multiplications each, 100 % of" in rows[0].detail


def test_samples_with_and_without_scan():
    from pathlib import Path

    samples = Path(__file__).parents[2] / "sample_traces"
    scan = analyze_run(samples / "decoder_scan").loops
    assert [(row.kind, row.trip_count, row.direction) for row in scan] == [
        ("while", 4, "backward"),
        ("while", 4, "forward"),
    ]
    loop = analyze_run(samples / "decoder_loop").loops
    assert [(row.kind, row.trip_count, row.name) for row in loop] == [("unrolled", 3, "layers.*")]
    predicted = analyze_run(samples / "predicted_decoder_scan").loops
    assert [(row.trip_count, row.direction) for row in predicted] == [(2, "forward"), (2, "backward")]


@pytest.mark.parametrize(
    ("own", "inner", "direction"),
    [
        # On a CPU, ops of the forward pass run beside a loop of the backward pass.
        ("jit(f)/transpose(jvp())/while", ["jit(f)/jvp()/while/body/add"] * 9, "backward"),
        ("jit(f)/jvp()/while", ["jit(f)/transpose(jvp())/mul"] * 9, "forward"),
        ("", ["jit(f)/transpose(jvp())/mul", "jit(f)/add"], "backward"),
        # A loop over whole training steps has ops of both passes.
        ("", ["jit(f)/transpose(jvp())/mul"] * 3 + ["jit(f)/jvp()/mul"], ""),
        (
            "jit(epoch)/while",
            ["jit(epoch)/while/body/transpose(jvp())/mul"] * 3 + ["jit(epoch)/jvp()/mul"],
            "",
        ),
        # Loops of random numbers run beside the passes on a CPU.
        ("jit(f)/jit(_threefry_split)/while", ["jit(f)/transpose(jvp())/mul"] * 9, ""),
        ("jit(f)/vmap(jvp(Net))/Dropout_0/while", ["jit(f)/transpose(jvp())/mul"] * 9, "forward"),
        ("", ["jit(f)/add"], ""),
    ],
)
def test_the_direction_of_a_loop_of_jax_is_that_of_its_own_scope(own, inner, direction):
    assert _direction(own, inner) == direction
