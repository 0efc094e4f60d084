"""An analysis imports nothing that only slows its start."""

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
# numpy's masked arrays are imported by its unique, isin, median and percentile, and used by none of them here.
CODE = """
import sys
from tpuprof.analysis.analyze import analyze_run
analyze_run(sys.argv[1])
print({"numpy.ma", "rich", "torch", "dash"} & set(sys.modules))
"""


@pytest.mark.parametrize("name", ["recompile_shapes", "decoder_scan", "decoder_fsdpv2"])
def test_an_analysis_stays_light(name):
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(SAMPLES / name)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
