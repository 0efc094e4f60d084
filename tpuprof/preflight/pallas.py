"""Lets a script's Pallas kernels be lowered for a TPU where jax sees none. Runs inside the script's process.

A kernel is traced by jax and becomes a module of Mosaic, the TPU kernels' compiler, whose form has a version. jax
chooses the version by the TPU runtime it runs on; here libtpu itself is asked which one it reads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from types import SimpleNamespace
from typing import Any

# The chip whose kind kernels see that choose their tiles by it, as the slice's first target has it.
KIND_VARIABLE = "TPUPROF_PREFLIGHT_CHIP_KIND"
# Named in the record of a trace: versions of Mosaic that were written, and whether a kernel asked for the chip.
notes: dict[str, Any] = {"mosaic": None, "asked_for_chip": False}
_PROBE_LIMIT_S = 120


def after_jax(_name: str) -> None:
    """Have `jit(f).lower(...)` lower for a TPU, and Pallas kernels see one."""
    import jax
    import jax.extend.backend
    from jax._src import stages

    # As many as torch_xla has: a mesh of its devices becomes one of jax's.
    jax.config.update("jax_num_cpu_devices", int(os.environ.get("CPU_NUM_DEVICES", "1")))
    plain = stages.Traced.lower

    def lower(self: Any, *, lowering_platforms: Any = None, **options: Any) -> Any:
        choose_mosaic_version()
        return plain(self, lowering_platforms=lowering_platforms or ("tpu",), **options)

    stages.Traced.lower = lower
    devices, default = jax.devices, jax.extend.backend.get_default_device
    jax.devices = lambda *args, **options: _chip() or devices(*args, **options)
    jax.extend.backend.get_default_device = lambda: (_chip() or [default()])[0]


def _chip() -> list[Any]:
    """The slice's chip where a Pallas kernel asks which one it runs on; nothing for anyone else."""
    caller = sys._getframe(2).f_globals.get("__name__", "")
    kind = os.environ.get(KIND_VARIABLE, "")
    if "pallas" not in caller or not kind:
        return []
    notes["asked_for_chip"] = True
    return [SimpleNamespace(device_kind=kind, platform="tpu", num_cores=1, id=0, process_index=0)]


def choose_mosaic_version() -> None:
    """Have kernels written in a version that libtpu reads, where the program has kernels."""
    calls: Any = sys.modules.get("jax._src.tpu_custom_call")
    if calls is None or not hasattr(calls, "get_ir_version") or hasattr(calls, "_tpuprof_version"):
        return
    calls._tpuprof_version = True
    plain = calls.get_ir_version

    def version(context: Any) -> Any:
        readable = readable_version()
        notes["mosaic"] = readable
        return plain(context) if readable is None else readable

    calls.get_ir_version = version


@cache
def readable_version() -> int | None:
    """The newest version of Mosaic that libtpu reads where that is older than jax's; None where jax's own will do."""
    command = [sys.executable, "-m", "tpuprof.preflight.worker", "--mosaic"]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TPUPROF_")}
    try:
        done = subprocess.run(
            command, env=kept, capture_output=True, text=True, timeout=_PROBE_LIMIT_S, check=False
        )
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return int(answer) if answer is not None else None
