"""`tpuprof demo`, with torch_xla and without."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests import scripts

ROOT = Path(__file__).resolve().parents[2]
# Stands for an environment without torch: modules that refuse to be imported or found.
HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torch_xla", "jax", "tensorboard"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name.split(".")[0] in ("torch", "torch_xla") else find(name, *more)
sys.argv = ["tpuprof", *sys.argv[1:]]
from tpuprof.cli.main import main
main()
"""


def test_without_torch_it_reads_a_sample_and_says_so(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", HIDE, "demo"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "torch_xla is not installed" in done.stdout
    assert "Compile-bound" in done.stdout


@pytest.mark.slow("builds and installs a wheel")
def test_a_wheel_brings_the_sample_and_analyses_without_torch(tmp_path):
    """Build the wheel, install it alone into a new environment (its dependencies from this one), run it."""
    wheels = tmp_path / "wheels"
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(wheels),
    ]
    subprocess.run([*command, str(ROOT)], check=True, timeout=300, capture_output=True)
    venv.create(tmp_path / "env", with_pip=False, system_site_packages=False)
    wheel = next(wheels.glob("tpuprof-*.whl"))
    target = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)],
        check=True,
        timeout=300,
        capture_output=True,
    )
    assert (target / "tpuprof" / "_samples" / "recompile_shapes" / "tpuprof" / "run.json").is_file()
    assert (target / "tpuprof" / "capture" / "hook" / "sitecustomize.py").is_file()
    assert (target / "tpuprof_dashboard" / "__init__.py").is_file()
    code = f"import sys; sys.path.insert(0, {str(target)!r})\n" + HIDE
    done = subprocess.run(
        [sys.executable, "-c", code, "demo"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert "Compile-bound" in done.stdout, done.stderr


@pytest.mark.torch_xla
@pytest.mark.slow("another real capture; `make demo` runs it too")
def test_with_torch_xla_it_trains_captures_and_explains(tmp_path):
    pytest.importorskip("torch_xla")
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "demo", "-o", str(tmp_path / "demo")],
        env=scripts.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "Compile-bound" in done.stdout
    assert "run.json" in done.stdout
    assert "plugins/profile" in done.stdout
