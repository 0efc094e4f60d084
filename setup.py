"""Builds the native XPlane reader where a compiler is at hand, and puts the demo's sample into the package.

The reader is optional: without Cython or a compiler the build says so and goes on, and tpuprof reads with
protobuf instead. All else about the build is in pyproject.toml.
"""

import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
SAMPLE = "recompile_shapes"
READER = "tpuprof/decode/_xspace"


class BuildWithSample(build_py):
    """Copy the sample beside the modules when a wheel is built; an editable install reads the checkout's."""

    def run(self) -> None:
        """Build, then add the sample."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "tpuprof" / "_samples" / SAMPLE
            shutil.copytree(ROOT / "sample_traces" / SAMPLE, target, dirs_exist_ok=True)


class BuildIfPossible(build_ext):
    """Build the reader; where that fails, say so and leave it out."""

    def run(self) -> None:
        """Build all extensions, none of which is needed."""
        try:
            super().run()
        except Exception as error:  # whatever is missing, installing must not fail for it
            print(f"tpuprof: no native reader ({type(error).__name__}: {error}); protobuf reads instead")
            self.extensions = []


def reader() -> list[Extension]:
    """The native reader, nothing where Cython is missing."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        print("tpuprof: no native reader (Cython is missing); protobuf reads instead")
        return []
    extension = Extension(
        READER.replace("/", "."),
        [f"{READER}.pyx"],
        depends=[f"{READER}.h"],
        include_dirs=[str(Path(READER).parent)],
        optional=True,
    )
    try:
        return list(cythonize(extension, build_dir="build"))
    except Exception as error:  # a Cython too old for this source must not keep tpuprof from being installed
        print(f"tpuprof: no native reader ({type(error).__name__}); protobuf reads instead")
        return []


setup(
    cmdclass={"build_py": BuildWithSample, "build_ext": BuildIfPossible},
    ext_modules=reader(),
    exclude_package_data={"": ["*.c", "*.h", "*.pyx"]},
)
