"""Ends JAX's profiler session without the Chrome trace that JAX writes of it as well."""

from __future__ import annotations

import socket
from pathlib import Path

from tpuprof.capture.profiler_session import state_of
from tpuprof.capture.without_tensorflow import called
from tpuprof.run_folder import PROFILES, profile_name

MODULE = "jax._src.profiler"


def stop_into(folder: str) -> bool:
    """End the open session and write its profile alone; False where this version of JAX keeps it elsewhere.

    `jax.profiler.stop_trace` writes a Chrome trace of the same as well. It keeps Python's lock meanwhile, so training
    waits for it: benchmarks/jax_stop.py.
    """
    state = state_of(MODULE)
    stop = getattr(getattr(state, "profile_session", None), "stop", None)
    if state is None or stop is None or not hasattr(state, "reset"):
        return False
    with state.lock:
        profile: bytes = called(stop)
        state.reset()
    place = Path(folder, PROFILES, "recorded")
    place.mkdir(parents=True)
    (place / profile_name(socket.gethostname())).write_bytes(profile)
    return True
