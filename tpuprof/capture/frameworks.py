"""Starts and stops the profilers of TorchTPU and JAX in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tpuprof.capture import jax_session
from tpuprof.capture.backend import newest_profile
from tpuprof.capture.profiler_session import OurSession
from tpuprof.capture.scratch import new_scratch, remove_scratch
from tpuprof.capture.without_tensorflow import called
from tpuprof.instrument.frameworks.jax import Jax
from tpuprof.instrument.frameworks.kept_programs import KeptPrograms
from tpuprof.instrument.frameworks.torch_tpu import record_ops
from tpuprof.instrument.state import STATE

HOST_LEVEL, DEVICE_LEVEL, PYTHON_LEVEL = 2, 1, 0


class _InScratch:
    """A profiler that writes a logdir: each recording has a scratch folder of its own.

    The program's own session comes first: ours begins only while there is none, and ends before one begins.
    """

    repeats = True
    # The module that keeps the framework's session.
    module = ""

    def __init__(self) -> None:
        self._scratches: list[Path] = []
        self._session = OurSession(self.module, lambda: STATE.framework)

    def start(self) -> None:
        """Begin recording into a scratch folder."""
        self._scratches.append(new_scratch())
        self._begin(str(self._scratches[-1]))

    def busy(self) -> bool:
        """Whether the program records itself, or its server does."""
        return self._session.busy()

    def give_way_by(self, end: Callable[[], None]) -> None:
        """Call `end` before the program opens a session of its own."""
        self._session.give_way = end

    def forget(self) -> None:
        """In a forked process: the folders are the parent's, and the profiler is free, as it would be without us."""
        self._scratches.clear()
        self._session.forget()

    def stop(self) -> Path | None:
        """End recording."""
        self._end()
        return newest_profile(self._scratches[-1])

    def clean_up(self) -> None:
        """Remove the scratch folders."""
        for scratch in self._scratches:
            remove_scratch(scratch)

    def _begin(self, folder: str) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError


class TorchTpuInProcess(_InScratch):
    """TorchTPU's own trace functions; ops and scopes are asked for while it records."""

    module = "torch_tpu._internal.profiler._impl"

    def _begin(self, folder: str) -> None:
        from torch_tpu._internal.profiler import _impl

        record_ops()
        options = _impl.ProfileOptions(
            host_tracer_level=HOST_LEVEL, device_tracer_level=DEVICE_LEVEL, python_tracer_level=PYTHON_LEVEL
        )
        start = partial(_impl.start_trace, folder, profiler_options=options)
        self._session.begin(start, _impl.stop_trace)

    def _end(self) -> None:
        from torch_tpu._internal.profiler import _impl

        self._session.end(_impl.stop_trace)


class JaxInProcess(_InScratch):
    """`jax.profiler.start_trace`, without its tracer of Python calls, which slows the program."""

    module = jax_session.MODULE

    def __init__(self) -> None:
        super().__init__()
        self._kept = STATE.framework.kept if isinstance(STATE.framework, Jax) else KeptPrograms()

    def forget(self) -> None:
        """In a forked process: so are the programs that were kept."""
        super().forget()
        self._kept.forget()

    def _begin(self, folder: str) -> None:
        self._kept.begin()
        try:
            self._session.begin(lambda: _start_jax(folder), self._stop)
        except BaseException:
            self._kept.end()
            raise

    def _end(self) -> None:
        try:
            self._session.end(self._stop)
        finally:
            self._kept.end()

    def _stop(self) -> None:
        _stop_jax(str(self._scratches[-1]))


def _start_jax(folder: str) -> None:
    import jax

    options: Any = getattr(jax.profiler, "ProfileOptions", None)
    if options is None:  # before JAX 0.7 there are none
        called(jax.profiler.start_trace, folder)
        return
    chosen = options()
    chosen.host_tracer_level, chosen.python_tracer_level = HOST_LEVEL, PYTHON_LEVEL
    called(jax.profiler.start_trace, folder, profiler_options=chosen)


def _stop_jax(folder: str) -> None:
    import jax

    if not jax_session.stop_into(folder):
        called(jax.profiler.stop_trace)


def backend_in_use() -> _InScratch | None:
    """The profiler of the framework that stands for torch_xla; None where torch_xla itself trains."""
    framework = STATE.framework
    if framework is None:
        return None
    return TorchTpuInProcess() if framework.name == "torch_tpu" else JaxInProcess()
