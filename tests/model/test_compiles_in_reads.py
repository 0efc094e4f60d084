"""Compiles that a read of a value makes: their line is that of the read, not that of the step's graph cut."""

import json

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.read_places import IN_NONE, INSIDE

CUT, READ = "train (train.py:20)", "train.py:25"


def steps_that_compile(folder, also, cut_at=10, counters=None):
    """The report of eight steps, each of which compiles in its graph cut; `also(trace, python, at)` adds to the fourth."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    records = []
    for number in range(8):
        at = number * 100_000
        python.event("train_step", at, 100_000, _r=1, step_num=number, tpuprof="step", origin="user")
        cut = {"tpuprof": "graph_cut", "call": "sync", "source": "train.py:20"}
        python.event("tpuprof.graph_cut", at + cut_at, 45_000, **cut)
        python.event("StepMarker", at + cut_at, 50)
        python.event("XLAGraphExecutor::Compile", at + cut_at + 90, 40_000, graph_hash=f"hash{number}")
        if number == 3:
            also(trace, python, at)
        compiles = [{"graphs": 1, "seconds": 0.05, "frames": [CUT]}]
        facts = {"wall_ns": 10**8, "captured": True, "counters": counters or {}, "compiles": compiles}
        records.append({"step": number, **facts})
    trace.write(folder / "plugins" / "profile" / "one" / "host.xplane.pb")
    notes = folder / "tpuprof"
    notes.mkdir()
    (notes / "run.json").write_text(json.dumps({"schema": "tpuprof.run/1", "warnings": []}))
    (notes / "telemetry.host.0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    return analyze_run(folder)


def run(folder):
    """Such steps, of which the fourth one's read runs a graph of its own."""

    def read(_trace, python, at):
        python.event("tpuprof.host_read", at + 70_000, 20_000, tpuprof="host_read", call="item", source=READ)
        python.event("XLAGraphExecutor::Compile", at + 71_000, 10_000, graph_hash="mean")

    return steps_that_compile(folder, read)


def test_each_compile_has_the_line_that_made_it(tmp_path):
    rows = run(tmp_path).compiles
    of_reads = [row for row in rows if row.graph_hash == "mean"]
    assert [(row.frames, row.in_read, row.line) for row in of_reads] == [([f"item ({READ})"], True, "")]
    assert {(*row.frames, row.in_read, row.line) for row in rows if row.graph_hash != "mean"} == {
        (CUT, False, CUT)
    }
    assert [row.cause.places for row in of_reads] == [[READ]]


def test_a_read_is_not_blocked_by_the_compile_that_it_waits_for(tmp_path):
    """It takes 20 ms in one of eight steps, and half of that is a compile: the next graph cut would compile as well."""
    (row,) = run(tmp_path).host_reads
    assert (row.source, row.blocked_ms_per_step) == (READ, 10 / 8)


@pytest.mark.parametrize(
    ("noted", "inside"),
    [
        (
            [IN_NONE, "/v/site-packages/x/a.py:3", "/v/site-packages/x/a.py:3"],
            {"/v/site-packages/x/a.py:3": 2},
        ),
        ([IN_NONE] * 3, {}),
        # The whole program is a package.
        ([READ] * 3, {}),
        ([None] * 3, None),
    ],
)
def test_a_read_knows_which_line_of_a_library_makes_it(read, noted, inside):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number, place in enumerate(noted):
        at = number * 1_000
        python.event("train_step", at, 1_000, _r=1, step_num=number, tpuprof="step", origin="user")
        facts = {"call": "item", "source": READ, **({INSIDE: place} if place else {})}
        python.event("tpuprof.host_read", at + 100, 200, tpuprof="host_read", **facts)
    (found,) = read(trace).host_reads
    assert found.inside == inside
