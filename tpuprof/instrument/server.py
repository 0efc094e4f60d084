"""`tpuprof.start_server`: lets `tpuprof capture --addr` attach to this process."""

from __future__ import annotations

from tpuprof.instrument import sync_guard
from tpuprof.instrument.attached import Attached, MarkedSteps
from tpuprof.instrument.state import STATE, import_xlac

_servers: dict[int, object] = {}
_attached: list[Attached] = []


def start_server(port: int = 9012) -> None:
    """Start the profiler server of torch_xla, TorchTPU or JAX on `port` and keep it for the life of the process.

    Every process of a host needs a port of its own; unlike `xp.start_server` this one does not skip all but
    the first. Annotations are on from now on, because a capture may begin at any time; host events are added
    while the profiler records. Without torch_xla it does nothing. Raises `RuntimeError` where the port is
    invalid or busy, as torch_xla does.
    """
    extension = import_xlac()
    if extension is None:
        return
    if port not in _servers:
        _servers[port] = extension.profiler.start_server(port)
    if STATE.framework is not None:
        MarkedSteps.follow()
        STATE.armed = True
        return
    sync_guard.install()
    if not _attached:
        _attached.append(Attached(extension))
        _attached[0].install()
    STATE.armed = True
