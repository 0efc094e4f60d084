"""Installing needs no compiler: without one, the package is built without its native reader and reads all the same."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_COPIED = ("__pycache__", "*.so", "*.egg-info", "build", "_xspace.c", "artifacts", "runs")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the sources with a compiler that always fails."""
    pytest.importorskip("setuptools")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("tpuprof", "dashboard", "sample_traces"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns(*NOT_COPIED))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            str(out),
            str(source),
        ],
        env={**os.environ, "CC": "/bin/false", "CXX": "/bin/false", "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("tpuprof-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(installed, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "tpuprof", *arguments],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=installed,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_wheel_has_no_native_reader_and_no_sources_of_it(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "tpuprof/decode/xplane_protobuf.py" in names
    assert [name for name in names if name.endswith((".so", ".pyx", ".c", ".h"))] == []


def test_the_wheel_has_the_line_that_finds_a_capture(wheel):
    with zipfile.ZipFile(wheel) as archive:
        line = archive.read("tpuprof_capture.pth").decode()
    assert line.startswith("import os; ")
    assert line.count("\n") == 1


def test_it_analyses_with_protobuf(installed, samples):
    done = run(installed, "analyze", "--json", "--no-cache", str(samples / "recompile_shapes"))
    assert done.returncode == 0, done.stderr
    native = run(ROOT, "analyze", "--json", "--no-cache", str(samples / "recompile_shapes"))
    assert done.stdout == native.stdout


def test_doctor_says_which_reader_is_in_use(installed):
    line = next(each for each in run(installed, "doctor").stdout.splitlines() if "XPlane reader" in each)
    assert "protobuf" in line
