"""TorchTPU: events by torch's record_function, counters of its program cache.

A TraceMe takes `name#key=value,...#` apart into name and stats, but loses the last key: so one more is added.
"""

from __future__ import annotations

import atexit
import socket
import sys
from pathlib import Path
from typing import Any

from tpuprof.instrument.frameworks.base import Framework, Profiler, loaded
from tpuprof.instrument.frameworks.compile_threads import SETTLED_SECONDS, STALLED_SECONDS, CompileThreads
from tpuprof.instrument.state import pass_on

_CACHE = "torch_tpu._internal.device._device_ops_backend"
_EAGER_MODES = "torch_tpu._internal.execution_mode"
# Files that this process has loaded (Linux); XLA's CPU plugin, of PyPI's xla-cpu-pjrt and as XLA builds it; and libtpu.
_MAPS = Path("/proc/self/maps")
_CPU_PLUGINS, _LIBTPU = {"xla_cpu_pjrt.so", "pjrt_c_api_cpu_plugin.so"}, "libtpu.so"
# Takes the place of the last key, which is lost.
_LAST = "z=1"
# What would end a stat inside of one: a path with a comma, say.
_UNSAFE = str.maketrans({",": ";", "#": "%", "=": ":"})


class _Event:
    """One event of this thread."""

    __slots__ = ("_scope",)

    def __init__(self, name: str, **stats: int | str) -> None:
        if stats:
            text = ",".join(f"{key}={str(value).translate(_UNSAFE)}" for key, value in stats.items())
            name = f"{name.translate(_UNSAFE)}#{text},{_LAST}#"
        elif name.endswith("#"):
            name = f"{name[:-1]},{_LAST}#"
        self._scope: Any = _scope(name)

    def __enter__(self) -> _Event:
        self._scope.__enter__()
        return self

    def __exit__(self, *what: object) -> None:
        self._scope.__exit__(None, None, None)

    def set_metadata(self, **_stats: Any) -> None:
        """Stats that are known at the end of an event only: record_function has no place for them."""


def _scope(name: str) -> Any:
    # Torch's faster RecordFunction says nothing unless its own profiler runs.
    return sys.modules["torch"].profiler.record_function(name)


class TorchTpu(Framework):
    """TorchTPU in this process. Nothing here starts its runtime."""

    name = "torch_tpu"
    devices = ("tpu",)
    logs_lines = True

    def __init__(self) -> None:
        self.profiler = Profiler(_Event, _start_server, in_python=True)
        super().__init__()
        # What the program cache's counters said last, and whether the program is about to end the runtime.
        self._last: dict[str, int] = {}
        self._listening = self._over = False
        self._threads = CompileThreads()
        # Programs looked up and compiled when `settled` was asked last.
        self._asked = (0, 0)

    def initialized(self) -> bool:
        """Whether the runtime was started."""
        cache = loaded(_CACHE)
        return bool(cache is not None and cache._is_initialized())

    def place(self) -> tuple[int, int]:
        """Rank and world size of torch.distributed, where the program uses it."""
        distributed = getattr(loaded("torch"), "distributed", None)
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        return 0, 1

    def device(self) -> dict[str, Any] | None:
        """Devices of this process; the type is what TorchTPU calls them, also on a CPU plugin, which is named then."""
        if not self.initialized():
            return None
        count = int(sys.modules["torch"].accelerator.device_count())
        found = {"type": "tpu", "global_count": count * self.place()[1], "local_count": count}
        return {**found, "plugin": "cpu"} if _on_cpu() else found

    def compiles(self) -> int:
        """Misses of the program cache."""
        return self._count("_get_cache_misses")

    def settled(self) -> bool:
        """Whether programs were looked up since this was asked last and all found, or the compile threads have rested.

        The host runs ahead of both: where no program was looked up, the one before may still compile, or wait for a CPU
        to be compiled. The threads must then have rested for longer. A program counts as found while it compiles, so
        that all were found says something only where no thread is at work.
        """
        before, self._asked = self._asked, (self.lookups(), self.compiles())
        looked_up, missed = (now - then for now, then in zip(self._asked, before, strict=True))
        idle = self._threads.idle()
        rested = self._threads.settled(SETTLED_SECONDS if looked_up else STALLED_SECONDS)
        return rested or (looked_up > 0 and not missed and idle)

    def drain_compiles(self) -> list[tuple[int, float, list[str]]]:
        """Compiles since the last call, with the CPU time of the compile threads."""
        return [(found, self._threads.seconds(), frames) for found, _, frames in super().drain_compiles()]

    def defers_ops(self) -> bool:
        """Whether ops are deferred and fused now: by the environment, or by what the program called since."""
        mode = getattr(loaded(_EAGER_MODES), "eager_mode", None)
        return getattr(mode, "name", "") == "DEFER_AND_FUSE"

    def lookups(self) -> int:
        """Programs asked for."""
        return self._count("_get_cache_requests")

    def _count(self, name: str) -> int:
        """A counter of the program cache. Asked after the runtime was shut down, it would end the process by SIGABRT.

        TorchTPU registers the runtime's end when it begins, and Python calls what was registered last first.
        """
        cache = loaded(_CACHE)
        if self._over or cache is None or not cache._is_initialized():
            return self._last.get(name, 0)
        if not self._listening:
            self._listening = True
            atexit.register(self._ends)
        self._last[name] = int(getattr(cache, name)())
        return self._last[name]

    def _ends(self) -> None:
        self._over = True


def _on_cpu() -> bool:
    """Whether XLA's CPU plugin is loaded, by its file, and libtpu is not. TorchTPU itself calls both "TPU"."""
    try:
        lines = _MAPS.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        pass_on(error)
        return False
    loaded_files = {Path(line.split()[-1]).name for line in lines if line.strip()}
    return bool(_CPU_PLUGINS & loaded_files) and _LIBTPU not in loaded_files


def _start_server(port: int) -> object:
    from torch_tpu._internal.profiler import _impl

    return _impl.start_server(port)


def record_ops() -> None:
    """Have ops and scopes written into profiles from now on.

    TorchTPU begins to hand them to the profiler when its server is started, and goes on when it has ended. So a server
    is started and ended, unless the program has one.
    """
    from torch_tpu._internal.profiler import _impl

    if _impl._profiler_server is None:
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            port = int(probe.getsockname()[1])
        _impl.start_server(port)
        _impl.stop_server()
