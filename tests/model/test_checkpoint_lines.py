"""A checkpoint is all that is in it, and its line is the one that samples inside it show."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.sections.host_stacks import host_stack_rows

SAVE, BACKWARD = ("/home/u/train.py:9", "torch.save(state)"), ("/home/u/train.py:5", "loss.backward()")


def words(line, number):
    source, call = line
    frames = f"train ({source})"
    return {"stack": number, "frames": frames, "call": call, "source": source, "user_call": call}


def saving(*, looks_inside=True):
    """A step of 40 ms that begins with a checkpoint of 19 ms, half of it a read; a look into it, and one after it."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.event("train_step", 0, 40_000, _r=1, step_num=0)
    python.event("tpuprof.checkpoint", 1_000, 19_000, tpuprof="checkpoint")
    python.event("tpuprof.host_read", 5_000, 9_500, tpuprof="host_read", call="cpu", source=SAVE[0])
    python.event("StepMarker", 39_990, 10)
    at = 0
    if looks_inside:
        trace.sampled(0, 8_000, ops=0, **words(SAVE, 1))
        at = 8_000
    trace.sampled(at, 22_000 - at, ops=100, **words(BACKWARD, 2))
    trace.sampled(22_000, 17_000, ops=800, **words(BACKWARD, 2))
    return trace


def test_what_a_checkpoint_reads_is_the_checkpoint(read):
    parts = {name: column[0] / 1e9 for name, column in read(saving()).breakdown.parts.items() if column[0]}
    assert parts["user:checkpoint"] == pytest.approx(19.0)
    assert "device_to_host_sync" not in parts


def test_all_of_a_checkpoint_is_at_the_line_that_a_look_into_it_shows(read):
    rows = host_stack_rows([read(saving())])
    saved = {row.source: row.exposed_ms_per_step for row in rows if row.part == "user:checkpoint"}
    assert saved == {SAVE[0]: pytest.approx(19.0)}
    # Nothing is counted twice.
    assert sum(row.exposed_ms_per_step + row.hidden_ms_per_step for row in rows) < 40.0


def test_a_checkpoint_that_no_look_came_into_is_at_the_line_seen_next(read):
    rows = host_stack_rows([read(saving(looks_inside=False))])
    assert {row.source for row in rows if row.part == "user:checkpoint"} == {BACKWARD[0]}
