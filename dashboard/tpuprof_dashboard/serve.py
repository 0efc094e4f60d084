"""Serves the dashboard, and says where it is and what it exposes."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode

from tpuprof.errors import Code, TpuprofError
from tpuprof_dashboard.addresses import addresses
from tpuprof_dashboard.app import create_app
from tpuprof_dashboard.components.against import BASE
from tpuprof_dashboard.security import Guard
from tpuprof_dashboard.store import Store
from tpuprof_dashboard.viewers import Viewers

# While a trace is read in the background, a request waits for Python this long at most each time it needs it again
# (seconds); with Python's own 5 ms, the dozens of times of one request add up.
SWITCH_INTERVAL = 0.001
# Columns larger than this are given back to the system as soon as nothing holds them (bytes). By itself glibc raises
# this up to 32 MB as they are freed, and keeps the room of smaller ones.
LARGE = 1 << 20
_M_MMAP_THRESHOLD = -3


def serve(
    paths: Sequence[Path], host: str, port: int, *, open_browser: bool, base: Path | None = None
) -> None:
    """Serve until interrupted; with `base`, every page says what changed since it.

    Raises `TpuprofError` (`usage`) where the address cannot be served on.
    """
    from werkzeug.serving import make_server

    sys.setswitchinterval(SWITCH_INTERVAL)
    _give_back_large()
    guard = Guard.for_host(host)
    store = Store([*paths, base] if base is not None else paths, Viewers() if guard.token is None else None)
    # Requests are not logged: one of them carries the token.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    try:
        with _bound(host, port) as listening:
            app = create_app(store, guard).server
            server = make_server(host, port, app, threaded=True, fd=listening.fileno())
    except OSError as error:
        store.close()
        raise TpuprofError(
            Code.USAGE,
            f"{host}:{port}: cannot be served on ({error.strerror or error}).",
            "Choose another with --host or --port.",
        ) from error
    found = [_with_base(each, store, base) for each in addresses(host, server.port, guard.token)]
    if guard.token:
        bound = server.port
        _say(
            f"whoever has this address can read these runs and upload traces: {', '.join(map(str, paths))}. "
            f"The connection is not encrypted; an SSH tunnel (ssh -L {bound}:localhost:{bound} HOST) is."
        )
    try:
        with _ended_by_signals():
            for name in store.names()[:1]:
                store.report(name)
            _say(f"dashboard on {' or '.join(found)} (Ctrl-C ends it)")
            if open_browser:
                import webbrowser

                webbrowser.open(found[0])
            server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
        store.close()


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens there. The server's library prints lines of its own where it cannot, and ends."""
    from werkzeug.serving import LISTEN_QUEUE, get_sockaddr, select_address_family

    family = select_address_family(host, port)
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(get_sockaddr(host, port, family))
        bound.listen(LISTEN_QUEUE)
    except OSError:
        bound.close()
        raise
    return bound


def _give_back_large() -> None:
    """Let this process keep no large pieces of memory that it has freed, where its C library knows of that."""
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a request to end, and a closed terminal, end the server as Ctrl-C does: uploads and viewers go with it.

    A signal that whoever started the server has it ignore stays ignored: `nohup` does so with a closed terminal.
    """

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heard = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, end) for each in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _with_base(address: str, store: Store, base: Path | None) -> str:
    """The address with the base run in it: the newest of a folder of runs."""
    name = next((each for each in store.names() if base and store.path(each).is_relative_to(base)), None)
    return address if name is None else f"{address}{'&' if '?' in address else '?'}{urlencode({BASE: name})}"


def _say(text: str) -> None:
    print(f"tpuprof: {text}", file=sys.stderr, flush=True)
