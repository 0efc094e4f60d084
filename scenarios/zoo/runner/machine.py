"""What a result was measured with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from runner.execute import ROOT

_ALWAYS = ("torch", "torch_xla", "jax")


def versions(libraries: list[str]) -> dict[str, str]:
    """Versions of the libraries that every program uses, and of these."""
    found = {}
    for name in (*_ALWAYS, *libraries):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """Processor, number of cores, and system."""
    info = Path("/proc/cpuinfo")
    rows = info.read_text("utf-8").splitlines() if info.is_file() else []
    named = [row.partition(":")[2].strip() for row in rows if row.startswith("model name")]
    return f"{named[0] if named else platform.processor()}, {os.cpu_count()} cores, {platform.system()}"


def revision() -> str:
    """The commit that is checked out; empty outside a repository."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
