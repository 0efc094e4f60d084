"""Puts preflight's interception into a training script's process, without a change to the script.

The launcher puts this folder first on PYTHONPATH and sets TPUPROF_PREFLIGHT; a sitecustomize further along
sys.path still runs. Nothing is imported here until the script itself imports its framework.
"""

import errno
import importlib.machinery
import importlib.util
import os
import sys
import traceback

_FAILED = 3  # exit status: an internal error


def _chain() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _before(_: str) -> None:
    # A script that sets PJRT_DEVICE=TPU for itself would wait for a TPU that is not there.
    os.environ["PJRT_DEVICE"] = "CPU"


def _after(_: str) -> None:
    try:
        from tpuprof.preflight import intercept, options, precision, trying

        precision.pin()
        options.watch_torch_xla_meshes()
        trying.install()
        intercept.install(os.environ["TPUPROF_PREFLIGHT"])
    except Exception:
        # Without the interception the script would really train.
        traceback.print_exc()
        os._exit(_FAILED)


def _after_jax(name: str) -> None:
    try:
        from tpuprof.preflight import jax_script, options, pallas

        options.watch_jax_meshes()
        pallas.after_jax(name)
        jax_script.install(os.environ["TPUPROF_PREFLIGHT"])
    except Exception:
        # Without it the script would really train.
        traceback.print_exc()
        os._exit(_FAILED)


_followed: list[str] = []


def _after_torch(name: str) -> None:
    # A script may import torch_tpu first, which imports torch: its own import must end before it is used.
    if _followed or (name == "torch" and "torch_tpu" in sys.modules):
        return
    _followed.append(name)
    try:
        from tpuprof.preflight import torch_tpu_script

        torch_tpu_script.install(os.environ["TPUPROF_PREFLIGHT"])
    except Exception:
        # Without it the script would wait for a TPU that is not there.
        traceback.print_exc()
        os._exit(_FAILED)


class _Home:
    """Finds tpuprof where the launcher's own is: the script's environment may have none, or another one."""

    def find_spec(self, name: str, *_of: object) -> importlib.machinery.ModuleSpec | None:
        """The spec of the package `tpuprof`; the parts of it are found by its path."""
        if name != "tpuprof":
            return None
        return importlib.machinery.PathFinder.find_spec(name, [os.environ["TPUPROF_PREFLIGHT_HOME"]])


def _refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    """Close the network to Python's calls where the kernel does not close it to all."""
    if event not in {"socket.connect", "socket.sendto"}:
        return
    address = arguments[-1]
    host = address[0] if isinstance(address, tuple) else ""
    if (
        isinstance(host, str)
        and host
        and not host.startswith("127.")
        and host not in ("localhost", "::1", "0.0.0.0")
    ):
        raise OSError(
            errno.ENETUNREACH, f"tpuprof preflight keeps the network closed (--network opens it): {host}"
        )


_chain()
if os.environ.get("TPUPROF_PREFLIGHT_NETWORK") == "closed":
    sys.addaudithook(_refuse_network)
if os.environ.get("TPUPROF_PREFLIGHT"):
    sys.meta_path.insert(0, _Home())
    from tpuprof.instrument.after_import import watch
    from tpuprof.preflight.options import after_argparse

    watch(("argparse",), after_argparse)
    if os.environ.get("TPUPROF_PREFLIGHT_FRAMEWORK") == "torch_tpu":
        watch(("torch", "torch_tpu"), _after_torch)
    else:
        watch(("torch_xla",), _after, _before)
        watch(("jax",), _after_jax)
