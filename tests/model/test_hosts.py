"""Several hosts: who was late, by how much, and which host waited for which."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.decode import xplane
from tpuprof.model.device.meeting import meeting_ops
from tpuprof.model.device.tpu import Known, read_tpu
from tpuprof.model.hosts import STRAGGLER_FROM
from tpuprof.model.timeline import build_host

REDUCE = "%all-reduce.1 = f32[8]{0} all-reduce(f32[8]{0} %g), replica_groups={}"


def host(late, *, steps=5, clock_ms=0.0, name="train", line=REDUCE, program="f(1)", takes=100):
    """Steps of 1 ms that end in an all-reduce of so many us beyond the wait for the other host, which is never late."""
    trace = TraceBuilder()
    stamp = 1_000_000_000 + round(clock_ms * 1e6)
    begin = 0
    for step in range(steps):
        python = trace.host().line("python", stamp)
        length = 1000 + max(late)
        python.event(name, begin, length, _r=1, step_num=step)
        trace.tpu(0).line("XLA Modules", stamp).event(program, begin, length)
        wait = max(late) - late[0]
        trace.tpu(0).line("XLA Ops", stamp).event(
            line,
            begin + 1000 - takes + late[0],
            takes + wait,
            display=line.partition(" ")[0].lstrip("%"),
            facts={"hlo_category": "all-reduce"},
        )
        begin += length
    return trace


def test_the_host_that_waits_least_came_last(analyze):
    found = analyze(host((0, 80)), host((80, 80))).hosts
    assert (found.straggler, found.method) == ("host1", "collectives")
    assert found.lag_ms_per_step == pytest.approx(0.08)
    first = found.late_steps[0]
    assert (first.host, first.barrier, first.waited_ms) == (
        "host1", "all-reduce.1", {"host0": pytest.approx(0.08), "host1": 0.0},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "method"),
    [
        (REDUCE, "collectives"),
        (REDUCE.replace("{}", "{{0,1,2,3}}"), "collectives"),
        (REDUCE.replace("{}", "[1,4]<=[4]"), "collectives"),
        ("%all-reduce.1 = f32[8]{0} all-reduce(f32[8]{0} %g)", "collectives"),
        (REDUCE.replace("{}", "{{0,1},{2,3}}"), "step times"),
        (REDUCE.replace("{}", "[2,2]<=[2,2]T(1,0)"), "step times"),
        ("%collective-permute.1 = f32[8]{0} collective-permute(f32[8]{0} %g)", "step times"),
    ],
    ids=["all", "one group", "one group, short", "no line says", "two groups", "two groups, short", "pairs"],
)
def test_only_where_all_devices_meet_is_a_lateness(analyze, line, method):
    """Two groups that do not wait for each other: one of them waits long inside, and nobody is late for the other."""
    found = analyze(host((0, 80), line=line), host((80, 80), line=line)).hosts
    assert found.method == method
    assert found.straggler == ("host1" if method == "collectives" else "")


def test_the_end_of_an_asynchronous_collective_counts_by_its_start():
    start = "%all-reduce-start.1 = f32[8]{0} all-reduce-start(f32[8]{0} %g), replica_groups={{0,1},{2,3}}"
    done = "%all-reduce-done.1 = f32[8]{0} all-reduce-done(f32[8]{0} %all-reduce-start.1)"
    assert meeting_ops(device(start, done)) == []
    assert len(meeting_ops(device(start.replace("{{0,1},{2,3}}", "{{0,1,2,3}}"), done))) == 2


def device(*lines):
    """A device with these collectives."""
    trace = TraceBuilder()
    trace.host().line("python").event("train", 0, 1000, _r=1, step_num=0)
    trace.tpu(0).line("XLA Modules").event("f(1)", 0, 1000)
    for at, line in enumerate(lines):
        name = line.partition(" ")[0].lstrip("%")
        trace.tpu(0).line("XLA Ops").event(
            line, 100 * at, 50, display=name, facts={"hlo_category": name.rpartition(".")[0]}
        )
    built = build_host(xplane.parse(trace.to_bytes(), "x"), "x")
    return read_tpu(built.device_planes[0], built.devices[0], [], Known())


OF_A_GROUP = REDUCE.replace("{}", "{{0},{1},{2}}")


@pytest.mark.parametrize(("other", "straggler"), [("f(1)", "host2"), ("g(2)", "")])
def test_hosts_that_meet_nowhere_are_compared_where_they_run_one_program(analyze, other, straggler):
    """A host of another program takes longer, as it should; one of the same program holds the others up."""
    slow = host((400, 400), line=OF_A_GROUP, program=other)
    found = analyze(host((0, 0), line=OF_A_GROUP), host((0, 0), line=OF_A_GROUP), slow).hosts
    assert (found.method, found.straggler) == ("step times", straggler)
    assert ("because they run another program: host2" in found.clocks) == (not straggler)
    assert [row.host for row in found.hosts] == ["host0", "host1", "host2"]


def test_hosts_of_two_programs_that_meet_are_compared(analyze):
    found = analyze(host((0, 80)), host((80, 80), program="g(2)")).hosts
    assert (found.method, found.straggler) == ("collectives", "host1")


def test_clocks_that_differ_make_nobody_late(analyze):
    found = analyze(host((0, 0)), host((0, 0), clock_ms=7.0)).hosts
    assert (found.straggler, found.lag_ms_per_step) == ("", 0.0)
    assert [row.clock_offset_ms for row in found.hosts] == [0.0, pytest.approx(7.0)]


@pytest.mark.parametrize(("lag", "found"), [(40, ""), (60, "host1")])
def test_from_which_lag_a_host_is_a_straggler(analyze, lag, found):
    assert 40 / 1040 < STRAGGLER_FROM < 60 / 1060
    assert analyze(host((0, lag)), host((lag, lag))).hosts.straggler == found


def test_one_host_has_nothing_to_align(analyze):
    found = analyze(host((0, 0))).hosts
    assert (found.method, found.late_steps, found.lag_ms_per_step) == ("", [], None)
    assert len(found.hosts) == 1


@pytest.mark.shared_traces
def test_a_real_capture_with_one_host_delayed(shared_traces, tmp_path):
    """The v6e capture twice; in the second, everything from the 40th step on comes 250 ms later."""
    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.decode import xplane_pb2

    source = shared_traces / "tpu_v6e_host_offload" / "host0.xplane.pb"
    delay_ms = 250
    step = analyze_run(source).steps.per_step[40]
    space = xplane_pb2.XSpace.FromString(source.read_bytes())
    origin = min(line.timestamp_ns for plane in space.planes for line in plane.lines if line.events)
    moment = origin * 1000 + step.start_ns * 1000 + round(step.wall_ms * 0.5e9)
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                if line.timestamp_ns * 1000 + event.offset_ps > moment:
                    event.offset_ps += delay_ms * 10**9
    (tmp_path / "a.xplane.pb").write_bytes(source.read_bytes())
    (tmp_path / "b.xplane.pb").write_bytes(space.SerializeToString())
    found = analyze_run([tmp_path / "a.xplane.pb", tmp_path / "b.xplane.pb"]).hosts
    worst = max(found.late_steps, key=lambda row: row.lag_ms)
    assert (worst.step, worst.host) == (step.index, "b")
    assert worst.lag_ms == pytest.approx(delay_ms, rel=0.005)
    others = [row.lag_ms for row in found.late_steps if row is not worst]
    assert max(others) < 0.05 * delay_ms


def late_by_turns(count, lag, steps=12):
    """Hosts of which in each step another one comes last to an all-reduce, by `lag` (us); steps last 1 ms and that."""
    made = []
    for own in range(count):
        trace = TraceBuilder()
        for step in range(steps):
            begin, late = step * (1000 + lag), lag * (step % count == own)
            trace.host().line("python").event("train", begin, 1000 + lag, _r=1, step_num=step)
            trace.tpu(0).line("XLA Modules").event("f(1)", begin, 1000 + lag)
            ops, facts = trace.tpu(0).line("XLA Ops"), {"hlo_category": "all-reduce"}
            ops.event("%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p)", begin, 900 + late, display="fusion.1")
            ops.event(REDUCE, begin + 900 + late, 100 + lag - late, display="all-reduce.1", facts=facts)
        made.append(trace)
    return made


def test_hosts_that_are_late_by_turns_are_a_finding_that_names_none(analyze):
    """Each of twelve is late in one step, too little for any to stand out, and all wait in all other steps."""
    report = analyze(*late_by_turns(12, 300))
    found = {each.rule: each for each in report.findings}
    late = found["straggler-host"]
    assert late.status == "failed"
    assert late.title.startswith(
        "Hosts come last by turns, no single one is slow: each waits 275 µs per step on average"
    )
    assert (late.savings.low, late.savings.high) == (0.0, pytest.approx(0.275))
    assert "on all hosts in the same step" in late.fix.text
    assert "is a wait for hosts that come last by turns" in report.verdict.sentence
    # What is left of the waits is communication, and too little to name.
    assert found["exposed-collectives"].status == "passed"
    assert "straggler-host say" in found["exposed-collectives"].reason


def test_hosts_that_are_late_by_turns_for_less_than_is_worth_naming_keep_pace(analyze):
    report = analyze(*late_by_turns(12, 50))
    assert next(each for each in report.findings if each.rule == "straggler-host").status == "passed"


def test_waits_for_a_late_host_are_not_called_communication(analyze):
    report = analyze(host((0, 300)), host((0, 300)), host((300, 300)))
    found = {each.rule: each for each in report.findings}
    assert found["straggler-host"].status == "failed"
    assert found["exposed-collectives"].status == "passed"
