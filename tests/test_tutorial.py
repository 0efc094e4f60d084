"""The tutorial's program, for real: each capture has the first finding that the page shows, until none is left."""

import re
import sys
from pathlib import Path

import pytest

from tests import scripts
from tpuprof.analysis.analyze import analyze_run

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
PROGRAM = PAGE.parent / "examples" / "unit_mmf.py"
FIXES = {"first": "", "second": "input", "third": "input,fallback", "fourth": "input,fallback,reads"}


def shown(name):
    """The rule of the first finding that the page shows for a run, empty for none."""
    block = PAGE.read_text("utf-8").split(f"$ tpuprof analyze case/{name}")[1].split("```")[0]
    found = re.search(r"^1\. (?:.*\n)+?.*\[([a-z-]+), \w+ confidence\]", block, re.MULTILINE)
    return found[1] if found else ""


def test_the_page_shows_a_finding_of_each_fault_in_turn():
    assert [shown(name) for name in FIXES] == ["input-starved", "aten-fallback", "device-to-host-sync", ""]


@pytest.mark.slow("captures a model that compiles for 20 seconds")
@pytest.mark.torch_xla
@pytest.mark.parametrize("name", FIXES)
def test_the_first_finding_is_the_one_of_the_page(tmp_path, name):
    done = scripts.capture(tmp_path / "run", sys.executable, PROGRAM, "--fix", FIXES[name])
    assert done.returncode == 0, done.stderr
    failed = [each.rule for each in analyze_run(tmp_path / "run").findings if each.status == "failed"]
    if not shown(name):
        # What the three fixes are for is gone.
        assert {"input-starved", "aten-fallback", "device-to-host-sync"} & set(failed) == set()
    else:
        # Of the second, each of two causes hides behind the other, and they cost about as much.
        assert shown(name) in failed[: 2 if name == "second" else 1]
