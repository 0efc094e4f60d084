"""What analysis costs grows with a trace and not with its square: counted in lines run and bytes asked for."""

import gc
import json
import sys
import threading
import tracemalloc

import numpy as np
import pytest

from tests.builders import TraceBuilder, op
from tpuprof.analysis.analyze import analyze_run, report_in_columns
from tpuprof.decode.find import find
from tpuprof.model.run import build_run
from tpuprof.model.step_columns import LISTED, SLOWEST, listed
from tpuprof.report.as_json import to_json

# Exponent of growth that is linear but for a logarithm and what one analysis costs however small its trace is.
MOST_EXPONENT = 1.1
SMALL, LARGE = 500, 4000


def marked(count):
    """Steps with a marker, a read, a compile now and then, a wait for input and an annotation."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    device = trace.tpu(0)
    for step in range(count):
        at = step * 1000
        python.event("train_step", at, 1000, _r=1, step_num=step)
        python.event("tpuprof.dataloader.next", at + 10, 50 + step % 7 * 40)
        python.event("my_work", at + 400, 30)
        python.event("PjRtComputationClient::ExecuteComputation", at + 450, 5)
        python.event("tpuprof.host_read", at + 500, 300, call="item")
        if step % 50 == 0:
            python.event("XLAGraphExecutor::Compile", at + 420, 20, graph_hash=f"h{step}")
        device.line("XLA Modules").event("step(1)", at + 455, 340)
        ops = device.line("XLA Ops")
        ops.event(start=at + 455, duration=200, **op("fusion.1"))
        ops.event(start=at + 655, duration=140, **op("copy-done.1", "copy-done", layout=":S(5)"))
    return trace


def unmarked(count):
    """Programs on the device alone, whose period makes the steps."""
    trace = TraceBuilder()
    for step in range(count):
        at = step * 1000
        trace.tpu(0).line("XLA Modules").event("a(1)", at, 500).event("b(2)", at + 500, 300 + step % 5)
        trace.tpu(0).line("XLA Ops").event(start=at, duration=480, **op("fusion.1"))
    return trace


def annotated(count):
    """An annotation of its own for each step."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for step in range(count):
        at = step * 1000
        python.event("train_step", at, 1000, _r=1, step_num=step)
        python.event(f"batch {step}", at + 100, 500)
        trace.tpu(0).line("XLA Modules").event("a(1)", at, 500)
    return trace


def cut(count):
    """Graph cuts, with an evaluation of another graph every few steps."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for step in range(count):
        at = step * 1000
        for number in range(2 if step % 10 == 9 else 1):
            python.event("SyncLiveTensorsGraph", at + 500 * number, 300)
            python.event("StepMarker", at + 500 * number, 310)
        trace.tpu(0).line("XLA Modules").event("a(1)", at, 500)
    return trace


class Lines:
    """Counts lines of Python that run in a block, in threads as well."""

    def __enter__(self):
        self.count = 0
        self.before = sys.gettrace()
        threading.settrace(self._call)
        sys.settrace(self._call)
        return self

    def __exit__(self, *exc):
        sys.settrace(self.before)
        threading.settrace(None)

    def _call(self, frame, event, arg):
        # What is imported or made once is not work on the trace.
        return None if "importlib" in frame.f_code.co_filename else self._line

    def _line(self, frame, event, arg):
        self.count += event == "line"
        return self._line


def lines_of(path):
    with Lines() as lines:
        analyze_run(path)
    return lines.count


def bytes_of(path):
    gc.collect()
    tracemalloc.start()
    try:
        analyze_run(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("make", [marked, unmarked, annotated, cut])
@pytest.mark.parametrize("cost", [lines_of, bytes_of])
def test_cost_grows_with_the_number_of_steps(make, cost, tmp_path):
    small, large = (make(count).write(tmp_path / f"{count}.xplane.pb") for count in (SMALL, LARGE))
    analyze_run(small)  # imports what analyses need
    growth = cost(large) / cost(small)
    assert growth <= (LARGE / SMALL) ** MOST_EXPONENT


def many_ops(devices, ops=400):
    """Devices that run one program of many ops, a step each second."""
    trace = TraceBuilder()
    for index in range(devices):
        device = trace.tpu(index)
        for step in range(3):
            device.line("XLA Modules").event("step(1)", step * 1000, 900)
            for row in range(ops):
                device.line("XLA Ops").event(
                    start=step * 1000 + 2 * row,
                    duration=2,
                    **op(f"fusion.{row}", "fusion"),
                )
    return trace


def test_what_devices_of_one_program_share_is_read_once(tmp_path):
    one, eight = (many_ops(count).write(tmp_path / f"{count}.xplane.pb") for count in (1, 8))
    analyze_run(one)
    # All of it, once for each device, would be eight times as much.
    assert lines_of(eight) <= 3 * lines_of(one)


@pytest.mark.parametrize("cost", [lines_of, bytes_of])
def test_cost_grows_with_the_number_of_distinct_ops(cost, tmp_path):
    small, large = (
        many_ops(2, count).write(tmp_path / f"{count}.xplane.pb") for count in (SMALL, LARGE // 2)
    )
    analyze_run(small)
    assert cost(large) / cost(small) <= (LARGE / 2 / SMALL) ** MOST_EXPONENT


def test_an_op_of_a_known_line_costs_few_calls(tmp_path):
    """Ops are columns up to their JSON: what lines say is read once a line, and no op becomes an object."""
    small, large = (many_ops(2, count).write(tmp_path / f"{count}.xplane.pb") for count in (SMALL, 4 * SMALL))
    calls_of(small)  # imports what analyses need
    # 57 where each op was an object, 10 of columns: most of those are of the reader and of the writer.
    assert (calls_of(large) - calls_of(small)) / (3 * SMALL) <= 12


def calls_of(path):
    """Calls of Python functions, in threads as well, from a file to its report's JSON."""
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event == "call"

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        to_json(report_in_columns(build_run(find(path))))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count


def test_a_long_run_has_a_short_report(tmp_path):
    count = 3 * LISTED
    trace = TraceBuilder()
    python = trace.host().line("python")
    for step in range(count):
        length = 9000 if step == 4321 else 6000
        python.event("train_step", step * 10_000, length, _r=1, step_num=step)
    trace.tpu(0).line("XLA Modules").repeat("a(1)", [step * 10_000 for step in range(count)], 500)
    report = analyze_run(trace.write(tmp_path / "h.xplane.pb"))
    steps = report.steps
    assert steps.count == steps.all_hosts == count
    assert len(steps.per_step) <= LISTED and len(steps.slowest) == SLOWEST
    assert (steps.per_step[0].index, steps.per_step[-1].index) == (0, count - 1)
    assert len(json.dumps(report.to_dict())) < 2_000_000


def test_of_a_host_stretches_of_neighbours_are_listed():
    assert listed(LISTED, 1).tolist() == list(range(LISTED))
    rows = listed(300_000, 1)
    assert len(rows) == LISTED and rows[0] == 0 and rows[-1] == 299_999
    stretches = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    assert {len(each) for each in stretches} == {20}
    assert len(listed(300_000, 10**6)) == 20
