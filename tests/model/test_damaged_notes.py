"""Notes of a run that are damaged: what they would say is missing, and the report says so."""

import shutil

import pytest

from tpuprof.analysis.analyze import analyze_run
from tpuprof.pod.analyze import analyze_pod
from tpuprof.run_folder import PROOFS


@pytest.fixture
def run(samples, tmp_path):
    return shutil.copytree(samples / "recompile_shapes", tmp_path / "run")


def told(report):
    return [
        text.partition(": ")[::2]
        for text in report.warnings
        if text.endswith("so what stands there is left out")
    ]


def test_whole_notes_are_no_matter(run):
    assert told(analyze_run(run)) == []


@pytest.mark.parametrize("cut", ["in a line", "garbage"])
def test_telemetry_that_is_damaged_is_told(run, cut):
    (path,) = (run / "tpuprof").glob("telemetry.*")
    lines = path.read_text().splitlines()
    kept = lines[:3]
    path.write_text(
        "\n".join([*kept[:2], lines[3][:20], kept[2], ""]) if cut == "in a line" else "\x00\x01{]\nabc\n"
    )
    seen = "1 of 4" if cut == "in a line" else "2 of 2"
    expected = [(f"tpuprof/{path.name}", f"{seen} lines cannot be read, so what stands there is left out")]
    assert told(analyze_run(run)) == expected
    assert told(analyze_pod(run)) == expected


def test_a_line_that_a_killed_process_left_is_no_matter(run):
    (path,) = (run / "tpuprof").glob("telemetry.*")
    path.write_text(path.read_text() + '{"step": 9')
    assert told(analyze_run(run)) == []


@pytest.mark.parametrize("text", ["[1,2]", "{", "{}"])
def test_counts_of_the_time_after_the_capture_that_are_none_are_told(run, text):
    (path,) = (run / "tpuprof").glob("telemetry.*")
    name = path.name.replace("telemetry", "after").replace(".jsonl", ".json")
    (run / "tpuprof" / name).write_text(text)
    assert told(analyze_run(run)) == [
        (f"tpuprof/{name}", "it cannot be read, so what stands there is left out")
    ]


@pytest.mark.parametrize(
    ("text", "known"), [("[1,2]", False), ("{", False), ('{"schema": "another/1"}', True)]
)
def test_a_proof_that_is_damaged_is_told(run, text, known):
    proof = run / PROOFS / "a.json"
    proof.parent.mkdir(parents=True, exist_ok=True)
    proof.write_text(text)
    assert bool(told(analyze_run(run))) is not known
