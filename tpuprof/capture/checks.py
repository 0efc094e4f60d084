"""What `tpuprof doctor` looks at. Nothing here imports torch: versions come from package metadata."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from tpuprof.units import MEGA

# A capture of a few steps of a large model takes up to 2 GB, and its analysis cache some more (bytes).
DISK_WANTED_BYTES = 5 * 2**30
# The last release of torch_xla with builds for the pre-C++11 ABI, which trace more slowly.
_OLD_ABI_UP_TO = (2, 6)
# Variables that make torch_xla collect or print something at every op or step.
_SLOW_FLAGS = (
    "PT_XLA_DEBUG",
    "PT_XLA_DEBUG_LEVEL",
    "XLA_IR_DEBUG",
    "XLA_HLO_DEBUG",
    "XLA_SAVE_TENSORS_FILE",
    "XLA_DUMP_POST_OPTIMIZATIONS",
    "XLA_SYNC_WAIT",
    "XLA_USE_EAGER_DEBUG_MODE",
)


@dataclass(frozen=True)
class Check:
    """One line of the table; state is ok, warn or fail."""

    name: str
    state: str
    found: str
    advice: str = ""


def run_checks() -> list[Check]:
    """All checks, in the order they are shown."""
    checks: list[Callable[[], Check]] = [
        _python,
        _reader,
        _torch_xla,
        _torch_fits,
        _abi,
        _libtpu,
        _tensorboard,
        _device,
        _debug_flags,
        _disk,
        _cache,
    ]
    return [check() for check in checks]


def installed(package: str) -> str | None:
    """The version of an installed package, None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _python() -> Check:
    return Check("Python", "ok", sys.version.split()[0])


def _reader() -> Check:
    from tpuprof.decode.xplane import reader_name

    name = reader_name()
    if name == "native":
        return Check("XPlane reader", "ok", name)
    return Check("XPlane reader", "warn", name, "Slower on large traces: no compiled reader is installed.")


def _torch_xla() -> Check:
    found = installed("torch_xla")
    if found is None:
        return Check("torch_xla", "warn", "not installed", 'To capture here: pip install "tpuprof[xla]".')
    return Check("torch_xla", "ok", found)


def _torch_fits() -> Check:
    torch, xla = installed("torch"), installed("torch_xla")
    if torch is None or xla is None:
        return Check("torch", "ok" if torch else "warn", torch or "not installed")
    if _release(torch) != _release(xla):
        return Check(
            "torch", "fail", torch, f"torch_xla {xla} needs torch of the same release: install torch=={xla}."
        )
    return Check("torch", "ok", torch)


def _abi() -> Check:
    xla = installed("torch_xla")
    if xla is None:
        return Check("C++ ABI", "ok", "unavailable: torch_xla is not installed")
    if _release(xla) <= _OLD_ABI_UP_TO and "cxx11" not in xla:
        advice = "Install the cxx11 build, or torch_xla 2.7 or later: tracing is faster."
        return Check("C++ ABI", "warn", "pre-C++11", advice)
    return Check("C++ ABI", "ok", "C++11")


def _libtpu() -> Check:
    found = installed("libtpu")
    if found is None:
        return Check("libtpu", "warn", "not installed", 'On a TPU VM: pip install "tpuprof[xla]".')
    return Check("libtpu", "ok", found)


def _tensorboard() -> Check:
    if importlib.util.find_spec("tensorboard") is None:
        return Check(
            "TensorBoard",
            "warn",
            "not installed",
            'For `tpuprof tensorboard`: pip install "tpuprof[tensorboard]".',
        )
    return Check("TensorBoard", "ok", installed("tensorboard") or "installed")


def _device() -> Check:
    chosen = os.environ.get("PJRT_DEVICE")
    return Check("PJRT_DEVICE", "ok", chosen or "not set: torch_xla chooses")


def _debug_flags() -> Check:
    on = [name for name in _SLOW_FLAGS if os.environ.get(name, "").strip() not in ("", "0", "false", "False")]
    if on:
        return Check(
            "debug flags", "warn", ", ".join(on), "They slow training down; unset them unless you need them."
        )
    return Check("debug flags", "ok", "none set")


def _cache() -> Check:
    from tpuprof.analysis import cache

    used = cache.usage()
    found = f"{used.folder}: {used.entries} reports, {used.bytes / MEGA:.1f} MB of at most {cache.MAX_BYTES / MEGA:.0f}"
    return Check("report cache", "ok", found)


def _disk() -> Check:
    free = shutil.disk_usage(".").free
    found = f"{free / 2**30:.0f} GiB free here"
    if free < DISK_WANTED_BYTES:
        return Check("disk", "warn", found, "A large capture may not fit: choose another folder with -o.")
    return Check("disk", "ok", found)


def _release(text: str) -> tuple[int, int]:
    parts = text.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        return 0, 0
