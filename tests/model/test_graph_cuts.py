"""Who cuts graphs inside a step, and reads that no line of the program explains."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.sections.runtime import graph_cut_rows
from tpuprof.model.host_run import read_host_run
from tpuprof.model.telemetry import Counted
from tpuprof.units import PS_PER_US


def trace_of(*, read=False, noted=True):
    """Two steps with a sync at train.py:9; with `read`, an item() at train.py:5 that cuts a graph too."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for begin in (0, 1000):
        python.event("train", begin, 1000, _r=1)
        if read:
            python.event("tpuprof.host_read", begin + 100, 200, call="item", source="train.py:5")
            python.event("ScheduleSyncTensorsGraph", begin + 110, 20)
            python.event("PjRtComputationClient::TransferFromDevice", begin + 140, 100)
        if noted:
            python.event("tpuprof.graph_cut", begin + 800, 150, call="sync", source="train.py:9")
        python.event("SyncTensorsGraph", begin + 810, 130)
        python.event("ScheduleSyncTensorsGraph", begin + 820, 20)
        python.event("PjRtComputationClient::TransferFromDevice", begin + 500, 60)
    return trace


def cuts(report):
    return [(row.call, row.source, row.per_step) for row in report.graph_cuts]


def test_a_sync_has_its_line(analyze):
    assert cuts(analyze(trace_of())) == [("sync", "train.py:9", 1)]


def test_a_read_that_cuts_goes_by_the_read(analyze):
    assert cuts(analyze(trace_of(read=True))) == [("item", "train.py:5", 1), ("sync", "train.py:9", 1)]


def test_other_captures_count_without_lines(analyze):
    assert cuts(analyze(trace_of(noted=False))) == [("other", "", 1)]


@pytest.mark.parametrize("with_read", [False, True])
def test_transfers_outside_reads_are_the_unexplained_ones(read, with_read):
    assert read(trace_of(read=with_read)).unexplained_reads_ps == 2 * 60 * PS_PER_US


@pytest.mark.parametrize(
    ("fallbacks", "named"),
    [
        ({"aten::lgamma": 2}, ("aten::lgamma", "train.py:7", 1)),
        # As many cuts as ops: which op cut is known only where there is one.
        ({"aten::lgamma": 1, "aten::median": 1}, ("other", "", 1)),
        ({"aten::lgamma": 1}, ("other", "", 1)),
        ({}, ("other", "", 1)),
    ],
)
def test_a_cut_that_no_line_explains_goes_by_the_op_that_ran_on_the_host_as_often(tmp_path, fallbacks, named):
    host = read_host_run("host", trace_of(noted=False).write(tmp_path / "host.xplane.pb"))
    counts = Counted(records=2, captured=2, fallbacks=fallbacks, lines={"aten::lgamma": "train.py:7"})
    assert [(row.call, row.source, row.per_step) for row in graph_cut_rows([host], [counts])] == [named]
