"""Compares an output with the one kept in tests/report/golden, and says how to keep a new one."""

import difflib
import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"
COMMAND = "TPUPROF_REBASELINE=1 python -m pytest tests/report tests/budget"


def same(name, text):
    """Assert that a text is the golden one; with TPUPROF_REBASELINE=1 it becomes that."""
    path = FOLDER / name
    if os.environ.get("TPUPROF_REBASELINE"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    kept = path.read_text("utf-8") if path.is_file() else ""
    if kept == text:
        return
    lines = list(
        difflib.unified_diff(kept.splitlines(), text.splitlines(), "golden", "now", lineterm="", n=1)
    )[:60]
    raise AssertionError("\n".join([f"{name} is not as it was. If that is meant, run:  {COMMAND}", *lines]))
