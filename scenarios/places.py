"""Where the scenarios of a framework run: their folder, their Python, and the environment of their processes.

Scenarios of torch_xla lie in `scenarios/` itself, those of another framework in a folder of its own. TorchTPU needs
another torch than torch_xla, so it has a second environment, which `make torchtpu` makes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# Where the second environment is; TPUPROF_TORCHTPU names another place.
TORCH_TPU_HOME = Path(os.environ.get("TPUPROF_TORCHTPU", ROOT / ".venv-torchtpu"))
_PLUGIN = "lib/python*/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"
_BUILT = ROOT / "artifacts" / "torchtpu" / "plugin.so"
# A core for the device: one thread for Eigen's operations, and one for all others.
_ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "NPROC": "1", "OMP_NUM_THREADS": "1"}


class AbsentError(Exception):
    """A framework's scenarios cannot run here; the text says why."""


@dataclass(frozen=True)
class Place:
    """A framework's scenarios: `folder` under scenarios, and what its processes need, or AbsentError."""

    folder: str
    title: str
    python: Callable[[], Path]
    variables: Callable[[], dict[str, str]]

    @property
    def path(self) -> Path:
        """The folder with one folder a scenario."""
        return HERE / self.folder

    def names(self) -> list[str]:
        """Scenarios of the framework, as `torch_tpu/slow_input`; those of torch_xla have no folder."""
        return sorted(path.parent.relative_to(HERE).as_posix() for path in self.path.glob("*/scenario.toml"))


def _second_python() -> Path:
    python = TORCH_TPU_HOME / "bin" / "python"
    if not python.exists():
        raise AbsentError("no environment with torch_tpu: make it with `make torchtpu`")
    return python


def torch_tpu_variables() -> dict[str, str]:
    """The environment of a TorchTPU process on a CPU plugin that torch.compile works with; AbsentError without."""
    plugins = sorted(TORCH_TPU_HOME.glob(_PLUGIN))
    if not plugins:
        raise AbsentError("no CPU plugin for torch_tpu: make it with `make torchtpu`")
    return {
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TF_CPP_MIN_LOG_LEVEL": "3",
        "TPU_LIBRARY_PATH": str(_built(plugins[-1])), "TPUPROF_CPU_PLUGIN": str(plugins[-1]),
        **_ONE_THREAD,
    }  # fmt: skip


def _built(plugin: Path) -> Path:
    """Our plugin around the CPU plugin, compiled when its source changed."""
    source = HERE / "torch_tpu" / "plugin.cc"
    if _BUILT.exists() and _BUILT.stat().st_mtime > source.stat().st_mtime:
        return _BUILT
    _BUILT.parent.mkdir(parents=True, exist_ok=True)
    command = ["g++", "-O1", "-shared", "-fPIC", "-o", str(_BUILT), str(source)]
    command += ["-I", str(plugin.parent / "include"), "-ldl"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise AbsentError("no g++, which builds the plugin that torch.compile needs on a CPU") from error
    if done.returncode:
        raise AbsentError(f"the plugin for torch.compile cannot be built: {done.stderr.strip()[-200:]}")
    return _BUILT


def _python_with_jax() -> Path:
    if find_spec("jax") is None:
        raise AbsentError("no jax here")
    return Path(sys.executable)


PLACES = (
    Place("", "PyTorch/XLA", lambda: Path(sys.executable), dict),
    Place(
        "jax",
        "JAX",
        _python_with_jax,
        lambda: {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", **_ONE_THREAD},
    ),
    Place("torch_tpu", "TorchTPU", _second_python, torch_tpu_variables),
)


def place_of(name: str) -> Place:
    """The place of a scenario, by its name."""
    folder = name.rpartition("/")[0]
    return next(each for each in PLACES if each.folder == folder)


def environment(place: Place) -> dict[str, str]:
    """The environment of a scenario's processes; AbsentError where the framework cannot run here."""
    path = os.pathsep.join([str(ROOT), str(place.path), os.environ.get("PYTHONPATH", "")])
    drop = ("XLA_", "PT_XLA_", "PJRT_", "CPU_NUM_DEVICES", "TPU_", "TORCH_", "JAX_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    return {**kept, "PYTHONPATH": path, **place.variables()}
