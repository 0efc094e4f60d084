"""A command that ends at once still writes all it has to say, keeps its exit code and runs what waits for the exit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).resolve().parents[2] / "sample_traces" / "recompile_shapes"
PROGRAM = """
import atexit, sys
atexit.register(print, "registered", file=sys.stderr)
from tpuprof.cli.main import main
main()
"""


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_all_output_is_written_to_a_pipe():
    done = run("analyze", str(SAMPLE), "--json", "--no-cache")
    assert done.returncode == 0
    assert json.loads(done.stdout)["schema"].startswith("tpuprof")
    assert done.stderr == "registered\n"


@pytest.mark.parametrize("wrong", [["no-such-folder"], ["--no-such-option"]], ids=str)
def test_the_exit_code_of_errors(wrong):
    done = run("analyze", *wrong)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "registered" in done.stderr


def test_a_reader_that_has_gone():
    command = f"{sys.executable} -c '{PROGRAM}' analyze {SAMPLE} --json --no-cache | head -c 10; echo; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[-1] in ("0", "1")
