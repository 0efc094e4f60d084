"""Puts preflight's interception into a training script's process, without a change to the script.

The launcher puts this folder first on PYTHONPATH and sets TPUPROF_PREFLIGHT; a sitecustomize further along
sys.path still runs. Nothing is imported here until the script itself imports torch_xla.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types


def _chain() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


class _Loader(importlib.abc.Loader):
    """Runs torch_xla's own loader, then installs the interception."""

    def __init__(self, inner: importlib.abc.Loader) -> None:
        self._inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        # A script that sets PJRT_DEVICE=TPU for itself would wait for a TPU that is not there.
        os.environ["PJRT_DEVICE"] = "CPU"
        self._inner.exec_module(module)
        from tpuprof.preflight import intercept

        intercept.install(os.environ["TPUPROF_PREFLIGHT"])


class _Finder(importlib.abc.MetaPathFinder):
    """Finds torch_xla once, through the other finders, and wraps its loader."""

    def find_spec(
        self,
        fullname: str,
        path: object = None,  # noqa: ARG002
        target: object = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch_xla":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


_chain()
if os.environ.get("TPUPROF_PREFLIGHT"):
    sys.meta_path.insert(0, _Finder())
