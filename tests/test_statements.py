"""docs/statements.md is true today: what it quotes of the real TPU traces is in their reports, and its tests exist."""

import io
import json
import re
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from tpuprof.analysis.analyze import analyze_run
from tpuprof.render.content import stake
from tpuprof.render.text import render
from tpuprof.report.as_json import to_json

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "statements.md").read_text("utf-8")
# How the page calls a trace, and its folder.
TRACES = {"v6e": "tpu_v6e_host_offload", "tpu_vllm_qwen3": "tpu_vllm_qwen3"}


def rows():
    """(trace, output now) of each statement about a real trace."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines()]
    return [
        (name, row[3])
        for row in cells
        if len(row) == 4
        for name in TRACES
        if name in [each.strip() for each in row[1].split(",")]
    ]


QUOTES = [(name, quote) for name, output in rows() for quote in re.findall(r'"([^"]+)"', output)]


@cache
def said(folder):
    """All that a trace's report says, in every form."""
    report = analyze_run(folder)
    console = Console(file=io.StringIO(), width=1000)
    render(report, console)
    parts = [
        json.dumps(json.loads(to_json(report)), ensure_ascii=False).replace('\\"', '"'),
        console.file.getvalue(),
        *(stake(each) for each in report.findings),
    ]
    return " ".join(" ".join(parts).split())


@pytest.mark.shared_traces
@pytest.mark.parametrize(("name", "quote"), QUOTES)
def test_what_the_page_quotes_of_a_real_trace_is_said(shared_traces, name, quote):
    assert quote.rstrip("… ") in said(shared_traces / TRACES[name])


def test_the_page_quotes_real_traces():
    assert {name for name, _ in QUOTES} == set(TRACES)


def test_the_tests_that_the_page_names_exist():
    named = set(re.findall(r"\btest_\w+\.py\b", PAGE))
    assert named
    assert named <= {path.name for path in (ROOT / "tests").rglob("test_*.py")}


def test_all_twelve_statements_are_listed():
    numbers = [int(found) for found in re.findall(r"^\| (\d+) \|", PAGE, re.M)]
    assert numbers == list(range(1, 13))
