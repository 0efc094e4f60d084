"""Steps of the device's own line, and devices that the trace shows in a part of the steps only."""

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.model.steps.table import StepSource
from tpuprof.report.labels import device_count

COUNT, LENGTH = 10, 1000


def device(trace, index, steps, *, busy=LENGTH, line=True, marker=LENGTH):
    """Steps of one device, in which it works for `busy` µs."""
    plane = trace.tpu(index)
    for number in steps:
        if line:
            plane.line("Steps").event(str(number), number * LENGTH, marker)
        plane.line("XLA Modules").event("f(1)", number * LENGTH, busy)
        plane.line("XLA Ops").event(**op("fusion.1"), start=number * LENGTH, duration=busy)


def test_a_device_whose_record_ends_early_does_not_give_the_steps(read):
    trace = TraceBuilder()
    device(trace, 0, range(COUNT // 2))
    device(trace, 1, range(COUNT))
    assert len(read(trace).steps) == COUNT


def test_so_it_is_where_programs_give_the_steps(read):
    trace = TraceBuilder()
    device(trace, 0, range(COUNT // 2), line=False)
    device(trace, 1, range(COUNT), line=False)
    assert len(read(trace).steps) == COUNT


def test_time_of_which_a_device_has_no_record_is_not_called_idle(analyze):
    trace = TraceBuilder()
    for index in range(3):
        device(trace, index, range(COUNT))
    device(trace, 3, range(COUNT // 2))
    report = analyze(trace)
    assert report.run_summary.device_busy_share == pytest.approx(1.0)
    assert report.verdict.sentence.startswith("Device-bound")
    assert report.environment["device_count"] == 4  # the slice has four; figures are of three
    (note,) = (each for each in report.warnings if "TPU:3" in each)
    assert "works in 5 of 10 steps" in note
    assert "other 3 devices" in note


def with_a_hole(name, lacks=(4, 5), marked=False):
    """Steps of one device, of which some are in no line; `name` gives what a step is called."""
    trace = TraceBuilder()
    plane = trace.tpu(0)
    for number in range(COUNT):
        begin = number * LENGTH
        plane.line("XLA Modules").event("f(1)", begin, 800)
        plane.line("XLA Ops").event(**op("fusion.1"), start=begin, duration=800)
        if number in lacks:
            continue
        if marked:
            trace.host().line("python").event("train", begin, 900, _r=1, step_num=number)
        else:
            plane.line("Steps").event(name(number), begin, 900)
    return trace


@pytest.mark.parametrize("marked", [False, True], ids=["Steps line", "markers"])
@pytest.mark.parametrize("name", [str, lambda _: "step"], ids=["numbered", "without numbers"])
def test_steps_that_the_trace_lacks_are_not_part_of_others(analyze, name, marked):
    """The step before them lasted three times as long, and eight were ten."""
    report = analyze(with_a_hole(name, marked=marked))
    assert report.steps.count == COUNT - 2
    assert max(row.wall_ms for row in report.steps.per_step) == pytest.approx(1.0)
    assert [row.index for row in report.steps.per_step] == [0, 1, 2, 3, 6, 7, 8, 9]
    assert "the trace lacks 2 steps between others" in report.steps.note
    assert [(row.name, row.duration_ms) for row in report.phases] == [
        ("steps not recorded", pytest.approx(2.0))
    ]


def test_a_device_that_lacks_no_step_gives_the_steps(analyze):
    trace = with_a_hole(str)
    device(trace, 1, range(COUNT), busy=800)
    assert analyze(trace).steps.count == COUNT


def test_so_it_is_beside_a_device_of_which_nothing_says_what_it_lacks(analyze):
    """Its programs are not in the trace, so that a step of it that is twice as long may be one."""
    trace = with_a_hole(lambda _: "step", lacks=(4,))
    for number in set(range(COUNT)) - {2, 6}:
        trace.tpu(1).line("Steps").event("step", number * LENGTH, 900)
        trace.tpu(1).line("XLA Ops").event(**op("fusion.1"), start=number * LENGTH, duration=800)
    report = analyze(trace)
    assert report.steps.count == COUNT - 1
    assert max(row.wall_ms for row in report.steps.per_step) == pytest.approx(1.0)


@pytest.mark.parametrize("every", [1, 10])
def test_names_of_steps_that_jump_are_no_holes(analyze, every):
    """Each tenth number is what the program calls a step, and no time passes where a number is left out."""
    report = analyze(with_a_hole(lambda number: str(every * (number + (number > 4))), lacks=()))
    assert (report.steps.count, report.phases) == (COUNT, [])


def test_work_between_steps_that_no_step_does_is_no_hole(analyze):
    trace = TraceBuilder()
    for number in range(COUNT):
        begin = number * LENGTH + 2 * LENGTH * (number > 4)
        trace.tpu(0).line("Steps").event("step", begin, 900)
        trace.tpu(0).line("XLA Modules").event("f(1)", begin, 800)
    trace.tpu(0).line("XLA Modules").repeat("evaluate(2)", [5000, 6000], 800)
    report = analyze(trace)
    assert (report.steps.count, report.phases) == (COUNT, [])


def programs_with_holes(*lacks, ops=True):
    """One device for each of `lacks`: the runs in those rows have no event of their own; their ops are there."""
    trace = TraceBuilder()
    for index, lack in enumerate(lacks):
        plane = trace.tpu(index)
        for number in range(COUNT):
            # Each device's clock is a little off.
            begin = number * LENGTH + 3 * index * (-1) ** number
            if number not in lack:
                plane.line("XLA Modules").event("f(1)", begin, 800)
            if ops:
                plane.line("XLA Ops").event(**op("fusion.1"), start=begin, duration=800)
    return trace


def test_a_run_without_an_event_of_its_own_does_not_prolong_the_one_before(analyze):
    """Ten steps of 1 ms were seven with a mean of 1.4 ms."""
    report = analyze(programs_with_holes((3, 6, 7)))
    assert report.steps.count == COUNT - 3
    # Nothing follows the last step, so it ends with its program.
    assert sorted(row.wall_ms for row in report.steps.per_step) == pytest.approx([0.8] + 6 * [1.0])
    assert "the trace lacks 3 steps between others" in report.steps.note
    assert [row.duration_ms for row in report.phases] == pytest.approx([1.0, 2.0])


@pytest.mark.parametrize("ops", [True, False], ids=["with ops", "without ops"])
def test_the_device_that_lacks_fewest_runs_gives_the_steps(analyze, ops):
    report = analyze(programs_with_holes((1, 7), (4,), ops=ops))
    assert report.steps.count == COUNT - 1
    assert max(row.wall_ms for row in report.steps.per_step) == pytest.approx(1.0, abs=0.01)
    assert "the trace lacks 1 step between others" in report.steps.note


def test_a_run_that_its_line_has_twice_is_one(analyze):
    """Half of the steps took no time: the mean was half of a step's time, and a rule divided by nothing."""
    trace = TraceBuilder()
    for number in [*range(COUNT), *range(COUNT)]:
        trace.tpu(0).line("XLA Modules").event("f(1)", number * LENGTH, 800)
    report = analyze(trace)
    assert report.steps.count == COUNT
    assert report.steps.median_ms == pytest.approx(1.0)
    assert not [each for each in report.findings if each.status == "error"]


def test_a_pause_between_runs_is_no_hole(analyze):
    trace = TraceBuilder()
    for number in range(COUNT):
        begin = number * LENGTH + 2 * LENGTH * (number > 4)
        trace.tpu(0).line("XLA Modules").event("f(1)", begin, 800)
        trace.tpu(0).line("XLA Ops").event(**op("fusion.1"), start=begin, duration=800)
    report = analyze(trace)
    assert (report.steps.count, report.phases) == (COUNT, [])
    assert max(row.wall_ms for row in report.steps.per_step) == pytest.approx(3.0)


@pytest.mark.parametrize("waits", [True, False])
def test_a_run_that_begins_early_on_another_device_is_no_hole(analyze, waits):
    """One device is held up for three steps; the other has begun its next run, and may wait in it for the first one's."""
    trace = TraceBuilder()
    for number in range(COUNT):
        begin = number * LENGTH + 3 * LENGTH * (number > 4)
        early = 3 * LENGTH if number == 5 else 0
        trace.tpu(0).line("XLA Modules").event("f(1)", begin, 900)
        trace.tpu(1).line("XLA Modules").event("f(1)", begin - early, 900 + early * waits)
    report = analyze(trace)
    assert (report.steps.count, report.phases) == (COUNT, [])


def test_a_run_that_loops_for_longer_is_no_hole(analyze):
    """One decodes three times as many tokens: its ops are inside of its own event."""
    trace = TraceBuilder()
    begin = 0
    for number in range(COUNT):
        rounds = 3 if number == 4 else 1
        trace.tpu(0).line("XLA Modules").event("f(1)", begin, 900 * rounds)
        for each in range(rounds):
            trace.tpu(0).line("XLA Ops").event(**op("fusion.1"), start=begin + 900 * each, duration=900)
        begin += 900 * rounds + 100
    assert (analyze(trace).steps.count, analyze(trace).phases) == (COUNT, [])


def at_speeds(*speeds):
    """One device for each speed: it runs the same programs, in so many times as long."""
    trace = TraceBuilder()
    for index, speed in enumerate(speeds):
        plane = trace.tpu(index)
        for number in range(COUNT):
            begin, busy = int(number * LENGTH * speed), int(LENGTH * speed)
            plane.line("XLA Modules").event("f(1)", begin, busy)
            plane.line("XLA Ops").event(**op("fusion.1"), start=begin, duration=busy)
    return trace


@pytest.mark.parametrize(
    ("speeds", "length", "odd", "said"),
    [
        (
            (1, 1.2, 1, 1),
            1.0,
            "TPU:1 took 12.0 ms",
            "slower, or clocks are faster there. Figures are of the other 3 devices",
        ),
        (
            (1.2, 1),
            1.2,
            "TPU:1 took 10.0 ms",
            "Which of them is right is unknown; figures are of 1 device that took longer",
        ),
        (
            (1, 1, 0.8, 1),
            1.0,
            "TPU:2 took 8.00 ms",
            "faster, or clocks are slower there. Figures are of the other 3 devices",
        ),
        ((1, 1, 1.05, 1), 1.0, "", ""),
    ],
)
def test_of_devices_that_ran_as_much_in_another_time_the_majority_counts(analyze, speeds, length, odd, said):
    """The clock of one of four chips ran 1.2 times as fast: the three that agree were left out for it."""
    report = analyze(at_speeds(*speeds))
    assert report.steps.median_ms == pytest.approx(length, rel=0.01)
    assert report.environment["device_count"] == len(speeds)
    notes = [each for each in report.warnings if "for as many" in each]
    assert len(notes) == bool(said)
    assert all(said in each and odd in each for each in notes)
    assert not any(each.rule == "truncated-trace" and each.status == "failed" for each in report.findings)


def test_the_only_other_device_is_not_counted(analyze):
    trace = TraceBuilder()
    device(trace, 0, range(COUNT))
    device(trace, 1, range(COUNT // 2))
    (note,) = (each for each in analyze(trace).warnings if "TPU:1" in each)
    assert note.endswith("Figures are of the other device")


def test_a_device_that_works_now_and_then_idles_meanwhile(analyze):
    trace = TraceBuilder()
    device(trace, 0, range(COUNT))
    device(trace, 1, [3, 8])
    report = analyze(trace)
    assert report.environment["device_count"] == 2
    assert report.run_summary.device_busy_share == pytest.approx(0.6)


def test_a_device_that_ran_before_the_steps_alone_is_no_part_of_the_mean(analyze):
    trace = TraceBuilder()
    device(trace, 0, range(1, COUNT))
    trace.tpu(1).line("XLA Modules").event("init(2)", 0, 100)
    trace.tpu(2).line("XLA Modules")
    report = analyze(trace)
    assert report.run_summary.device_busy_share == pytest.approx(1.0)
    assert "host0: 1 of 3 x TPU has no events in the trace: whether it works is unknown" in report.warnings
    assert "host0: 1 of 3 x TPU did no work in the captured steps" in report.warnings


def test_devices_without_events_are_in_the_count_of_all(analyze):
    """ "1 x TPU" was said of a trace of four devices that has events of one."""
    trace = TraceBuilder()
    device(trace, 0, range(COUNT))
    for index in (1, 2, 3):
        trace.tpu(index)
    report = analyze(trace)
    assert (report.environment["device_count"], report.environment["devices_in_trace"]) == (1, 4)
    assert device_count(report) == "1 of 4"
    assert "3 of 4 x TPU have no events in the trace: whether they work is unknown" in "".join(
        report.warnings
    )


def test_steps_that_the_capture_cut_are_left_out(read):
    trace = TraceBuilder()
    line = trace.tpu(0).line("Steps").event("0", 600, 400)
    line.repeat("1", [1000, 2000, 3000, 4000], 900)
    line.event("5", 5000, 300)
    steps = read(trace).steps
    assert steps.number.tolist() == [1, 2, 3, 4]
    assert set(steps.wall_ps.tolist()) == {LENGTH * 1_000_000}
    assert steps.note == "2 steps at the ends of the capture are not whole, and left out"


def test_a_first_program_that_the_capture_cut_is_no_step(read):
    trace = TraceBuilder()
    line = trace.tpu(0).line("XLA Modules").event("f(1)", 700, 300)
    line.repeat("f(1)", [1000, 2000, 3000, 4000], 1000)
    assert len(read(trace).steps) == 4


def test_a_step_that_stands_there_twice_is_one(read):
    trace = TraceBuilder()
    trace.tpu(0).line("Steps").repeat("1", [0, 0, 1000, 1000, 1200, 2000], 700)
    steps = read(trace).steps
    assert steps.start.tolist() == [0, 1_000_000_000, 1_200_000_000, 2_000_000_000]
    trace = TraceBuilder()
    line = trace.tpu(0).line("Steps").repeat("1", [0, 0, 1000, 1000, 2000], 900)
    line.event("part", 1200, 300)
    assert read(trace).steps.start.tolist() == [0, 1_000_000_000, 2_000_000_000]


def test_devices_whose_steps_differ_are_named(read):
    trace = TraceBuilder()
    device(trace, 0, range(COUNT), marker=600)
    device(trace, 1, range(COUNT), marker=900)
    note = read(trace).steps.note
    assert "900 µs or longer on /device:TPU:1" in note
    assert "600 µs on /device:TPU:0" in note


def ahead(trace, count, length=100, begin=0):
    """Steps that the host marks, each of which hands a program over."""
    line = trace.host().line("python")
    for number in range(count):
        line.event("train", begin + number * length, length - 5, _r=1, step_num=100 + number)
        line.event("PjitFunction(f)", begin + number * length + 5, length - 20)


@pytest.mark.parametrize("begin", [0, -5000], ids=["runs ahead", "another clock"])
def test_steps_are_the_devices_where_its_work_lies_outside_of_the_hosts(analyze, begin):
    trace = TraceBuilder()
    ahead(trace, COUNT, begin=begin + 5000)
    for index in (0, 1):
        device(trace, index, range(5, 5 + COUNT), line=False)
    report = analyze(trace)
    assert report.steps.median_ms == pytest.approx(1.0)
    assert [row.index for row in report.steps.per_step] == [100 + number for number in range(COUNT)]
    assert "outside of the host's own steps" in report.steps.note
    assert report.verdict.bound == "device"


def test_other_work_of_the_device_leaves_the_hosts_steps_and_is_named(analyze):
    trace = TraceBuilder()
    ahead(trace, COUNT, LENGTH)
    device(trace, 0, range(COUNT), line=False)
    trace.tpu(0).line("XLA Modules").repeat("evaluate(2)", range(20_000, 60_000, LENGTH), 900)
    report = analyze(trace)
    assert (report.steps.method, report.steps.count) == ("step markers", COUNT)
    assert any("of the devices' work in the capture lies in its steps" in each for each in report.warnings)


def test_a_plane_without_ops_and_programs_is_not_called_idle(analyze):
    trace = TraceBuilder()
    ahead(trace, COUNT, LENGTH)
    trace.tpu(0).line("Steps").repeat("1", range(0, COUNT * LENGTH, LENGTH), LENGTH)
    report = analyze(trace)
    assert "idles" not in report.verdict.sentence
    assert "shows neither ops nor programs of a device" in report.verdict.sentence
    assert any("neither ops nor programs of /device:TPU:0" in each for each in report.warnings)


def test_devices_that_are_not_equally_busy_are_named(analyze):
    trace = TraceBuilder()
    device(trace, 0, range(COUNT))
    device(trace, 1, range(COUNT), busy=LENGTH // 2)
    (note,) = analyze(trace).warnings[-2:-1]
    assert "/device:TPU:1 for 50 % of the steps' time, /device:TPU:0 for 100 %" in note


@pytest.mark.parametrize(("at", "told"), [(500, True), (50, False)])
def test_devices_that_work_by_turns_are_said_to(analyze, at, told):
    trace = TraceBuilder()
    device(trace, 0, range(COUNT), busy=500)
    trace.tpu(1).line("XLA Modules").repeat("f(1)", range(at, COUNT * LENGTH, LENGTH), 500)
    for begin in range(at, COUNT * LENGTH, LENGTH):
        trace.tpu(1).line("XLA Ops").event(**op("fusion.1"), start=begin, duration=500)
    report = analyze(trace)
    said = "at least one is busy for 100 % of the steps' time, each for 50 % on average"
    assert any(said in each for each in report.warnings) is told


def test_steps_of_the_device_are_not_begun_by_the_host():
    assert not StepSource.DEVICE.host_paced


def test_a_pipeline_of_devices_is_said_where_no_cause_is_known(analyze):
    trace = TraceBuilder()
    for number in range(COUNT):
        for index in range(4):
            plane, begin = trace.tpu(index), LENGTH * number + index * LENGTH // 4
            plane.line("XLA Modules").event(f"stage{index}({index})", begin, LENGTH // 4)
            plane.line("XLA Ops").event(**op("fusion.1"), start=begin, duration=LENGTH // 4)
    sentence = analyze(trace).verdict.sentence
    assert (
        "Devices work by turns: at least one is busy for 100 % of the steps' time, each for 25 %" in sentence
    )


@pytest.mark.parametrize(
    ("lack", "kept", "told"),
    [
        ((6, 7, 8, 9), 6, "the trace lacks the programs of 4 steps after the last one"),
        ((0, 1, 2), 7, "the trace lacks the programs of 3 steps before the first one"),
    ],
    ids=["last", "first"],
)
def test_runs_that_the_trace_lacks_at_an_end_are_told_where_their_ops_are_there(analyze, lack, kept, told):
    """Four of ten steps were gone without a word, "nothing is known to be missing", and op times contradicted it."""
    report = analyze(programs_with_holes(lack))
    assert report.steps.count == kept
    assert told in report.steps.note
    assert any(told in warning for warning in report.warnings)
    assert not any("inconsistent" in warning for warning in report.warnings)
    assert wholeness(report) == "failed"
    assert wholeness(analyze(programs_with_holes(()))) == "passed"


def wholeness(report):
    """The status of the rule on captures that are not whole."""
    (found,) = [each for each in report.findings if each.rule == "truncated-trace"]
    return found.status
