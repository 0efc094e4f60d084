"""An op of XLA's CPU client has the time in which threads worked for it, and no other op's."""

import pytest

from tests.builders import TraceBuilder

EXECUTE, WAIT = "ThunkExecutor::Execute", "ThunkExecutor::Execute (wait for completion)"
HANDS_OVER, BEGINS, ENDS = (f"ThreadpoolListener::{name}" for name in ("Record", "StartRegion", "StopRegion"))


class Threads:
    """Two threads of the pool in one step of 1 ms; times in microseconds."""

    def __init__(self):
        self.trace = TraceBuilder()
        python = self.trace.host().line("python")
        python.event("train_step", 0, 1000, _r=1, step_num=0).event("StepMarker", 995, 1)
        self.trace.host().line("tf_XLAPjRtCpuClient/9").event(WAIT, 100, 850)
        self.ops = 0

    def event(self, thread, name, start, duration=0.0, **facts):
        self.trace.host().line(f"tf_XLAEigen/{thread}").event(name, start, duration, **facts)

    def op(self, thread, name, start, duration, end=None, end_on=None):
        """The launch of an op, and its twin on a thread."""
        self.ops += 1
        self.event(
            thread, name, start, duration, hlo_op=name, hlo_module="g", program_id=1, _pt=0, _p=self.ops
        )
        if end is not None:
            self.event(end_on or thread, f"end: {name}", end, 0.1, _ct=0, _c=self.ops)

    def hand_over(self, thread, at, number):
        self.event(thread, HANDS_OVER, at, _pt=15, _p=number)

    def part(self, thread, start, end, number):
        self.event(thread, BEGINS, start, _ct=15, _c=number)
        self.event(thread, ENDS, end)


@pytest.fixture
def own(read):
    """The own time of each op, and from its launch to its end (us)."""

    def reader(threads):
        device = read(threads.trace).devices[0]
        events, found = device.op_events, {}
        for row, start, end, own in zip(events.op, events.start, events.end, events.self_ps, strict=True):
            mine, span = found.get(device.ops.name[row], (0, 0))
            found[device.ops.name[row]] = mine + int(own) / 1e6, span + int(end - start) / 1e6
        return device, found

    return reader


def product_beside(parts):
    """A product whose last thread goes on with a long op that waited for it, before it writes that the product ended."""
    threads = Threads()
    threads.event(1, EXECUTE, 100, 20)
    threads.op(1, "dot.1", 102, 5, end=701, end_on=2)
    if parts:
        threads.hand_over(1, 103, 71)
        threads.hand_over(1, 104, 72)
        threads.part(1, 120, 160, 71)
        # It waits for the thread until 180.
        threads.part(2, 180, 702, 72)
    threads.event(2, EXECUTE, 200, 500)
    threads.op(2, "eigh.0", 205, 490, end=694.5)
    return threads


def test_an_op_has_the_time_of_the_threads_that_work_for_it(own):
    device, found = own(product_beside(parts=True))
    assert found["dot.1"] == (pytest.approx(5 + 40 + 20), pytest.approx(98))
    assert found["eigh.0"] == (pytest.approx(490), pytest.approx(490))
    # In between the product waited for a thread, and the executor ran: that is no op's.
    assert device.busy.total / 1e6 == 850
    assert sum(spans.total for spans in device.by_kind.values()) / 1e6 == pytest.approx(5 + 40 + 20 + 490)


def test_an_op_ends_where_its_last_thread_goes_on_with_others(own):
    """Where no thread tells what it works on, as in traces of older versions."""
    _, found = own(product_beside(parts=False))
    assert found["dot.1"] == (pytest.approx(98), pytest.approx(98))


def test_an_executor_that_launched_an_op_has_not_waited_for_it(own):
    threads = Threads()
    threads.event(1, EXECUTE, 100, 300)
    threads.op(1, "dot.1", 102, 5, end=500)
    threads.op(1, "add.2", 110, 280, end=389)
    assert own(threads)[1]["dot.1"] == (pytest.approx(398.1), pytest.approx(398.1))


def test_parts_of_a_part_are_of_the_same_op(own):
    threads = Threads()
    threads.event(1, EXECUTE, 100, 20)
    threads.op(1, "dot.1", 102, 5, end=300, end_on=1)
    threads.hand_over(1, 103, 71)
    threads.part(2, 120, 200, 71)
    threads.hand_over(2, 130, 72)
    threads.part(1, 150, 301, 72)
    _, found = own(threads)
    # Two threads at once count once.
    assert found["dot.1"] == (pytest.approx(5 + 301 - 120), pytest.approx(199))


def test_a_loop_has_no_time_in_which_its_ops_run_elsewhere(own):
    threads = Threads()
    threads.op(1, "while.3", 100, 400, end=499)
    threads.event(1, EXECUTE, 110, 20)
    threads.op(1, "dot.1", 112, 8, end=450, end_on=2)
    threads.hand_over(1, 113, 71)
    threads.part(2, 150, 451, 71)
    _, found = own(threads)
    assert found["dot.1"][0] == pytest.approx(8 + 301)
    assert found["while.3"][0] == pytest.approx(400 - 20 - 301)


def test_a_part_whose_op_is_not_in_the_trace_is_no_ops(own):
    threads = Threads()
    threads.op(1, "add.2", 100, 50, end=149)
    threads.part(2, 120, 300, 71)
    _, found = own(threads)
    assert found == {"add.2": (pytest.approx(50), pytest.approx(50))}
