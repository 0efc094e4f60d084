"""XProf's own numbers for a profile, through its Python package; run as a script, it prints them as JSON.

A process of its own, because xprof brings its own copies of libraries that torch and jax bring too.
"""

import json
import subprocess
import sys


def step_times(path):
    """Step times in ms by step number, as XProf's input-pipeline analysis states them."""
    done = subprocess.run(
        [sys.executable, __file__, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    return {int(number): ms for number, ms in json.loads(done.stdout.splitlines()[-1]).items()}


def _main(path):
    from xprof.convert import raw_to_tool_data

    data, _ = raw_to_tool_data.xspace_to_tool_data([path], "input_pipeline_analyzer", {})
    table = json.loads(data)[1]
    columns = [column["id"] for column in table["cols"]]
    times = {}
    for row in table["rows"]:
        values = dict(zip(columns, [cell["v"] for cell in row["c"]], strict=True))
        times[values["stepnum"].split()[-1]] = values["stepTimeMs"]
    print(json.dumps(times))


if __name__ == "__main__":
    _main(sys.argv[1])
