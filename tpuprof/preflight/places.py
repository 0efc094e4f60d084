"""Which Python runs a script: preflight's own, or that of the environment which has the script's framework.

torch_xla and TorchTPU need different versions of torch, so no environment has both.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.adapter import LIBRARY

TORCH_XLA, TORCH_TPU, JAX = "torch_xla", "torch_tpu", "jax"
_PLUGIN = Path("xla_plugins", "xla_cpu_pjrt", "xla_cpu_pjrt.so")
# Files of a script's own folder that are read for what they import.
_MOST_FILES = 200
_ASK_LIMIT_S = 60
# Environments as they are called beside a script.
_FOLDERS = (".venv", "venv", ".env", "env")
# Answers whether an environment has TorchTPU and torch_xla, and where its packages are. Nothing is imported.
_QUESTION = (
    "import importlib.util, json, sys; print(json.dumps([importlib.util.find_spec('torch_tpu') is not None, "
    "importlib.util.find_spec('torch_xla') is not None, sys.path]))"
)


@dataclass(frozen=True)
class Place:
    """The Python that runs a script, and the framework it has; `plugin` is the CPU plugin of TorchTPU.

    `found` says how this Python was chosen, empty where it is preflight's own. `libtpu` is the compiler that the
    script would use on a TPU, where it is another one than preflight's own.
    """

    python: str = sys.executable
    framework: str = ""
    plugin: str = ""
    found: str = ""
    libtpu: str = ""

    def compiler(self) -> dict[str, str]:
        """What the compile workers need in their environment to take the script's own libtpu."""
        return {LIBRARY: self.libtpu} if self.libtpu else {}

    def variables(self) -> dict[str, str]:
        """What the framework needs in its environment to run here."""
        if self.framework != TORCH_TPU:
            return {}
        return {
            # TorchTPU would look for a TPU on the PCI bus: preflight brings the device up itself.
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            LIBRARY: self.plugin,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            # A program that comes from a cache was never given to the compiler.
            "TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT": "",
        }


def place_for(script: str, module: bool, python: str | None) -> Place:
    """The Python that runs a script; raises `TpuprofError` where none is there that can."""
    if python is not None:
        return _given(python)
    if _wanted(_file_of(script, module)) != TORCH_TPU:
        return Place()
    if find_spec("torch_tpu") is not None:
        return Place(sys.executable, TORCH_TPU, _plugin([]))
    tried = []
    for candidate, found in _candidates(script):
        has = _ask(candidate)
        if has is not None and has[0]:
            return Place(candidate, TORCH_TPU, _plugin(has[2]), found, _libtpu(has[2]))
        tried.append(candidate)
    raise TpuprofError(
        Code.PREFLIGHT_PYTHON,
        f"{script} uses TorchTPU, and no Python was found that has torch_tpu "
        f"(tried {', '.join([sys.executable, *tried])}).",
        "Name the one that runs it: --python /path/to/environment/bin/python.",
    )


def _given(python: str) -> Place:
    # Not resolved: a virtual environment's python is a link to the one it was made from.
    path = os.path.abspath(shutil.which(python) or python)
    has = _ask(path)
    if has is None:
        raise TpuprofError(
            Code.PREFLIGHT_PYTHON,
            f"--python {python} does not run.",
            "Give the path of an interpreter, as /path/to/environment/bin/python.",
        )
    if has[0]:
        return Place(path, TORCH_TPU, _plugin(has[2]), "--python", _libtpu(has[2]))
    return Place(path, TORCH_XLA if has[1] else "", "", "--python")


def _ask(python: str) -> tuple[bool, bool, list[str]] | None:
    """Whether a Python has torch_tpu and torch_xla, and the folders of its packages; None where it does not run."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(
            [python, "-c", _QUESTION], capture_output=True, text=True, timeout=_ASK_LIMIT_S, check=False,
            env=environment, cwd="/",
        )  # fmt: skip
        tpu, xla, folders = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return None
    return bool(tpu), bool(xla), [str(each) for each in folders]


def _candidates(script: str) -> Iterator[tuple[str, str]]:
    """Pythons that a user may mean, and how each was found."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if os.environ.get(name):
            yield os.path.abspath(Path(os.environ[name], "bin", "python")), f"${name}"
    own = Path(script).resolve().parent
    for folder in (own, *own.parents):
        for name in _FOLDERS:
            if (folder / name / "bin" / "python").exists():
                yield str(folder / name / "bin" / "python"), f"{folder / name}"
    for name in ("python", "python3"):
        found = shutil.which(name)
        if found:
            yield os.path.abspath(found), f"{name} on the PATH"


def _plugin(packages: list[str]) -> str:
    """The CPU plugin: in the script's environment, or in preflight's own; raises where neither has it."""
    for folder in (*packages, *sys.path):
        path = Path(folder) / _PLUGIN
        if folder and path.is_file():
            return str(path)
    raise TpuprofError(
        Code.MISSING_EXTRA,
        "Preflight runs TorchTPU on a CPU plugin, which is not installed.",
        "pip install 'tpuprof[torchtpu]', or xla-cpu-pjrt into the script's environment.",
    )


def _libtpu(packages: list[str]) -> str:
    """The libtpu of the script's environment; empty where it has none."""
    found = (Path(folder, "libtpu", "libtpu.so") for folder in packages if folder)
    return next((str(each) for each in found if each.is_file()), "")


def _file_of(script: str, module: bool) -> Path:
    if not module:
        return Path(script)
    path = Path(*script.split("."))
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def _wanted(script: Path) -> str:
    """The framework that a script and the modules beside it use; empty where neither says.

    Where torch loads TorchTPU by itself, only the device's name shows it.
    """
    found: set[str] = set()
    named = False
    for tree in _sources(script):
        for node in ast.walk(tree):
            found.update(name.partition(".")[0] for name in _imported(node))
            named = named or (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.partition(":")[0] == "tpu"
            )
    if TORCH_XLA in found:
        return TORCH_XLA
    if TORCH_TPU in found:
        return TORCH_TPU
    if JAX in found:
        return JAX
    return TORCH_TPU if named and "torch" in found else ""


def _sources(script: Path) -> Iterator[ast.Module]:
    """The script and the modules of its folder that it imports, one after the other."""
    waiting, seen = [script], {script}
    while waiting and len(seen) <= _MOST_FILES:
        path = waiting.pop()
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        yield tree
        for name in (each for node in ast.walk(tree) for each in _imported(node)):
            base = script.parent.joinpath(*name.split("."))
            for inner in (base.with_suffix(".py"), base / "__init__.py"):
                if inner not in seen and inner.is_file():
                    seen.add(inner)
                    waiting.append(inner)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
    return []
