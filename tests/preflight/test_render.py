"""What a terminal of 80 columns gets: whole words and figures, and the word predicted."""

import io

from rich.console import Console

from tests.preflight.test_combined import GIB, part
from tpuprof.preflight.iteration import Event, Search
from tpuprof.preflight.render import render, render_comparison
from tpuprof.preflight.run import Outcome, Variant
from tpuprof.preflight.script import ScriptRun, Trace

LONG = "decoder.layers.17.attention.query_projection.weight"


def outcome(label: str, arguments: int) -> Outcome:
    found = part(1, arguments)
    found.compiled.graph.parameter_names = [LONG]
    found.memory.buffers[0].name = LONG
    found.memory.buffers[0].source = "/home/me/project/models/decoder_of_the_project.py:1234"
    search = Search([Event("abc", True), Event("abc", True)])
    trace = Trace([found.compiled.graph], search, False, 1, 0, 0, {}, 1.0, barrier={"files": "overlay"})
    return Outcome(Variant(label, ScriptRun("train.py")), {(1, ""): trace}, [found])


def shown(width: int, *outcomes: Outcome) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width)
    for each in outcomes:
        render(each, console)
    render_comparison(list(outcomes), console)
    return out.getvalue().splitlines()


def test_tables_are_whole_at_80_columns():
    lines = shown(80, outcome("batch=8", GIB), outcome("train_with_rematerialisation.py", 20 * GIB))
    tables = [
        line for line in lines if not line.startswith(("  predicted", "The script", "train", "batch", "!"))
    ]
    text = "\n".join(tables)
    # No figure, verdict or heading is cut or folded.
    for word in (
        "largest buffers",
        "argument",
        "verdict",
        "does not fit",
        "1.00 ms",
        "20.0 GiB",
        "exposed",
        "MFU",
    ):
        assert word in text
    rows = [line for line in tables if "does not fit" in line and "20.0 GiB" in line]
    assert rows
    assert all(len(line) <= 80 for line in rows)
    assert "shape" not in text
    assert any("code" in line for line in shown(120, outcome("batch=8", GIB)))


def test_every_time_is_called_predicted():
    lines = shown(80, outcome("batch=8", GIB))
    assert any("predicted step 1.00 ms" in line for line in lines)
    assert any("MFU are predicted" in line for line in lines)
    assert any(line.startswith("Predicted, not measured") for line in lines)
