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


def events(path):
    """(events, their time in us) by (plane, line, name), as XProf's trace viewer has them.

    It has no events without length, and lines of its own beside those of the profile.
    """
    return {(plane, line, name): (count, us) for plane, line, name, count, us in _ask(path, "events")}


def _ask(path, what):
    done = subprocess.run(
        [sys.executable, __file__, what, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    return json.loads(done.stdout.splitlines()[-1])


def _data(path, tool):
    from xprof.convert import raw_to_tool_data

    # XProf keeps what it computes beside the profile: it gets a copy of its own.
    with tempfile.TemporaryDirectory() as scratch:
        data, _ = raw_to_tool_data.xspace_to_tool_data([shutil.copy(path, scratch)], tool, {})
    return json.loads(data)


def _rows(path, tool):
    table = _data(path, tool)
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


def _events(path):
    told = _data(path, "trace_viewer")["traceEvents"]
    plane = {each["pid"]: each["args"]["name"] for each in told if each.get("name") == "process_name"}
    line = {(e["pid"], e["tid"]): e["args"]["name"] for e in told if e.get("name") == "thread_name"}
    found = {}
    for each in told:
        if each.get("ph") == "X":
            place = plane.get(each["pid"], ""), line.get((each["pid"], each["tid"]), ""), each["name"]
            count, us = found.get(place, (0, 0.0))
            found[place] = count + (each["dur"] > 0), us + each["dur"]
    return [[*place, *numbers] for place, numbers in found.items()]


if __name__ == "__main__":
    print(json.dumps({"steps": _steps, "ops": _ops, "events": _events}[sys.argv[1]](sys.argv[2])))
