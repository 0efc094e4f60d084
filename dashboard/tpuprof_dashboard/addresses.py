"""Which addresses open a dashboard: one that is served on all of a machine's addresses is opened by none of them."""

from __future__ import annotations

import socket
from urllib.parse import urlencode

from tpuprof_dashboard.security import TOKEN_PARAMETER

# What stands for all addresses of a machine.
_ALL = ("0.0.0.0", "::", "")
# Addresses kept for documentation (RFC 5737, RFC 3849): the system says which way it would go, and sends nothing.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def addresses(host: str, port: int, token: str | None) -> list[str]:
    """The addresses to open, for this machine first."""
    hosts = ["localhost", *_own()] if host in _ALL else [host]
    query = f"?{urlencode({TOKEN_PARAMETER: token})}" if token else ""
    return [f"http://{f'[{each}]' if ':' in each else each}:{port}/{query}" for each in hosts]


def _own() -> list[str]:
    """The address by which others see this machine; its name where it has none."""
    for family, elsewhere in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                return [str(probe.getsockname()[0])]
        except OSError:
            continue
    return [socket.gethostname()]
