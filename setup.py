"""Puts the demo's sample trace into the package, so that `tpuprof demo` has one where torch_xla is missing.

All else about the build is in pyproject.toml; the sample stays where the other samples are in the checkout.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
SAMPLE = "recompile_shapes"


class BuildWithSample(build_py):
    """Copy the sample beside the modules when a wheel is built; an editable install reads the checkout's."""

    def run(self) -> None:
        """Build, then add the sample."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "tpuprof" / "_samples" / SAMPLE
            shutil.copytree(ROOT / "sample_traces" / SAMPLE, target, dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithSample})
