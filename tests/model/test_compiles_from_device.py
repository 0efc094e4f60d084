"""Recompiles seen from the device alone: a new fingerprint under an old graph name."""

import json

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.compile.compiles import COMPILE_FROM_PS, INFERRED
from tpuprof.units import PS_PER_US


def trace_of(pause_us, program="SyncTensorsGraph.77(9)"):
    """Six steps of 1 ms of one program, then a pause and another program, then the first again."""
    trace = TraceBuilder()
    begins = [1000 * i for i in range(6)]
    other = 6000 + pause_us
    later = [other + 1000 * (i + 1) for i in range(4)]
    trace.host().line("python").repeat("train", [*begins, 6000, *later], 1000, _r=1)
    modules = trace.tpu(0).line("XLA Modules")
    modules.repeat("SyncTensorsGraph.12(7)", begins, 1000)
    modules.event(program, other, 1000)
    modules.repeat("SyncTensorsGraph.12(7)", later, 1000)
    return trace


@pytest.mark.parametrize(("more", "count"), [(-1, 0), (1, 1)])
def test_a_new_fingerprint_after_a_pause(analyze, more, count):
    pause = COMPILE_FROM_PS / PS_PER_US + more
    rows = analyze(trace_of(pause)).compiles
    assert len(rows) == count
    if rows:
        assert rows[0].program == "SyncTensorsGraph.77(9)"
        assert rows[0].duration_ms == pytest.approx(pause / 1000)


def test_another_graph_is_no_recompile(analyze):
    assert analyze(trace_of(50_000, "Evaluate.3(9)")).compiles == []


def test_a_compile_that_nothing_else_shows_is_said_to_be_inferred(analyze):
    (row,) = analyze(trace_of(50_000)).compiles
    assert row.cause.detail.endswith(INFERRED)


def with_torch_xla(handed_over):
    """The same where the host's events are there, with a hand-over at that time (us)."""
    trace = trace_of(50_000)
    line = trace.host().line("python")
    line.event("SyncLiveTensorsGraph", handed_over, 300).event(
        "ScheduleSyncTensorsGraph", handed_over + 200, 90
    )
    return trace


@pytest.mark.parametrize(("called", "count"), [(55_500, 0), (4_000, 1)])
def test_a_call_of_jax_without_a_compile_event_compiled_nothing(analyze, called, count):
    """A width that came before the capture was "step 5, 30.1 ms, inferred", of a step of 18.9 ms."""
    trace = trace_of(50_000)
    trace.host().line("python").event("PjitFunction(step)", called, 600).event(
        "ParseArguments", called + 10, 10
    )
    assert len(analyze(trace).compiles) == count


@pytest.mark.parametrize(("handed_over", "count"), [(55_500, 0), (4_000, 1)])
def test_a_hand_over_without_a_compile_event_shows_that_the_host_traced(analyze, handed_over, count):
    """A program that takes turns with others is traced again each time: the device idles meanwhile."""
    assert len(analyze(with_torch_xla(handed_over)).compiles) == count


@pytest.fixture
def noted(tmp_path):
    """The compiles of that trace, of whose captured steps (by number) the process noted these compiles and counters."""

    def found(compiles, counters, earlier=0):
        trace_of(50_000).write(tmp_path / "run" / "plugins" / "profile" / "one" / "host.xplane.pb")
        first = {"step": -1, "wall_ns": 1, "captured": False, "counters": {}}
        first["compiles"] = [{"graphs": earlier, "seconds": 1.0, "frames": []}] if earlier else []
        records = [
            {
                "step": row,
                "wall_ns": 10**6,
                "captured": True,
                "counters": counters,
                "compiles": [{"graphs": 1, "seconds": 1.0, "frames": []}] if row in compiles else [],
            }
            for row in range(11)
        ]
        notes = tmp_path / "run" / "tpuprof"
        notes.mkdir()
        (notes / "run.json").write_text(json.dumps({"schema": "tpuprof.run/1", "warnings": []}))
        lines = [json.dumps(row) + "\n" for row in [first, *records]]
        (notes / "telemetry.host.0.jsonl").write_text("".join(lines))
        return analyze_run(tmp_path / "run").compiles

    return found


# The program runs for the first time in step 6, and the host may have run ahead.
@pytest.mark.parametrize(("compiles", "count"), [([], 0), ([6], 1), ([4], 1), ([8], 0)])
def test_what_the_steps_noted_tells_whether_one_compiled(noted, compiles, count):
    assert len(noted(compiles, {"CachedCompile": 1})) == count


@pytest.mark.parametrize(("earlier", "count"), [(0, 1), (1, 0)])
def test_a_process_that_notes_neither_graphs_nor_compiles_cannot_tell(noted, earlier, count):
    assert len(noted([], {}, earlier)) == count
