"""Compiles of reads that no call of the program asks for: samples show their lines, not the step's graph cut."""

import json

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.analysis.sections.compiles import _cause
from tpuprof.model.compile.cause import CompileCause
from tpuprof.model.compile.compiles import Compile
from tpuprof.model.compile.in_reads import ON_HOST
from tpuprof.model.host.reads import IMPLICIT

CUT, READ = "train (train.py:20)", "train.py:25"
SAMPLE = {"call": "step()", "source": READ, "frames": f"train ({READ})", "user_call": "step()"}


def run(folder, *, transfer=True, sampled=True, counters=None):
    """Eight steps with a graph cut each, and in the fourth one a compile before it, which a transfer may follow."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    records = []
    for number in range(8):
        at = number * 100_000
        python.event("train_step", at, 100_000, _r=1, step_num=number, tpuprof="step", origin="user")
        if number == 3:
            python.event("XLAGraphExecutor::Compile", at + 1_000, 30_000, graph_hash="read")
            if sampled:
                trace.sampled(at, 40_000, cpu=39_000, ops=0, stack=1, **SAMPLE)
            if transfer:
                python.event("PjRtComputationClient::TransferFromDevice", at + 32_000, 1_000)
        python.event(
            "tpuprof.graph_cut", at + 50_000, 40_000, tpuprof="graph_cut", call="sync", source="train.py:20"
        )
        python.event("StepMarker", at + 50_000, 50)
        python.event("XLAGraphExecutor::Compile", at + 50_100, 30_000, graph_hash=f"hash{number}")
        compiles = [{"graphs": 1, "seconds": 0.05, "frames": [CUT]}]
        records.append(
            {
                "step": number, "wall_ns": 10**8, "captured": True, "counters": counters or {"MarkStep": 1},
                "compiles": compiles,
            }
        )  # fmt: skip
    trace.write(folder / "plugins" / "profile" / "one" / "host.xplane.pb")
    notes = folder / "tpuprof"
    notes.mkdir()
    (notes / "run.json").write_text(json.dumps({"schema": "tpuprof.run/1", "warnings": []}))
    (notes / "telemetry.host.0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    return analyze_run(folder)


@pytest.mark.parametrize(
    ("given", "frames"),
    [
        ({}, [f"{IMPLICIT} ({READ})"]),
        ({"sampled": False}, [IMPLICIT]),
        ({"counters": {"MarkStep": 1, "aten::median": 1}}, [f"{ON_HOST} ({READ})"]),
        # What no transfer follows is not known to be a read.
        ({"transfer": False}, [CUT]),
    ],
    ids=["read", "unsampled", "fallback", "no transfer"],
)
def test_a_compile_before_a_read_that_nobody_asks_for_is_of_that(tmp_path, given, frames):
    """14 of 15 compiles of L-BFGS were in reads that C++ code makes, and were said of the line of `sync()`."""
    rows = run(tmp_path, **given).compiles
    (read,) = (row for row in rows if row.graph_hash == "read")
    assert read.frames == frames
    assert read.in_read is (frames != [CUT])
    assert {(*row.frames, row.in_read) for row in rows if row is not read} == {(CUT, False)}


@pytest.mark.parametrize(
    ("changed", "line"),
    [("s64[287,2] became s64[277,2] (2 times)", "fps.py:20"), ("f32[8,40] became f32[8,44]", "fps.py:17")],
)
def test_a_program_for_another_count_of_a_mask_is_of_the_line_that_selects(changed, line):
    """`distance[mask] = dist[mask]` compiled 58 times, "at" the line before it, whose shapes never change."""
    cause = CompileCause("shape", f"2 inputs changed: {changed}", "fps.py:17")
    frames = [f"{ON_HOST} (fps.py:20)"]
    found = _cause(Compile(0, "", "", 0, 1, cause, tuple(frames), in_read=True), frames, {}, None)
    assert f"{found.source_file}:{found.source_line}" == line
