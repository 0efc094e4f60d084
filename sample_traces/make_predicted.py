"""Makes the predicted samples anew: traces a decoder, compiles its step with the real TPU compiler, writes runs.

    python sample_traces/make_predicted.py [NAME ...]

Needs the `xla` extra, no TPU. Each sample's EXPECTED.toml says what the model's own numbers demand; it is written
by hand from the arguments below and never from our output.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tpuprof.preflight.compiler import CompileOptions, default_cache
from tpuprof.preflight.run import Variant, parse_targets, preflight
from tpuprof.preflight.run_writer import write_run
from tpuprof.preflight.script import ScriptRun

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SCRIPT = "scenarios/preflight/decoder.py"
MODEL = ["--layers", "2", "--dim", "256", "--vocab", "1024", "--batch", "8", "--length", "512"]
TARGET = "v5e-4"
SAMPLES = {
    "predicted_decoder_loop": "loop",
    "predicted_decoder_scan": "scan",
    "predicted_decoder_fsdpv2": "fsdp",
    "predicted_decoder_offload": "offload",
}
MAX_BYTES = 1_500_000


def main(names: list[str]) -> None:
    """Make the named samples, or all."""
    # Relative paths end up in the compiled programs, which then say nothing of this machine.
    os.chdir(ROOT)
    for name in names or SAMPLES:
        make(name, SAMPLES[name])


def make(name: str, variant: str) -> None:
    """Predict one variant and put it in the place of the old sample. Raises where it is too large to keep."""
    options = CompileOptions(cache=default_cache())
    run = ScriptRun(SCRIPT, ["--variant", variant, *MODEL])
    outcome = preflight(Variant(name, run), parse_targets([TARGET], options), options, False, print)
    found = outcome.steady()[0]
    if found.schedule is None:
        raise SystemExit(f"{name}: {found.compiled.status}: {found.compiled.error}")
    with tempfile.TemporaryDirectory() as scratch:
        made = write_run(Path(scratch) / name, found, outcome.trace_of(found), [SCRIPT, *run.arguments])
        size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
        if size > MAX_BYTES:
            raise SystemExit(f"{name}: {size:,} bytes, more than the {MAX_BYTES:,} a sample may have")
        for part in ("plugins", "tpuprof"):
            shutil.rmtree(HERE / name / part, ignore_errors=True)
            shutil.copytree(made / part, HERE / name / part)
    print(f"{name}: {size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
