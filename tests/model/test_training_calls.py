"""A JAX loop that nothing marks: its steps are the calls that change weights, and an evaluation between them is none."""

from dataclasses import replace

import pytest

from tests.builders import TraceBuilder
from tpuprof.decode import hlo_pb2
from tpuprof.decode.find import find_all
from tpuprof.model.host.recorded import ALL
from tpuprof.model.run import build_run
from tpuprof.model.steps import training_functions
from tpuprof.model.steps.programs import runs_on_cpu
from tpuprof.model.steps.training_calls import SELDOM_FROM, in_program_name
from tpuprof.model.steps.training_functions import TRAINS_FROM_SHARE

F32, WEIGHT = 11, (64, 128)


def instruction(entry, name, opcode, shape, *operands, number=0):
    made = entry.instructions.add(name=name.encode(), opcode=opcode.encode(), id=len(entry.instructions) + 1)
    made.shape.CopyFrom(hlo_pb2.ShapeProto(element_type=F32, dimensions=list(shape)))
    made.operand_ids.extend(each.id for each in operands)
    made.parameter_number = number
    return made


def program(*, replaces=WEIGHT, multiplies=True):
    """A program that replaces an input of those dimensions (nothing: it gives a mean), from a product or without one."""
    proto = hlo_pb2.HloProto()
    entry = proto.hlo_module.computations.add(name=b"main", id=1)
    proto.hlo_module.entry_computation_id = 1
    shape = replaces or WEIGHT
    held = instruction(entry, "weight", "parameter", shape)
    given = instruction(entry, "batch", "parameter", shape, number=1)
    change = instruction(entry, "dot.1", "dot", shape, given, given) if multiplies else given
    if replaces:
        result = instruction(entry, "subtract.1", "subtract", shape, held, change)
    else:
        result = instruction(entry, "reduce.1", "reduce", (), change)
    entry.root_id = result.id
    return proto.SerializeToString()


TRAIN, EVALUATE, UPDATE = program(), program(replaces=()), program(multiplies=False)
USUAL = {"train_step": TRAIN, "eval_step": EVALUATE, "slice": program(replaces=(), multiplies=False)}


def loop(rounds, programs, lengths=None, device=""):
    """Calls of those functions (2 ms each if not said otherwise), each done before the next; the last ends the trace."""
    trace = TraceBuilder()
    for number, (name, data) in enumerate(programs.items()):
        trace.plane("/host:metadata").name_id(f"jit_{name}({number})", "", {"hlo_proto": data})
    numbers = {name: number for number, name in enumerate(programs)}
    python, run = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    modules = trace.tpu(0).line("XLA Modules") if device else None
    at = 0
    for name in rounds:
        length = (lengths or {}).get(name, 2000)
        if modules is not None:
            modules.event(f"jit_{name}({numbers[name]})", at + 50, length - 100)
        else:
            python.event(f"PjitFunction({name})", at, 100)
            run.event("ThunkExecutor::Execute", at + 50, length - 100)
        at += length
    return trace


def every(train, evaluate, rounds=6):
    return (["train_step"] * train + ["eval_step"] * evaluate) * rounds


@pytest.mark.parametrize("device", ["", "tpu"])
@pytest.mark.parametrize(("train", "evaluate"), [(5, 8), (5, 1), (7, 3)])
def test_an_evaluation_every_few_steps_is_no_part_of_a_step(analyze, train, evaluate, device):
    report = analyze(loop(every(train, evaluate), USUAL, {"eval_step": 300}, device))
    assert report.steps.count == 6 * train
    assert report.steps.confidence == "medium"
    assert "a step is one call of train_step" in report.steps.note
    assert report.steps.median_ms == pytest.approx(2.0)
    assert max(row.wall_ms for row in report.steps.per_step) <= 2.0
    assert [row.duration_ms for row in report.phases] == pytest.approx([0.3 * evaluate] * len(report.phases))
    # What follows the last step ends the trace.
    assert len(report.phases) == 5
    assert [row.step for row in report.phases] == [train * (number + 1) for number in range(5)]


