"""Step boundaries from each source, in the order of trust."""

import numpy as np
import pytest

from tests.builders import TraceBuilder, op
from tpuprof.model.steps import StepSource
from tpuprof.model.steps.repetition import find_repetition


def ms(values):
    return [round(value / 1e9, 6) for value in values.tolist()]


def test_marked_steps_last_until_the_next(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(3):
        python.event("train", 1000 * number, 600, _r=1, step_num=10 + number)
    steps = read(trace).steps
    assert steps.method == "step markers"
    assert steps.confidence == "high"
    assert steps.number.tolist() == [10, 11, 12]
    assert ms(steps.wall_ps) == [1.0, 1.0, 0.6]


@pytest.mark.parametrize(("covers", "last", "count"), [(4, 4, 9), (6, 6, 10), (6, 4, 10), (4, 6, 10)])
def test_a_last_marker_that_holds_little_of_its_step_is_none(read, covers, last, count):
    """A marker around a call that returns at once: nothing tells where the last step ends."""
    trace = TraceBuilder()
    for step in range(10):
        length = 100 * (last if step == 9 else covers)
        trace.host().line("python").event("train", 1000 * step, length, _r=1, step_num=step)
    steps = read(trace).steps
    assert len(steps) == count
    assert ms(steps.wall_ps)[:9] == [1.0] * 9
    assert ("the last marker is left out" in steps.note) == (count == 9)


def test_markers_without_numbers_are_counted(read):
    trace = TraceBuilder()
    trace.host().line("python").repeat("train", [0, 1000], 900, _r=1)
    assert read(trace).steps.number.tolist() == [0, 1]


def test_a_marker_inside_a_marker_is_no_step_of_its_own(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(2):
        python.event("train", 1000 * number, 900, _r=1, step_num=number)
        python.event("inner", 1000 * number + 100, 300, _r=1, step_num=99)
    assert read(trace).steps.number.tolist() == [0, 1]


def test_our_own_markers_go_before_others(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.repeat("other", [0, 250, 500, 750], 200, _r=1, step_num=5)
    python.event("train_step", 1000, 900, _r=1, step_num=7, tpuprof="step")
    assert read(trace).steps.number.tolist() == [7]


def test_torch_profiler_steps(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(3):
        python.event(f"ProfilerStep#{number + 4}", 1000 * number, 1000)
    steps = read(trace).steps
    assert steps.method == "torch.profiler steps"
    assert steps.number.tolist() == [4, 5, 6]


def test_the_devices_steps_line(read):
    trace = TraceBuilder()
    trace.tpu(0).line("Steps").repeat("1", [0, 1000, 2000], 950)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [0, 1000, 2000], 900)
    steps = read(trace).steps
    assert steps.method == "device Steps line"
    assert ms(steps.wall_ps) == [1.0, 1.0, 0.95]


def test_the_steps_of_the_device_that_takes_longest(read):
    """As XProf has it: the first device's steps end before the slowest has done its part."""
    trace = TraceBuilder()
    for device, length in enumerate((700, 900, 800)):
        trace.tpu(device).line("Steps").repeat("1", [0, 1000, 2000], length)
        trace.tpu(device).line("XLA Modules").repeat("f(1)", [0, 1000, 2000], length)
    assert ms(read(trace).steps.wall_ps) == [1.0, 1.0, 0.9]


def test_steps_of_the_same_length_are_the_first_devices(read):
    trace = TraceBuilder()
    for device, (at, length) in enumerate([(0, 900), (50, 908)]):
        trace.tpu(device).line("Steps").repeat("1", [at, at + 1000], length)
        trace.tpu(device).line("XLA Modules").repeat("f(1)", [at, at + 1000], length)
    assert ms(read(trace).steps.wall_ps) == [1.0, 0.9]


def cut(python, end, *, graph=True):
    python.event("StepMarker", end - 100, 100)
    python.event("SyncLiveTensorsGraph", end - 95, 90)
    if graph:
        python.event("RunPostOrder", end - 80, 20)


def test_graph_cuts_and_empty_cuts(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for end in (1000, 2000, 3000, 4000):
        cut(python, end)
        cut(python, end + 110, graph=False)
    steps = read(trace).steps
    assert steps.method == "inferred from graph cuts"
    assert steps.confidence == "medium"
    assert ms(steps.wall_ps) == [1.0, 1.0, 1.0]


def test_period_of_one_program(read):
    trace = TraceBuilder()
    modules = trace.tpu(0).line("XLA Modules")
    modules.event("init(9)", 0, 50)
    modules.repeat("f(1)", [1000 * i for i in range(1, 9)], 900)
    steps = read(trace).steps
    assert steps.method == "inferred from the period of XLA Modules"
    assert len(steps) == 8
    assert ms(steps.wall_ps)[:2] == [1.0, 1.0]


def test_period_of_gradient_accumulation(read):
    """Four times the same program, then the optimizer's: that is one step, not five."""
    trace = TraceBuilder()
    modules = trace.tpu(0).line("XLA Modules")
    for step in range(6):
        modules.repeat("micro(1)", [1000 * step + 200 * i for i in range(4)], 190)
        modules.event("optimizer(2)", 1000 * step + 800, 150)
    steps = read(trace).steps
    assert len(steps) == 6
    assert ms(steps.wall_ps)[:5] == [1.0] * 5
    assert ms(steps.wall_ps)[5] == pytest.approx(0.95)


def test_nothing_to_tell_steps_by(analyze):
    trace = TraceBuilder()
    trace.tpu(0).line("XLA Modules").event("f(1)", 0, 900)
    trace.tpu(0).line("XLA Ops").event(start=0, duration=900, **op("fusion.1"))
    report = analyze(trace)
    assert (report.steps.count, report.steps.confidence) == (1, "low")
    assert report.steps.method == "executions of the main program"
    assert report.verdict.sentence.endswith("each execution counts as a step, with the programs after it.")


def graphs(trace, *names, each=1000, off=(), optimizer=None, sync_at=None):
    """Cuts one after another, each running the program of that name; `off` are positions with gradients off."""
    python, modules = trace.host().line("python"), trace.tpu(0).line("XLA Modules")
    for at, name in enumerate(names):
        end = each * (at + 1)
        cut(python, end)
        python.event("tpuprof.graph_cut", end - 101, 101.5, grad=int(at not in off), source="train.py:9")
        modules.event(f"{name}(1)", end, each / 2)
        if optimizer and name in optimizer:
            python.event(
                "tpuprof.optimizer_step", end - 200, 0, optimizer=optimizer[name], tpuprof="optimizer_step"
            )
    return trace


def test_a_round_of_graph_cuts_that_repeats_is_one_step(read):
    """A discriminator's and a generator's step, each cut on its own, and no marker: attach mode."""
    steps = read(graphs(TraceBuilder(), *"DG" * 6)).steps
    assert steps.source is StepSource.CUTS
    assert steps.confidence == "medium"
    assert "2 graph cuts" in steps.note
    assert set(ms(steps.wall_ps)) == {2.0}


def test_micro_batches_end_with_the_update(read):
    """The capture begins within a step: steps are those from update to update all the same."""
    trace = graphs(TraceBuilder(), *"AB", *"AAAB" * 5)
    found = read(trace).steps
    assert ms(found.wall_ps) == [4.0] * 5
    assert ms(found.start)[0] == 2.0


def test_graphs_in_no_order_are_steps_of_low_confidence(read):
    steps = read(graphs(TraceBuilder(), *"ABCDEFGHIJKL")).steps
    assert steps.confidence == "low"
    assert "no fixed order" in steps.note


def test_optimizer_calls_make_the_steps(read):
    """Logging cuts graphs of its own in each step: what is between two calls is one step."""
    steps = read(graphs(TraceBuilder(), *"TLL" * 6, optimizer={"T": 0})).steps
    assert steps.source is StepSource.OPTIMIZER
    assert steps.confidence == "high"
    assert set(ms(steps.wall_ps)) == {3.0}


def test_five_critics_and_one_generator_are_one_step(read):
    steps = read(graphs(TraceBuilder(), *"CCCCCG" * 4, optimizer={"C": 0, "G": 1})).steps
    assert steps.source is StepSource.OPTIMIZER
    assert ms(steps.wall_ps) == [6.0, 6.0, 6.0]
    assert "round of 6 optimizer calls" in steps.note


def test_a_trace_that_ends_between_a_call_and_its_cut_has_no_endless_step(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for begin in range(0, 6000, 1000):
        python.event("tpuprof.optimizer_step", begin + 500, 1, optimizer=0)
        if begin < 5000:
            python.event("StepMarker", begin + 600, 100)
            python.event("RunPostOrder", begin + 610, 10)
            python.event("ScheduleSyncTensorsGraph", begin + 630, 20)
    steps = read(trace).steps
    assert max(ms(steps.wall_ps)) <= 1.0


def test_an_optimizer_without_a_cut_after_it_ends_the_step_itself(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.repeat("tpuprof.optimizer_step", [1000, 2000, 3000, 4000], 0, optimizer=0)
    cut(python, 4500)
    steps = read(trace).steps
    assert ms(steps.start) == [1.0, 2.0, 3.0]


def test_an_evaluation_is_no_part_of_a_step(analyze):
    """Four steps, then three cuts with gradients off, twice over."""
    off = [*range(4, 7), *range(11, 14)]
    trace = graphs(TraceBuilder(), *"TTTTEEE" * 2, "T", off=off, optimizer={"T": 0})
    report = analyze(trace)
    assert {row.wall_ms for row in report.steps.per_step} == {1.0}
    assert report.steps.count == 8
    assert [(row.name, row.duration_ms, row.cuts, row.inside) for row in report.phases] == [
        ("evaluation", 3.0, 3, False)
    ] * 2
    assert "gradients off" in report.phases[0].evidence
    assert "train.py:9" in report.phases[0].evidence
    for row in report.steps.per_step:
        assert sum(row.breakdown_ms.values()) == pytest.approx(row.wall_ms)


def evaluated_by_reads(graph="E", *, grad=0, last="T"):
    """Four steps, three reads that each run a graph, and four more steps; the reads lie in the fifth step."""
    trace = TraceBuilder()
    python, modules = trace.host().line("python"), trace.tpu(0).line("XLA Modules")

    def ran(name, at):
        python.event("RunPostOrder", at, 10)
        python.event("ScheduleSyncTensorsGraph", at + 20, 10)
        modules.event(f"{name}(1)", at + 50, 300)

    def step(end, name="T"):
        python.event("tpuprof.optimizer_step", end - 400, 0, optimizer=0, tpuprof="optimizer_step")
        python.event("StepMarker", end - 200, 200)
        python.event("tpuprof.graph_cut", end - 201, 201.5, grad=1, source="train.py:9")
        ran(name, end - 150)

    def read(at, name):
        python.event("tpuprof.host_read", at, 900, call="item", source="train.py:5", grad=grad)
        ran(name, at + 50)

    starts = [0, *[1000 * at for at in range(1, 5)], *[7000 + 1000 * at for at in range(1, 5)]]
    for at, start in enumerate(starts):
        step(start + 1000 + 3000 * (at == 4), last if at == 4 else "T")
    for number in range(3):
        read(4000 + 1000 * number + 10, graph[number % len(graph)])
    return trace


def test_an_evaluation_that_only_reads_is_no_part_of_a_step(analyze):
    report = analyze(evaluated_by_reads())
    (phase,) = report.phases
    assert (phase.name, phase.cuts, phase.inside) == ("evaluation", 3, False)
    assert phase.duration_ms == pytest.approx(2.91)
    assert "3 reads with gradients off" in phase.evidence and "train.py:5" in phase.evidence
    assert {round(row.wall_ms, 6) for row in report.steps.per_step} == {1.0, 1.09}


@pytest.mark.parametrize(
    "what",
    [
        {"grad": 1},
        # Of an older capture, which does not say whether gradients were on.
        {"grad": -1},
        # Three values of one step: accuracy, loss and norm, say.
        {"graph": "EFG"},
        # The step then cuts another graph than usual: the reads ran a part of it.
        {"last": "S"},
    ],
)
def test_reads_that_may_be_of_the_step_stay_in_it(read, what):
    steps = read(evaluated_by_reads(**what)).steps
    assert steps.phases == ()
    assert max(ms(steps.wall_ps)) == 4.0


def reading(names, *, own="tpuprof.host_read"):
    """A program that cuts the graph by reads alone: one per ms, each of which runs the program of that name."""
    trace = TraceBuilder()
    python, modules = trace.host().line("python"), trace.tpu(0).line("XLA Modules")
    for at, name in enumerate(names):
        python.event(own, 1000 * at + 400, 500, call="cpu", source="infer.py:5", grad=0)
        python.event("SyncTensorsGraph", 1000 * at + 405, 40)
        python.event("RunPostOrder", 1000 * at + 410, 10)
        python.event("ScheduleSyncTensorsGraph", 1000 * at + 430, 10)
        modules.event(f"{name}(1)", 1000 * at + 450, 300)
    return trace


def test_reads_end_steps_where_nothing_else_cuts_the_graph(read):
    steps = read(reading("TTTTTT")).steps
    assert (steps.method, steps.confidence) == ("inferred from reads that run graphs", "medium")
    assert ms(steps.wall_ps) == [1.0] * 5
    assert steps.note.startswith("one read that runs a graph counts as one step")


def test_reads_of_one_step_repeat_together(read):
    """Loss and accuracy, say."""
    steps = read(reading("LALALALALA")).steps
    assert set(ms(steps.wall_ps)) == {2.0}
    assert steps.note.startswith("a step is 2 reads, which repeat")


@pytest.mark.parametrize(
    ("often", "walls"),
    [
        # A value that is logged every so many batches is part of the next step, and no step, nor are all reads one.
        (9, [1.0] * 8 + [2.0]),
        (4, [1.0] * 3 + [2.0]),
        # That may as well be three micro-batches and an update.
        (3, [4.0]),
    ],
)
def test_a_rarer_read_is_part_of_some_steps(read, often, walls):
    steps = read(reading(("T" * often + "L") * 4 + "T")).steps
    assert steps.confidence == "medium"
    assert ms(steps.wall_ps)[: len(walls)] == walls


def test_reads_that_the_trace_does_not_name_end_no_steps(read):
    assert read(reading("TTTTTT", own="aten::item")).steps.method != "inferred from reads that run graphs"


def test_graphs_of_no_step_between_steps_are_a_phase(read):
    """A library evaluates with gradients on at the cut: the graphs are others, and more than usual."""
    trace = graphs(TraceBuilder(), *"TTTTEEETTTTEEET", optimizer={"T": 0})
    steps = read(trace).steps
    assert set(ms(steps.wall_ps)) == {1.0}
    assert [(phase.name, phase.cuts) for phase in steps.phases] == [("other graphs", 3)] * 2


def test_what_every_step_does_with_gradients_off_is_part_of_the_step(read):
    trace = graphs(TraceBuilder(), *"ET" * 6, off=range(0, 12, 2), optimizer={"T": 0})
    steps = read(trace).steps
    assert set(ms(steps.wall_ps)) == {2.0}
    assert steps.phases == ()


def marked(trace, origin, starts, length=990):
    python = trace.host().line("python")
    for number, start in enumerate(starts):
        python.event("train_step", start, length, _r=1, step_num=10 + number, tpuprof="step", origin=origin)
    return trace


def test_markers_that_the_capture_made_from_cuts_are_not_of_high_confidence(read):
    trace = marked(graphs(TraceBuilder(), *"DG" * 6), "cut", [1005 + 1000 * at for at in range(10)])
    steps = read(trace).steps
    assert (steps.source, steps.confidence) == (StepSource.CUTS, "medium")
    assert steps.number.tolist()[:3] == [10, 12, 14]
    assert {round(each) for each in ms(steps.wall_ps)} == {2}


def test_markers_that_the_capture_made_from_optimizer_steps_keep_their_numbers(read):
    trace = graphs(TraceBuilder(), *"T" * 8, optimizer={"T": 0})
    steps = read(marked(trace, "optimizer", [1005 + 1000 * at for at in range(6)])).steps
    assert (steps.source, steps.confidence) == (StepSource.OPTIMIZER, "high")
    assert steps.number.tolist() == [10, 11, 12, 13, 14, 15]


def programs(trace, names, each=100):
    modules = trace.tpu(0).line("XLA Modules")
    for at, name in enumerate(names):
        modules.event(f"{name}(1)", each * at, each * 0.9)
    return trace


def test_a_period_of_hundreds_of_programs(read):
    """Eager ops: 300 programs per step, one step of which runs two more."""
    word = [f"op{at % 97}.{at // 97}" for at in range(300)]
    names = [*word * 4, *word[:150], "log", "log", *word[150:], *word * 5]
    steps = read(programs(TraceBuilder(), names)).steps
    assert steps.confidence == "medium"
    assert len(steps) == 10
    assert "300 programs" in steps.note


def test_programs_in_no_order_are_no_steps(read):
    random = __import__("random").Random(3)
    steps = read(programs(TraceBuilder(), [f"op{random.randrange(20)}" for _ in range(400)])).steps
    assert steps.source is StepSource.WHOLE_CAPTURE
    assert "nothing that repeats takes most of the time" in steps.note


def test_a_heavy_program_among_disorder_gives_steps_of_low_confidence(read):
    random = __import__("random").Random(3)
    trace = TraceBuilder()
    modules = trace.tpu(0).line("XLA Modules")
    at = 0
    for _ in range(12):
        modules.event("main(1)", at, 60)
        at += 70
        for _ in range(random.randrange(1, 9)):
            modules.event(f"small{random.randrange(9)}(1)", at, 8)
            at += 9
    steps = read(trace).steps
    assert len(steps) == 12
    assert steps.confidence == "low"


def test_rare_small_programs_do_not_hide_the_period(read):
    random = __import__("random").Random(3)
    trace = TraceBuilder()
    modules = trace.tpu(0).line("XLA Modules")
    at = 0
    for _ in range(10):
        for name in ("micro(1)", "micro(1)", "update(2)"):
            modules.event(name, at, 500)
            at += 600
            for _ in range(random.randrange(3)):
                modules.event(f"tiny{random.randrange(5)}(3)", at, 1)
                at += 2
    steps = read(trace).steps
    assert len(steps) == 10
    assert steps.confidence == "medium"


@pytest.mark.parametrize("share", [0.1, 0.25, 0.4])
def test_programs_that_take_turns_by_chance_make_no_period_of_several(share):
    """Prefill and decode, say: at one of many distances most are equal by chance."""
    found = [
        find_repetition((np.random.default_rng(seed).random(200) < share).astype(np.int64))
        for seed in range(20)
    ]
    assert all(each is None or each.width == 1 for each in found)


def test_a_period_beside_evaluations_is_beyond_chance():
    rounds = [(5, 3), (7, 2), (4, 3), (6, 1)]
    labels = [label for count, extra in rounds for label in [0, 0, 0, 1] * count + [2] * extra]
    found = find_repetition(np.array(labels, np.int64))
    assert found is not None
    assert found.width == 4
