"""XProf's own numbers for a profile, through its Python package; run as a script, it prints them as JSON.

A process of its own, because xprof brings its own copies of libraries that torch and jax bring too.
"""

import json
import shutil
import subprocess
import sys
import tempfile


def step_times(path):
    """Step times in ms by step number, as XProf's input-pipeline analysis states them."""
    return {int(number): ms for number, ms in _ask(path, "steps").items()}


def op_totals(path):
    """(occurrences, total ms) by (program id, op), as XProf's HLO statistics state them."""
    return {(program, op): (count, ms) for program, op, count, ms in _ask(path, "ops")}


def _ask(path, what):
    done = subprocess.run(
        [sys.executable, __file__, what, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    return json.loads(done.stdout.splitlines()[-1])


def _rows(path, tool):
    from xprof.convert import raw_to_tool_data

    # XProf keeps what it computes beside the profile: it gets a copy of its own.
    with tempfile.TemporaryDirectory() as scratch:
        data, _ = raw_to_tool_data.xspace_to_tool_data([shutil.copy(path, scratch)], tool, {})
    table = json.loads(data)
    table = table[1] if tool == "input_pipeline_analyzer" else table
    columns = [column["id"] for column in table["cols"]]
    return [dict(zip(columns, [cell["v"] for cell in row["c"]], strict=True)) for row in table["rows"]]


def _steps(path):
    rows = _rows(path, "input_pipeline_analyzer")
    return {row["stepnum"].split()[-1]: row["stepTimeMs"] for row in rows}


def _ops(path):
    rows = _rows(path, "hlo_stats")
    return [
        (str(row["program_id"]), row["hlo_op_name"], int(row["occurrences"]), row["total_time"] / 1e3)
        for row in rows
    ]


if __name__ == "__main__":
    print(json.dumps({"steps": _steps, "ops": _ops}[sys.argv[1]](sys.argv[2])))