@pytest.mark.parametrize("behind", [0, 30_000])
def test_what_a_program_does_behind_its_loop_is_no_part_of_its_last_step(analyze, behind):
    """Behind the loop it compiles a mean for 30 ms, and was "step 29 took 32 ms ... compile 30 ms more"."""
    order = [*every(5, 1), *["train_step"] * 5]
    trace = loop(order, USUAL)
    if behind:
        trace.host().line("python").event("backend_compile", 2000 * len(order), behind)
    report = analyze(trace)
    assert report.steps.count == pytest.approx(35, abs=1)
    assert max(row.wall_ms for row in report.steps.per_step) == pytest.approx(2.0)


def test_an_evaluation_that_takes_most_of_the_time_is_none_either(analyze):
    report = analyze(loop(every(5, 8), USUAL))
    assert report.steps.count == 30
    assert "a step is one call of train_step" in report.steps.note


def test_calls_that_most_steps_hold_belong_to_the_step(analyze):
    order = (["slice", "train_step"] * 5 + ["eval_step", "slice", "eval_step"]) * 6
    report = analyze(loop(order, USUAL, {"slice": 200, "eval_step": 300}))
    assert report.steps.count in (29, 30)
    assert report.steps.median_ms == pytest.approx(2.2)
    assert [row.duration_ms for row in report.phases] == pytest.approx([0.8] * 5)


@pytest.mark.parametrize(
    ("word", "looks"), [(["slice", "train_step"], 0), (["train_step"] * 5 + ["eval_step"], 1)]
)
def test_programs_are_looked_into_only_where_that_may_tell_more(analyze, monkeypatch, word, looks):
    asked = []
    monkeypatch.setattr(training_functions, "replaced", lambda _: asked.append(1) or 0)
    training_functions._facts.cache_clear()
    analyze(loop(word * 12, USUAL))
    training_functions._facts.cache_clear()
    assert bool(asked) == bool(looks)


def test_an_accumulation_is_one_step(analyze):
    """Gradients of some batches, added up, then one update: the update has no product of its own."""
    calls = {"gradient": program(replaces=()), "add": UPDATE, "update": UPDATE}
    order = (["gradient", "add"] * 4 + ["update"]) * 6
    report = analyze(loop(order, calls, {"add": 200, "update": 200}))
    assert report.steps.count in (5, 6)
    # Gradients that are added up where they are made replace what they are added to.
    report = analyze(loop((["gradient"] * 4 + ["update"]) * 6, {"gradient": TRAIN, "update": UPDATE}))
    assert report.steps.count in (5, 6)


def test_two_networks_that_train_in_turns_are_one_step(analyze):
    order = (["critic"] * 3 + ["generator"]) * 6
    report = analyze(loop(order, {"critic": TRAIN, "generator": TRAIN}))
    assert report.steps.count in (5, 6)


def test_a_cell_that_carries_a_small_state_is_no_training(analyze):
    order = (["cell"] * 5 + ["update"]) * 6
    report = analyze(loop(order, {"cell": program(replaces=(8, 8)), "update": UPDATE}))
    assert report.steps.count in (5, 6)


@pytest.mark.parametrize(("below", "count"), [(1, 30), (0, 6)])
def test_what_replaces_far_less_than_others_changes_no_weights(analyze, below, count):
    """Sums of a metric are replaced in each batch of an evaluation; a second network's weights are as large."""
    rows = 640
    metric = (round(rows * TRAINS_FROM_SHARE) - below, 128)
    calls = {"train_step": program(replaces=(rows, 128)), "eval_step": program(replaces=metric)}
    report = analyze(loop(every(5, 8), calls, {"eval_step": 300}))
    assert report.steps.count in (count, count - 1)


