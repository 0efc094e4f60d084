"""Which event hands work to which: by the profiler's numbers, across threads, to devices, and back."""

from tests.builders import TraceBuilder, op
from tpuprof.decode import xplane
from tpuprof.decode.xplane_walk import EVENTS_PER_TASK
from tpuprof.model.run import read_host_run
from tpuprof.model.timeline import build_host
from tpuprof.timeline.event import details_of_event, event_at
from tpuprof.timeline.lanes import lanes_of
from tpuprof.timeline.links import MOST_LINKS, Links

KIND = 7


def launches(runs=2):
    """A call that hands a program to another thread, which enqueues it on a TPU."""
    trace = TraceBuilder()
    python, pool = trace.host().line("python"), trace.host().line("launcher")
    modules, ops = trace.tpu(0).line("XLA Modules"), trace.tpu(0).line("XLA Ops")
    for run in range(runs):
        at = 1000 * run
        python.event("train", at, 900, _r=1, step_num=run)
        python.event("Execute", at + 100, 50, _pt=KIND, _p=run + 1)
        pool.event("Issue", at + 200, 60, _ct=KIND, _c=run + 1)
        pool.event("Enqueue", at + 210, 20, run_id=run + 1, device_ordinal=0, queue_id=3)
        modules.event("step(7)", at + 300, 400, run_id=run + 1)
        ops.event(start=at + 310, duration=100, **op("fusion.1"))
    return trace


def opened(trace, tmp_path):
    path = trace.write(tmp_path / "x.xplane.pb")
    host = build_host(xplane.parse(trace.to_bytes(), "x"), "x")
    return lanes_of(host, read_host_run("x", path)), Links(host)


def details(lanes, links, title, depth, start_us):
    lane = next(each for each in lanes if each.title == title)
    chosen = event_at(lanes, lane.key, depth, round(start_us * 1e6))
    assert chosen is not None
    return details_of_event(chosen, lanes, links)


def names(hand_overs):
    return [(each.source.name, each.target.name) for each in hand_overs]


def test_an_op_leads_back_to_the_call_that_launched_its_program(tmp_path):
    found = details(*opened(launches(), tmp_path), "TPU:0 ops", 0, 1310)
    assert names(found.launched_by) == [("Enqueue", "step(7)"), ("Execute", "Issue")]
    assert [each.source.at for each in found.launched_by] == [1_210_000_000, 1_100_000_000]
    assert found.launched_by[0].target.on_device
    assert found.launches == []


def test_a_step_leads_to_the_programs_that_it_launched(tmp_path):
    found = details(*opened(launches(), tmp_path), "python", 0, 1000)
    assert names(found.launches) == [("Execute", "Issue"), ("Enqueue", "step(7)")]
    # Of this step's run alone, although all runs are of one program.
    assert [each.target.start for each in found.launches] == [1_200_000_000, 1_300_000_000]
    assert [each.target.lane.title for each in found.launches] == ["launcher", "TPU:0 programs"]


def test_an_event_has_its_own_values_and_what_is_around_it(tmp_path):
    found = details(*opened(launches(), tmp_path), "launcher", 1, 210)
    assert dict(found.values) == {"run_id": "1", "device_ordinal": "0", "queue_id": "3"}
    assert found.around == ["Issue"]
    found = details(*opened(launches(), tmp_path), "TPU:0 ops", 0, 310)
    assert "%fusion.1 = f32[8]" in found.hlo
    assert dict(found.facts) == {"hlo_category": "fusion"}


