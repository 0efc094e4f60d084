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
def source(tmp_path_factory):
    """A copy of the sources."""
    pytest.importorskip("setuptools")
    copy = tmp_path_factory.mktemp("source")
    for name in ("tpuprof", "dashboard", "sample_traces"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns(*NOT_COPIED))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, copy)
    return copy


def built(command, source):
    """Run a build in the copy with a compiler that always fails."""
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "CC": "/bin/false", "CXX": "/bin/false", "PIP_NO_INDEX": "1"},
        cwd=source,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    """A wheel."""
    out = tmp_path_factory.mktemp("wheel")
    built(["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(out), str(source)], source)
    return next(out.glob("tpuprof-*.whl"))


@pytest.fixture(scope="module")
def editable(source, tmp_path_factory):
    """What `pip install -e .` installs."""
    out = tmp_path_factory.mktemp("editable")
    built(["-c", f"from setuptools import build_meta; build_meta.build_editable({str(out)!r})"], source)
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


@pytest.mark.parametrize(
    "kind", ["wheel", pytest.param("editable", marks=pytest.mark.slow("a second build"))]
)
def test_both_installs_have_the_line_that_finds_a_capture(kind, request):
    with zipfile.ZipFile(request.getfixturevalue(kind)) as archive:
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
