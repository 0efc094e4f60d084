"""Why each recompile of a real run happened, and which line made it so: eight reasons, and three in one run."""

import re
import sys

import pytest

from tests import scripts
from tpuprof.analysis.analyze import analyze_run

pytestmark = pytest.mark.torch_xla

SCRIPT = scripts.ROOT / "scenarios" / "compile_causes" / "train.py"
# The kind and words that each reason must be told with.
TOLD = {
    "shape": ("shape", "f32[8,24] became f32[8,32]"),
    "dtype": ("dtype", "f32[8,24] became bf16[8,24]"),
    "constant": ("constant", "[1:17:1]} became {[0:8:1],[3:19:1]"),
    "sharding": ("sharding", "{replicated} became {devices=[4,1]}"),
    "op": ("graph", "more"),
    "last_batch": ("shape", "the last, shorter batch of an epoch"),
    "eval": ("graph", "as in evaluation after training"),
    "parameters": ("graph", "fewer"),
}


def planted_line(reason):
    """The line of the script that carries the reason's comment."""
    for number, line in enumerate(SCRIPT.read_text().splitlines(), 1):
        found = re.search(r"# recompiles: (.*)", line)
        if found and reason in found.group(1).split(", "):
            return number
    raise AssertionError(reason)


def compiles(folder, *reasons):
    options = ["--source-lines", "--steps", "22"]
    done = scripts.capture(folder, sys.executable, SCRIPT, *reasons, options=options)
    assert done.returncode == 0, done.stderr
    return analyze_run(folder).compiles


@pytest.mark.parametrize("reason", TOLD)
@pytest.mark.slow("eight real captures; three of the reasons are in one below")
def test_each_reason_and_its_line(tmp_path, reason):
    (row,) = compiles(tmp_path, reason)
    kind, words = TOLD[reason]
    assert row.cause.kind == kind
    assert words in row.cause.detail
    assert row.cause.source_file == str(SCRIPT)
    assert row.cause.source_line == planted_line(reason)


def test_three_reasons_in_one_run(tmp_path):
    reasons = ("shape", "constant", "op")
    rows = compiles(tmp_path, *reasons)
    assert [row.step for row in rows] == [12, 15, 18]
    for reason, row in zip(reasons, rows, strict=True):
        assert (row.cause.kind, row.cause.source_line) == (TOLD[reason][0], planted_line(reason))
