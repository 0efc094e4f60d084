"""What the terminal says of why: one line a section, nothing where a section has nothing."""

from pathlib import Path

import pytest

from tpuprof.analysis.analyze import analyze_run
from tpuprof.render.facts import fact_lines

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def facts():
    kept = {}

    def of(name):
        if name not in kept:
            kept[name] = {}
            for subject, line in fact_lines(analyze_run(SAMPLES / name)):
                kept[name].setdefault(subject, []).append(line)
        return kept[name]

    return of


def test_tracing_and_scans(facts):
    (line,) = facts("decoder_scan")["Tracing"]
    assert "Python and dispatch " in line
    assert "scans are traced again once per step" in line


def test_loops_with_their_iterations(facts):
    backward, forward = facts("decoder_scan")["Loops and layers"]
    assert backward.startswith("backward while.9: 4 iterations of ")
    assert forward.startswith("forward while.7: 4 iterations of ")


def test_repeated_layers(facts):
    (line,) = facts("decoder_loop")["Loops and layers"]
    assert line.startswith("3 equal layers (layers.*) with 12 matrix multiplications each")


def test_input(facts):
    (line,) = facts("input_starved")["Input"]
    assert line.startswith("no prefetch: training makes its own batches; a batch takes 101 ms")


def test_what_a_trace_cannot_tell_says_so(facts):
    (line,) = facts("decoder_loop")["Compute"]
    assert "unavailable" in line


def test_sections_without_anything_to_say_are_left_out(facts):
    assert (
        not {"Hosts", "Uneven steps", "Drift", "CPU fallbacks", "Compilation cache"}
        & facts("decoder_loop").keys()
    )


@pytest.mark.shared_traces
def test_memory_of_the_v6e(shared_traces):
    lines = dict(fact_lines(analyze_run(shared_traces / "tpu_v6e_host_offload")))
    assert lines["Memory"].startswith("20.0 GiB of 31.2 GiB per device")
    assert "beside it in host memory 15.0 GiB" in lines["Memory"]
