"""What a capture says of where it ran: versions, devices, flags, command line, features of the model in use."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tpuprof.instrument.state import STATE, pass_on

PACKAGES = ("torch", "torch_xla", "torch_tpu", "libtpu", "jax", "jaxlib", "torchax", "tpuprof")
_PREFIXES = (
    "XLA_",
    "PT_XLA_",
    "PJRT_",
    "TPU_",
    "LIBTPU_",
    "CPU_NUM_DEVICES",
    "XRT_",
    "USE_TORCH_XLA",
    "TORCH_TPU_",
    "JAX_",
)
# Modules whose presence shows that a feature is in use, by feature.
_FEATURES = {
    "scan": ("torch_xla.experimental.scan", "torch_xla.experimental.scan_layers"),
    "host_offload": ("torch_xla.experimental.stablehlo_custom_call",),
    "fsdpv2": ("torch_xla.experimental.spmd_fully_sharded_data_parallel",),
    "pallas": ("torch_xla.experimental.custom_kernel",),
    "dynamo": ("torch_xla._dynamo.dynamo_bridge",),
    # torch_xla's own: what PyTorch's computes again, XLA merges with what there was.
    "checkpoint": ("torch_xla.utils.checkpoint",),
    "assume_pure": ("torch_xla.experimental.assume_pure",),
}


def describe(host: str, rank: int, processes: int) -> dict[str, Any]:
    """The part of run.json that does not depend on the capture. Keys in the command line are left out."""
    from tpuprof.run_folder import RUN_SCHEMA
    from tpuprof.share.command_line import without_secrets

    return {
        "schema": RUN_SCHEMA,
        "versions": {name: _version(name) for name in PACKAGES},
        "framework": STATE.framework.name if STATE.framework is not None else "torch_xla",
        "python": platform.python_version(),
        "platform": _platform(),
        "device": devices(),
        "host": host,
        "rank": rank,
        "process_count": processes,
        "spmd": _spmd(),
        "cxx11_abi": _cxx11_abi(),
        "command_line": without_secrets(sys.argv),
        "environment": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(_PREFIXES)
        },
        "features_loaded": [
            name for name, modules in _FEATURES.items() if any(each in sys.modules for each in modules)
        ],
        **_compilation_cache(),
        **_deferring(),
    }


def _platform() -> str:
    """What `platform.platform()` says, without the process that it starts for a word that it leaves out on Linux.

    To start one, Python changes the filters of warnings: each that the program raised before would be shown once more.
    """
    if sys.platform != "linux":
        return platform.platform()
    system, libc = os.uname(), "".join(platform.libc_ver())
    return "-".join([system.sysname, system.release, system.machine, *(["with", libc] if libc else [])])


def _deferring() -> dict[str, Any]:
    """Whether eager ops are deferred and fused; nothing where they are not, or no framework says."""
    try:
        return {"defers_ops": True} if STATE.framework is not None and STATE.framework.defers_ops() else {}
    except Exception as error:  # an experimental setting of another library
        pass_on(error)
        return {}


def _compilation_cache() -> dict[str, Any]:
    """Where a framework keeps compiled programs by a setting of its own; torch_xla's is in the environment."""
    path = STATE.framework.cache_path() if STATE.framework is not None else ""
    return {"compilation_cache": {"path": path}} if path else {}


def device_in_use() -> bool:
    """Whether this process has a runtime. The question starts none: that may hang for minutes, or fail."""
    if STATE.framework is not None:
        return bool(STATE.framework.initialized())
    torch_xla = sys.modules.get("torch_xla")
    extension = getattr(torch_xla, "_XLAC", None)
    known = getattr(extension, "_xla_runtime_is_initialized", None)
    if known is not None:
        return bool(known())
    # torch_xla before 2.5 does not say; a program that ran a graph has a runtime.
    names = extension._xla_counter_names() if extension is not None else []
    return any(name in names for name in ("UncachedCompile", "CachedCompile", "CreateXlaTensor"))


def process_place() -> tuple[int, int]:
    """(rank of this process, number of processes) of the run, (0, 1) where that is unknown."""
    if not device_in_use():
        return 0, 1
    try:
        if STATE.framework is not None:
            rank, processes = STATE.framework.place()
            return int(rank), int(processes)
        import torch_xla.runtime as xr

        return int(xr.process_index()), int(xr.process_count())
    except Exception as error:  # an uninitialised runtime raises what it likes
        pass_on(error)
        return 0, 1


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError as error:
        pass_on(error)
        return None


def devices() -> dict[str, Any] | None:
    """Type and number of the devices in use, None without any. Starts no runtime."""
    if not device_in_use():
        return None
    try:
        if STATE.framework is not None:
            found: dict[str, Any] | None = STATE.framework.device()
            return found
        import torch_xla.runtime as xr

        return {
            "type": xr.device_type(),
            "global_count": xr.global_runtime_device_count(),
            "local_count": xr.addressable_runtime_device_count(),
        }
    except Exception as error:  # see process_place
        pass_on(error)
        return None


def _spmd() -> dict[str, Any] | None:
    """Whether SPMD is on and the global mesh, None where torch_xla does not say."""
    if not device_in_use() or STATE.framework is not None:
        return None
    try:
        import torch_xla.runtime as xr

        found: dict[str, Any] = {"on": bool(xr.is_spmd())}
        sharding = sys.modules.get("torch_xla.distributed.spmd.xla_sharding")
        mesh = sharding.get_global_mesh() if sharding is not None else None
        if mesh is not None:
            found["mesh"] = {"shape": list(mesh.mesh_shape), "axes": list(mesh.axis_names or ())}
    except Exception as error:  # see process_place
        pass_on(error)
        return None
    return found


def _cxx11_abi() -> bool | None:
    torch = sys.modules.get("torch")
    return bool(torch._C._GLIBCXX_USE_CXX11_ABI) if torch is not None else None
