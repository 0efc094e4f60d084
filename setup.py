"""Builds the native modules where a compiler is installed; adds the demo's sample and capture's .pth file to the wheel.

They are optional: without Cython or a compiler the build says so and goes on. tpuprof then reads with protobuf,
computes with numpy, and leaves garbage collections out of captures. All else about the build is in pyproject.toml.
"""

import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
SAMPLE = "recompile_shapes"
# Python runs this line at its start. Where no capture runs it looks at one variable and one folder (the one that
# marker.py names) and imports nothing.
START_FILE = "tpuprof_capture.pth"
START_LINE = (
    'import os; (os.environ.get("TPUPROF_CAPTURE") or os.path.isdir("/tmp/tpuprof-captures-%d" '
    '% getattr(os, "geteuid", int)())) and __import__("tpuprof.capture.at_start", fromlist=["start"]).start()\n'
)
# Each with the C files and headers that lie beside it.
NATIVE = {
    "tpuprof/capture/_in_time": ["_watched_end.c", "_watched_end.h"],
    "tpuprof/decode/_xspace": ["_xspace.h"],
    "tpuprof/decode/_mapped": ["_mapped.h"],
    "tpuprof/decode/_chrome": [],
    "tpuprof/model/_nesting": [],
    "tpuprof/model/_op_sums": [],
    "tpuprof/model/_sweeps": [],
    "tpuprof/share/_cut": ["_fields.h"],
    "tpuprof/share/_telling": [],
    "tpuprof/share/_wire": ["_fields.h"],
    "tpuprof/simulate/_replay": [],
    "tpuprof/instrument/_counted": ["_counted.h"],
    "tpuprof/instrument/_frameless": [],
    "tpuprof/instrument/_gc_events": [],
    "tpuprof/instrument/_prompt_wait": ["_python_inside.c", "_python_inside.h"],
}


class BuildWithSample(build_py):
    """Add the sample and the .pth file when a wheel is built; an editable install reads the checkout's sample."""

    def run(self) -> None:
        """Build, then add both."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "tpuprof" / "_samples" / SAMPLE
            shutil.copytree(ROOT / "sample_traces" / SAMPLE, target, dirs_exist_ok=True)
            (Path(self.build_lib) / START_FILE).write_text(START_LINE, "ascii")


class EditableWithStart(editable_wheel):
    """Add the .pth file to an editable install, which has no other way to be found where PYTHONPATH is lost."""

    def _run_build_commands(self, dist_name, unpacked_wheel, *others):  # type: ignore[no-untyped-def]  # setuptools's own
        """Build, then add it to what is installed."""
        built = super()._run_build_commands(dist_name, unpacked_wheel, *others)
        (Path(unpacked_wheel) / START_FILE).write_text(START_LINE, "ascii")
        return built


class BuildIfPossible(build_ext):
    """Build the native modules; where that fails, say so and leave them out."""

    def run(self) -> None:
        """Build all extensions, none of which is needed."""
        try:
            super().run()
        except Exception as error:  # whatever is missing, installing must not fail for it
            print(f"tpuprof: no native modules ({type(error).__name__}: {error}); protobuf reads instead")
            self.extensions = []


def native() -> list[Extension]:
    """The native modules, none where Cython is missing."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        print("tpuprof: no native modules (Cython is missing); protobuf reads instead")
        return []
    extensions = [
        Extension(
            path.replace("/", "."),
            [f"{path}.pyx", *(str(Path(path).parent / file) for file in files if file.endswith(".c"))],
            depends=[str(Path(path).parent / file) for file in files],
            include_dirs=[str(Path(path).parent)],
            optional=True,
        )
        for path, files in NATIVE.items()
    ]
    try:
        return list(cythonize(extensions, build_dir="build"))
    except Exception as error:  # a Cython too old for this source must not keep tpuprof from being installed
        print(f"tpuprof: no native modules ({type(error).__name__}); protobuf reads instead")
        return []


setup(
    cmdclass={
        "build_py": BuildWithSample,
        "build_ext": BuildIfPossible,
        "editable_wheel": EditableWithStart,
    },
    ext_modules=native(),
    exclude_package_data={"": ["*.c", "*.h", "*.pyx"]},
)
