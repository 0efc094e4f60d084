"""What a plain analysis imports and reads before it looks at a trace: counted, since seconds are the machine's."""

import json
import subprocess
import sys
from pathlib import Path

from tests.builders import TraceBuilder, op

# Modules of tpuprof that a plain analysis imports beside its rules, and modules of others (modules). All of ours are
# needed: the last three came where one that had grown too long became two, and with the lines of a compile's cause, of
# which one is for compiles that reads make.
MOST_OF_OURS = 273
MOST_OF_OTHERS = 330
# What a plain analysis has no use for.
LEFT_OUT = {
    "typer", "rich", "jinja2", "grpc", "pkgutil", "multiprocessing", "torch", "tpuprof.cli.main", "logging",
    "concurrent.futures", "statistics",
}  # fmt: skip
PROGRAM = """
import builtins, io, json, sys
from tpuprof.cli import process
from tpuprof.cli.entry import main
process.end = lambda code: None
read, opened = [], io.open
def noted(path, *rest, **named):
    read.append(str(path))
    return opened(path, *rest, **named)
io.open = noted
out, sys.stdout = sys.stdout, io.StringIO()
main()
json.dump({"modules": sorted(sys.modules), "read": read}, out)
"""


def started(path):
    command = [sys.executable, "-c", PROGRAM, "analyze", str(path), "--json", "--no-cache"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_a_plain_analysis_imports_what_it_needs(tmp_path):
    trace = TraceBuilder()
    trace.host().line("python").event("train_step", 0, 100, _r=1, step_num=0)
    trace.tpu(0).line("XLA Ops").event(start=0, duration=90, **op("fusion.1"))
    found = started(trace.write(tmp_path / "h.xplane.pb"))
    modules = set(found["modules"])
    assert not LEFT_OUT & modules
    # A capture that runs beside the tests has every Python of this installation look whether it is the one to record.
    ours = {
        name for name in modules if name.split(".")[0] == "tpuprof" and name.split(".")[1:2] != ["capture"]
    }
    assert len([name for name in ours if not name.startswith("tpuprof.rules.")]) <= MOST_OF_OURS
    assert len(modules - ours) <= MOST_OF_OTHERS
    # Programs that rules advise are read for findings alone.
    assert [path for path in found["read"] if path.endswith(".toml")]
    assert not [path for path in found["read"] if Path(path).name in ("after.py", "advice.toml")]
