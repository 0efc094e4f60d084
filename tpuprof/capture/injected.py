"""Inside a program that `tpuprof capture` started: waits for torch_xla, TorchTPU or JAX to be imported, then records.

Every Python process under a capture comes through here, most of which train nothing: so nothing is imported
before torch_xla is, nothing is printed before a training step was seen, and no signal handler is set before.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from tpuprof.capture import crumbs
from tpuprof.instrument.after_import import watch

if TYPE_CHECKING:
    from tpuprof.capture.session import Session

# In the order of preference: torch_xla and TorchTPU may import JAX.
_RECORDED = ("torch_xla", "torch_tpu", "jax")
_sessions: list[tuple[str, Session]] = []
_installed: set[str] = set()


def install(folder: str) -> None:
    """Arrange for recording to be set up right after a framework has been imported. Doing it twice is harmless."""
    if folder in _installed or not os.path.isdir(folder):
        return
    _installed.add(folder)
    crumbs.leave(folder, crumbs.STARTED, " ".join(sys.orig_argv))
    watch(_RECORDED, lambda name: _record(folder, name))


def _record(folder: str, framework: str) -> None:
    import importlib

    from tpuprof.capture import scratch
    from tpuprof.capture.orders import Orders

    crumbs.leave(folder, crumbs.IMPORTED, framework)
    scratch.put_into(folder)
    for name, session in _sessions:
        if _RECORDED.index(name) < _RECORDED.index(framework) or session.trains():
            return
        session.discard()
    try:
        module, _, name = Orders.read(folder).session.partition(":")
    except OSError as error:
        from tpuprof.instrument.state import pass_on

        pass_on(error)
        crumbs.leave(folder, crumbs.FAILED, error)
        return
    opened: Session = getattr(importlib.import_module(module), name)(folder, framework)
    _sessions[:] = [(framework, opened)]
    opened.open()
