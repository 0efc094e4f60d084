"""`tpuprof demo`: captures a small training run with a planted fault and says what is wrong with it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

SAMPLE = "recompile_shapes"
# The device gets one thread, so that it does not take the core the host traces on.
_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to capture into.")] = Path("runs/demo"),
) -> None:
    """Train a small model with a planted fault on the CPU device, capture it, say what is wrong.

    Without torch_xla, a sample trace that ships with tpuprof is read instead.
    """
    if importlib.util.find_spec("torch_xla") is None:
        _read_sample()
        return
    typer.echo(
        "Training a small decoder on the CPU device; every third late batch is longer than all before.",
        err=True,
    )
    status = _capture(out)
    if status:
        raise typer.Exit(status)
    typer.echo("", err=True)
    _show(out)
    files = sorted(path for path in out.rglob("*") if path.is_file())
    typer.echo("\nFiles of this run:")
    for path in files:
        typer.echo(f"  {path}  ({path.stat().st_size:,} bytes)")
    typer.echo(f"\nTry: tpuprof analyze {out} --json    tpuprof tensorboard {out}")


def _capture(out: Path) -> int:
    # The fault comes back every third step, so training is never without compiles: do not wait for that.
    command = [
        sys.executable,
        "-m",
        "tpuprof",
        "capture",
        "--force",
        "--warmup",
        "10",
        "--steps",
        "8",
        "-o",
        str(out),
    ]
    command += ["--", sys.executable, "-m", "tpuprof.demo.train"]
    flags = f"{os.environ.get('XLA_FLAGS', '')} {_ONE_THREAD}".strip()
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "XLA_FLAGS": flags}
    return subprocess.run(command, env=environment, check=False).returncode


def _read_sample() -> None:
    folder = sample_folder(SAMPLE)
    typer.echo(
        f"torch_xla is not installed: this reads the sample trace {SAMPLE!r}, captured earlier on a CPU device."
    )
    typer.echo('Install "tpuprof[xla]" to train and capture the demo itself.\n')
    _show(folder)


def sample_folder(name: str) -> Path:
    """Where a sample trace is: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "_samples" / name
    return shipped if shipped.is_dir() else package.parent / "sample_traces" / name


def _show(path: Path) -> None:
    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.cli.terminal import console
    from tpuprof.render.text import render

    render(analyze_run(path), console())
