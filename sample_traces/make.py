"""Captures the sample traces anew: runs each script on the CPU device and keeps its run folder.

    python sample_traces/make.py [NAME ...]

Needs the `xla` extra, and for TorchTPU the second environment that `make torchtpu` makes. Without it, its samples
are left as they are, and a line says so. A capture differs a little each time; what must hold of it is in its
EXPECTED.toml, which says how the script was built and is never made from our own output.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "scenarios"))

import places

# Name of the sample: its script and the script's further arguments.
SAMPLES = {
    "decoder_loop": ("decoder_loop.py",),
    "decoder_scan": ("decoder_scan.py",),
    "decoder_fsdpv2": ("decoder_fsdpv2.py",),
    "decoder_fsdpv2_scan": ("decoder_fsdpv2.py", "scan"),
    "recompile_shapes": ("recompile_shapes.py",),
    "device_to_host_sync": ("device_to_host_sync.py",),
    "input_starved": ("input_starved.py",),
    "torch_tpu/reads": ("torch_tpu/reads.py",),
    "torch_tpu/slow_input": ("torch_tpu/slow_input.py",),
    "torch_tpu/new_shapes": ("torch_tpu/new_shapes.py",),
}
MAX_BYTES = 1_500_000
# Source paths end up in the compiled programs: through this link they say nothing of the machine that captured.
NEUTRAL = Path(tempfile.gettempdir()) / "tpuprof-samples"


def main(names: list[str]) -> None:
    """Make the named samples, or all."""
    for name in names or SAMPLES:
        try:
            make(name)
        except places.AbsentError as why:
            print(f"{name}: left as it is: {why}")


def _neutral(path: Path) -> Path:
    """The same file by way of the link, if it lies in the project."""
    if not NEUTRAL.exists():
        NEUTRAL.symlink_to(ROOT)
    return NEUTRAL / path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def make(name: str) -> None:
    """Record one sample and put it in the place of the old one. Raises where it is too large to keep."""
    script, *arguments = SAMPLES[name]
    place = places.place_of(name)
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / name
        source = _neutral(HERE / "scripts" / script)
        command = [_neutral(place.python()), source, run, *arguments]
        # Python puts a script's real folder on its path, link or not, unless told to leave that out.
        path = os.pathsep.join(map(str, (NEUTRAL, source.parent)))
        own = {name: value.replace(str(ROOT), str(NEUTRAL)) for name, value in place.variables().items()}
        environment = {**os.environ, **own, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
        subprocess.run(command, check=True, timeout=600, env=environment, cwd=NEUTRAL)
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        if size > MAX_BYTES:
            raise SystemExit(f"{name}: {size:,} bytes, more than the {MAX_BYTES:,} a sample may have")
        for part in ("plugins", "tpuprof"):
            shutil.rmtree(HERE / name / part, ignore_errors=True)
            shutil.copytree(run / part, HERE / name / part)
    print(f"{name}: {size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