def test_a_host_that_runs_ahead_keeps_the_longer_step(analyze):
    """Its calls take no time, and all work is done while an evaluation's value is waited for: no call shows a step."""
    trace = TraceBuilder()
    for number, (name, data) in enumerate(USUAL.items()):
        trace.plane("/host:metadata").name_id(f"jit_{name}({number})", "", {"hlo_proto": data})
    python, run = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    for start in range(0, 60_000, 10_000):
        for number in range(5):
            python.event("PjitFunction(train_step)", start + 100 * number, 90)
        python.event("PjitFunction(eval_step)", start + 500, 90)
        python.event("ArrayImpl::_value", start + 600, 9_300)
        run.event("ThunkExecutor::Execute", start + 50, 9_800)
    report = analyze(trace)
    assert report.steps.count in (5, 6)
    assert (
        "one repetition of 6 calls of jitted functions (5 x train_step, 1 x eval_step)" in report.steps.note
    )


def ran_ahead(rounds=6):
    """Five calls in a moment, an evaluation, and a wait; the CPU device runs them one after the other meanwhile."""
    trace = TraceBuilder()
    for number, (name, data) in enumerate(USUAL.items()):
        trace.plane("/host:metadata").name_id(f"jit_{name}({number})", "", {"hlo_proto": data})
    python, run = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")
    for start in range(0, 10_000 * rounds, 10_000):
        for number, name in enumerate(["train_step"] * 5 + ["eval_step"]):
            python.event(f"PjitFunction({name})", start + 100 * number, 90)
            at = start + 50 + 1_600 * number
            module = {"hlo_module": f"jit_{name}", "program_id": list(USUAL).index(name)}
            # A loop waits inside, and the op before it begins before the wait for the program.
            run.event("dot.1", at, 1_500, hlo_op="dot.1", **module)
            run.event("ThunkExecutor::Execute (wait for completion)", at + 400, 1_150)
            run.event("ThunkExecutor::Execute (wait for completion)", at + 500, 200)
            run.event("add.2", at + 1_510, 20, hlo_op="add.2", **module)
        python.event("ArrayImpl::_value", start + 600, 9_300)
    return trace


def test_a_cpu_device_tells_when_each_call_of_a_host_that_runs_ahead_ran(analyze):
    report = analyze(ran_ahead())
    assert report.steps.method == "inferred from the period of XLA Modules"
    assert "a step is one call of train_step" in report.steps.note
    assert report.steps.median_ms == pytest.approx(1.6)
    assert report.verdict.bound == "device"
    # From its first op to the first of the next step: 1.6 ms, and 0.4 ms in which the device rests.
    assert [row.duration_ms for row in report.phases] == pytest.approx([2.0] * 5)
    assert report.steps.count == 30


def kept_results(steps=20, after=5):
    """As many steps are called in a moment; then each result, which is kept, is looked at, and waits for its step."""
    trace = TraceBuilder()
    for number, (name, data) in enumerate(USUAL.items()):
        trace.plane("/host:metadata").name_id(f"jit_{name}({number})", "", {"hlo_proto": data})
    python, run = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")
    begins, waits = 100 * steps, 1_600
    for number in range(steps + after):
        # Those behind the log are called while it is written.
        python.event(
            "PjitFunction(train_step)", 100 * number if number < steps else begins + waits * number, 90
        )
        at = 50 + waits * number
        module = {"hlo_module": "jit_train_step", "program_id": list(USUAL).index("train_step")}
        run.event("dot.1", at, 1_500, hlo_op="dot.1", **module)
        run.event("ThunkExecutor::Execute (wait for completion)", at + 400, 1_150)
    for number in range(steps):
        python.event("PjitFunction(slice)", begins + (waits - 100) * number, 1_400)
        module = {"hlo_module": "jit_slice", "program_id": list(USUAL).index("slice")}
        at = 60 + waits * (steps + after) + 40 * number
        run.event("slice.1", at, 20, hlo_op="slice.1", **module)
        run.event("ThunkExecutor::Execute (wait for completion)", at + 5, 30)
    return trace


def test_a_call_that_waits_for_steps_of_before_is_no_step(analyze):
    """`float(jnp.stack(losses).mean())` every 40 steps: "a step is one call of broadcast_in_dim"."""
    report = analyze(kept_results())
    assert "a step is one call of train_step" in report.steps.note
    assert report.steps.median_ms == pytest.approx(1.6)
    assert report.verdict.bound == "device"