def test_a_number_that_several_events_hand_over_under_is_no_link(tmp_path):
    trace = TraceBuilder()
    python, pool = trace.host().line("python"), trace.host().line("pool")
    python.event("train", 0, 900, _r=1, step_num=0)
    python.event("Execute", 100, 50, _pt=KIND, _p=1).event("Execute", 200, 50, _pt=KIND, _p=1)
    python.event("Execute", 300, 50, _pt=KIND, _p=2)
    pool.event("Run", 400, 50, _ct=KIND, _c=1).event("Run", 500, 50, _ct=KIND, _c=2)
    # The same number under another kind is other work.
    pool.event("Run", 600, 50, _ct=KIND + 1, _c=2)
    lanes, links = opened(trace, tmp_path)
    assert len(links) == 1
    assert names(details(lanes, links, "python", 0, 0).launches) == [("Execute", "Run")]
    assert details(lanes, links, "pool", 0, 400).launched_by == []
    assert details(lanes, links, "pool", 0, 600).launched_by == []


def test_marks_without_length_stand_for_the_work_between_them(tmp_path):
    """XLA's thread pools mark where work is recorded, where it begins on another thread, and where it stops."""
    trace = TraceBuilder()
    python, pool = trace.host().line("python"), trace.host().line("pool")
    python.event("train", 0, 900, _r=1, step_num=0).event("Helper", 100, 50)
    python.event("ThreadpoolListener::Record", 120, 0, _pt=15, _p=9)
    pool.event("ThreadpoolListener::StartRegion", 200, 0, _ct=15, _c=9)
    pool.event("Work", 210, 90).event("ThreadpoolListener::StopRegion", 310, 0).event("Later", 320, 10)
    lanes, links = opened(trace, tmp_path)
    found = details(lanes, links, "pool", 0, 210)
    assert names(found.launched_by) == [("Helper", "Work")]
    assert details(lanes, links, "pool", 0, 320).launched_by == []


def test_an_op_on_a_cpu_hands_nothing_to_its_own_end(tmp_path):
    trace = TraceBuilder()
    line = trace.host().line("tf_XLAEigen/1")
    line.event("dot.1", 0, 10, hlo_op="dot.1", _p=4).event("end: dot.1", 50, 1, _c=4)
    _, links = opened(trace, tmp_path)
    assert len(links) == 0


def test_a_kernel_on_a_gpu_is_linked_with_its_launch(tmp_path):
    trace = TraceBuilder()
    trace.host().line("python").event("train", 0, 900, _r=1, step_num=0)
    trace.host().line("python").event("cuLaunchKernel", 100, 5, correlation_id=3)
    trace.plane("/device:GPU:0").line("Stream #1(Kernel)").event("gemm", 200, 50, correlation_id=3)
    lanes, links = opened(trace, tmp_path)
    lane = next(each for each in lanes if "Stream" in each.title)
    found = details(lanes, links, lane.title, 0, 200)
    assert names(found.launched_by) == [("cuLaunchKernel", "gemm")]


def test_hand_overs_that_go_in_circles_or_are_many_end(tmp_path):
    trace = TraceBuilder()
    python, pool = trace.host().line("python"), trace.host().line("pool")
    python.event("train", 0, 90_000, _r=1, step_num=0)
    python.event("A", 100, 50, _pt=1, _p=1, _ct=1, _c=2)
    pool.event("B", 200, 50, _pt=1, _p=2, _ct=1, _c=1)
    for number in range(2 * MOST_LINKS):
        python.event("C", 1000 + number, 0.5, _pt=2, _p=number)
        pool.event("D", 2000 + number, 0.5, _ct=2, _c=number)
    lanes, links = opened(trace, tmp_path)
    assert len(details(lanes, links, "python", 0, 0).launches) == MOST_LINKS
    assert len(details(lanes, links, "pool", 0, 200).launched_by) == 2


def test_the_values_of_one_event_are_read_without_those_of_all():
    trace = TraceBuilder()
    line = trace.host().line("python")
    for number in range(2 * EVENTS_PER_TASK + 10):
        line.event("e", number, 1, n=number)
    (plane,) = xplane.parse(trace.to_bytes(), "x").planes
    (line,) = plane.lines
    for row in (0, EVENTS_PER_TASK - 1, EVENTS_PER_TASK, 2 * EVENTS_PER_TASK + 5):
        found = line.row_stats(row, list(plane.stat_names))
        assert (len(found), found.integers().tolist(), found.row.tolist()) == (1, [row], [row])
