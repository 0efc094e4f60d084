"""Inside a program that `tpuprof capture` started: waits for torch_xla to be imported, then records.

Every Python process under a capture comes through here, most of which train nothing: so nothing is imported
before torch_xla is, nothing is printed before a training step was seen, and no signal handler is set before.
"""

from __future__ import annotations

import os
import sys

from tpuprof.capture import crumbs
from tpuprof.instrument.after_import import watch

_RECORDED = "torch_xla"
# Frameworks whose import is written down, because it explains why nothing was captured.
_NOTED = ("jax", "torch_tpu")
_installed: set[str] = set()


def install(folder: str) -> None:
    """Arrange for recording to be set up right after torch_xla has been imported. Doing it twice is harmless."""
    if folder in _installed or not os.path.isdir(folder):
        return
    _installed.add(folder)
    crumbs.leave(folder, crumbs.STARTED, " ".join(sys.orig_argv))
    watch((_RECORDED,), lambda _: _record(folder))
    watch(_NOTED, lambda name: crumbs.leave(folder, crumbs.IMPORTED, name))


def _record(folder: str) -> None:
    from tpuprof.capture.session import Session

    crumbs.leave(folder, crumbs.IMPORTED, _RECORDED)
    Session(folder).open()
