"""A capture of a program that failed says so: what it holds may be a start in which nothing was trained."""

import json

import pytest

from tpuprof.capture.interim import NO_STEP, UNENDED, tell_end

HOW = "the program failed with exit status 1 (TypeError: unhashable type)"


@pytest.mark.parametrize(
    ("notes", "captured", "told"),
    [
        ([], 8, [HOW]),
        # Recorded by the clock: an optimizer's first compiles were "15 steps", with a finding of high confidence.
        (["a note"], None, ["a note", f"{HOW}; {NO_STEP}"]),
        ([UNENDED], None, [f"{HOW}: what it did after the recording is unknown"]),
    ],
)
def test_how_a_program_ended_is_a_warning_of_its_capture(tmp_path, notes, captured, told):
    path = tmp_path / "tpuprof" / "run.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"warnings": notes, "capture": {"name": "one", "steps_captured": captured}}))
    tell_end(tmp_path, "another", HOW)
    assert json.loads(path.read_text())["warnings"] == notes
    tell_end(tmp_path, "one", HOW)
    assert json.loads(path.read_text())["warnings"] == told
