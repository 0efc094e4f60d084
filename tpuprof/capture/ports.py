"""A free TCP port on this machine."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Ask the system for a port nobody listens on; it may be taken by the time it is used."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])