@pytest.mark.parametrize(("ran", "of_device"), [(14, True), (17, False)])
def test_steps_are_the_devices_where_it_ran_few_of_those_that_were_called(analyze, ran, of_device):
    """32 steps were called in the time in which the device ran ten: "mean 40.2 ms", of steps of 95."""
    trace, called = TraceBuilder(), 20
    trace.plane("/host:metadata").name_id("jit_train_step(0)", "", {"hlo_proto": TRAIN})
    python, run = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")
    module = {"hlo_module": "jit_train_step", "program_id": 0}
    for number in range(called):
        python.event("PjitFunction(train_step)", 1000 * number, 900)
    for number in range(ran):
        at = 50 + 20_000 // ran * number
        run.event("dot.1", at, 20_000 // ran - 150, hlo_op="dot.1", **module)
        run.event("ThunkExecutor::Execute (wait for completion)", at + 100, 20_000 // ran - 200)
    report = analyze(trace)
    assert (report.steps.method == "inferred from the period of XLA Modules") == of_device
    assert report.steps.median_ms == pytest.approx(20 / ran if of_device else 1.0, rel=0.05)


@pytest.mark.parametrize(("count", "found"), [(1, 36), (4, None)])
def test_programs_of_devices_side_by_side_are_not_told_apart(tmp_path, count, found):
    (host,) = build_run(find_all(ran_ahead().write(tmp_path / "host.xplane.pb"))).hosts
    runs = runs_on_cpu(replace(host.devices[0], count=count), ALL)
    assert (len(runs.label) if runs else None) == found


def test_a_program_that_cannot_be_read_changes_nothing(analyze):
    report = analyze(loop(every(5, 8), dict.fromkeys(USUAL, b"\xff\xff\xff"), {"eval_step": 300}))
    assert report.steps.count in (5, 6)


@pytest.mark.parametrize("in_program", ["_lambda", "_lambda_"])
def test_a_lambda_has_another_name_in_its_program(analyze, in_program):
    trace = loop((["<lambda>"] * 5 + ["eval_step"] * 8) * 6, {"<lambda>": EVALUATE, "eval_step": EVALUATE})
    trace.plane("/host:metadata").name_id(f"jit_{in_program}(0)", "", {"hlo_proto": TRAIN})
    assert analyze(trace).steps.count == 30


@pytest.mark.parametrize(
    ("function", "program"), [("<lambda>", "_lambda"), ("__call__", "__call"), ("train_step", "train_step")]
)
def test_how_a_function_is_named_in_a_program(function, program):
    assert in_program_name(function) == program


EAGER = ["gradient"] + ["multiply", "subtract"] * 2


@pytest.mark.parametrize(("last", "steps"), [("squeeze", 30), ("evaluate", 30), ("update", 6)])
def test_an_eager_update_with_a_log_every_few_steps(analyze, last, steps):
    """Ops change the weights one by one, and something is called every five steps: an update there is part of a step."""
    product, op = program(replaces=()), program(replaces=(), multiplies=False)
    calls = {"gradient": product, "multiply": op, "subtract": UPDATE}
    calls |= {"squeeze": op, "evaluate": product, "update": UPDATE}
    report = analyze(loop((EAGER * 5 + [last]) * 6, calls, {"subtract": 500, "multiply": 500}))
    assert report.steps.count == pytest.approx(steps, abs=1)
    if steps == 30:
        assert "one round of calls of gradient, multiply, subtract; runs of other calls" in report.steps.note
        assert report.steps.median_ms == pytest.approx(4.0)


@pytest.mark.parametrize(("weights", "steps"), [(30, 12), (SELDOM_FROM, 12)])
def test_ops_that_update_one_weight_after_the_other_are_no_steps(analyze, weights, steps):
    """Keras' custom loop: of 56 steps 1671 "steps" were found, one for each of 30 weights, and prices were of those."""
    product, op = program(replaces=()), program(replaces=(), multiplies=False)
    calls = {"gradient": product, "multiply": op, "subtract": UPDATE, "equal": op}
    rounds = []
    for number in range(steps):
        # A metric is computed now and then, between the same ops.
        logs = ["equal", "multiply", "subtract", "equal"] if number % 5 == 2 else []
        rounds += ["gradient", *["multiply", "multiply", "subtract"] * weights, *logs]
    report = analyze(loop(rounds, calls, {"gradient": 9000, "multiply": 200, "subtract": 200}))
    assert report.steps.count == pytest.approx(steps, abs=1)
    assert report.steps.median_ms == pytest.approx(9 + 0.6 * weights)


def test_an_evaluation_that_comes_seldom_makes_no_steps(analyze):
    """Training without a matrix product, and an evaluation with one in each fifth step: its calls are no steps."""
    calls = {
        "train_step": UPDATE,
        "slice": program(replaces=(), multiplies=False),
        "evaluate": program(replaces=()),
    }
    report = analyze(loop((["slice", "train_step"] * 5 + ["evaluate"]) * 2, calls))
    assert report.steps.count == pytest.approx(10, abs=1)


def test_an_accumulation_before_eager_updates_is_one_step(analyze):
    """Of five gradients the sum is applied by ops: none of what is called once may be left out of the step."""
    calls = {"gradient": program(replaces=()), "add": UPDATE, "subtract": UPDATE}
    report = analyze(loop((["gradient", "add"] * 5 + ["subtract"]) * 6, calls))
    assert report.steps.count == pytest.approx(6, abs=1)


@pytest.mark.parametrize(("between", "steps"), [("add", 40), ("multiply", 280)])
def test_gradients_summed_by_ops_before_one_update_are_one_step(analyze, between, steps):
    """Each batch repeats by itself (`add` for each parameter): a step was one batch, and its update in none.

    Now and then the loss is asked for once more, so that whole steps are not alike.
    """
    op = program(replaces=(), multiplies=False)
    calls = {"gradient": program(replaces=()), between: op, "apply": UPDATE}
    batch, rounds = ["gradient", *[between] * 60], []
    for number in range(40):
        rounds += ["gradient", *batch * 7, "apply", *["gradient"] * (number in (3, 11, 26))]
    report = analyze(loop(rounds, calls, {between: 100, "apply": 500}))
    assert report.steps.count == pytest.approx(steps, rel=0.3)


def of_one_name(rounds=10, before=0, other=EVALUATE):
    """A loop of torchax, which calls all that it jits `call_torch`: a step, a sum of the program's, and a prediction."""
    trace = TraceBuilder()
    jitted = {
        "call_torch(0)": TRAIN,
        "call_torch(1)": other,
        "mean(2)": program(replaces=(), multiplies=False),
    }
    for name, data in jitted.items():
        trace.plane("/host:metadata").name_id(f"jit_{name}", "", {"hlo_proto": data})
    python, run = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")

    def runs(number, at, length):
        name = list(jitted)[number].partition("(")[0]
        module = {"hlo_module": f"jit_{name}", "program_id": number}
        run.event("dot.1", at, length, hlo_op="dot.1", **module)
        run.event("ThunkExecutor::Execute (wait for completion)", at + 10, length - 20)

    for row in range(before):
        runs(1, 400 * row + 100, 300)
    for at in range(1000, 1000 + 10_000 * rounds, 10_000):
        for number, begin, length in ((0, 0, 7_000), (2, 7_200, 200), (1, 7_500, 1_500)):
            python.event(f"PjitFunction({list(jitted)[number].partition('(')[0]})", at + begin, 100)
            runs(number, at + begin + 50, length)
        python.event("ArrayImpl::_value", at + 7_600, 2_000)
    return trace


@pytest.mark.parametrize("before", [0, 1, 2])
def test_functions_of_one_name_are_told_apart_by_the_programs_that_they_run(analyze, before):
    """A training step and a prediction were a step each: "half of the steps end within 14.4 ms", of 381."""
    report = analyze(of_one_name(before=before))
    assert report.steps.median_ms == pytest.approx(10.0)
    assert report.steps.count in (9, 10)


def test_programs_of_a_function_that_all_train_are_one_function(analyze):
    """A shape of its own compiles a program of its own."""
    assert analyze(of_one_name(other=TRAIN)).steps.median_ms < 10.0
