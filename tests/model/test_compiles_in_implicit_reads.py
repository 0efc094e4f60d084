"""Compiles of reads that no call of the program asks for: samples show their lines, not the step's graph cut."""

import pytest

from tests.model.test_compiles_in_reads import CUT, READ, steps_that_compile
from tpuprof.analysis.sections.compiles import _cause
from tpuprof.model.compile.cause import CompileCause
from tpuprof.model.compile.compiles import Compile
from tpuprof.model.compile.in_reads import ON_HOST
from tpuprof.model.host.reads import IMPLICIT

SAMPLE = {"call": "step()", "source": READ, "frames": f"train ({READ})", "user_call": "step()"}


def run(folder, *, transfer=True, sampled=True, counters=None):
    """Eight steps with a graph cut each, and in the fourth one a compile before it, which a transfer may follow."""

    def implicit(trace, python, at):
        python.event("XLAGraphExecutor::Compile", at + 1_000, 30_000, graph_hash="read")
        if sampled:
            trace.sampled(at, 40_000, cpu=39_000, ops=0, stack=1, **SAMPLE)
        if transfer:
            python.event("PjRtComputationClient::TransferFromDevice", at + 32_000, 1_000)

    return steps_that_compile(folder, implicit, 50_000, counters or {"MarkStep": 1})


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
