"""Values that the quick JSON writer does not take come out all the same."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tpuprof.analysis.analyze import analyze_run
from tpuprof.report.as_json import to_json
from tpuprof.report.schema import SourceRow

SAMPLE = Path(__file__).resolve().parents[2] / "sample_traces" / "decoder_loop"


@pytest.mark.parametrize("count", [2**63, 2**64, -(2**70)])
def test_integers_beyond_64_bits(count):
    report = replace(
        analyze_run(SAMPLE), sources=[SourceRow("a.py:1", count, 1.5), SourceRow("b.py:2", 3, 0.1)]
    )
    rows = json.loads(to_json(report))["sources"]
    assert [row["source"] for row in rows] == ["a.py:1", "b.py:2"]
    assert count in rows[0].values()


def test_half_of_a_surrogate_pair_in_a_name():
    report = replace(analyze_run(SAMPLE), sources=[SourceRow("\ud800.py:1", 1, 1.5)])
    assert json.loads(to_json(report))["sources"][0]["source"] == "\ud800.py:1"


def test_what_a_terminal_would_obey_is_escaped():
    name = "\x1b[31m\x9b31m\u202e\u2028\x7f\xe9"
    text = to_json(replace(analyze_run(SAMPLE), sources=[SourceRow(name, 1, 1.5)], warnings=[name]))
    assert text.isascii()
    assert "\x1b" not in text
    assert json.loads(text)["sources"][0]["source"] == json.loads(text)["warnings"][0] == name
