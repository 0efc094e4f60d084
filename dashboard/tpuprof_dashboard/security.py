"""Keeps the dashboard to those it is for: host names, a token for other machines, and what pages may load.

On loopback a request must name a loopback host, so that a web site whose name was rebound to 127.0.0.1 cannot
read a trace. On any other address a token, printed once when the dashboard starts, is required.
"""

from __future__ import annotations

import hmac
import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from flask import Flask

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "tpuprof_token"
TOKEN_PARAMETER = "token"
# Largest upload (bytes): it travels through the browser as base64; larger traces are given as paths.
MAX_UPLOAD_BYTES = 64 * 2**20
# Uploads kept at a time, so that they cannot fill the disk (files).
MAX_UPLOADS = 8
# What a compressed upload may inflate to (bytes): some ten times what a trace of that size holds.
MAX_INFLATED_BYTES = 1 * 2**30
# A request's body: an upload as base64 (4/3) and the callback around it (bytes).
MAX_BODY_BYTES = MAX_UPLOAD_BYTES * 3 // 2
_CHUNK = 2**20


@dataclass(frozen=True)
class Guard:
    """Who may ask: `token` is None on loopback, where the Host header must name a loopback address."""

    token: str | None = None

    @staticmethod
    def for_host(host: str) -> Guard:
        """The guard of an address to serve on."""
        return Guard(None if host in LOOPBACK else secrets.token_urlsafe(24))

    def host_allowed(self, header: str) -> bool:
        """Whether a Host header names this server."""
        return self.token is not None or _hostname(f"//{header}") in LOOPBACK

    def origin_allowed(self, origin: str | None, host: str) -> bool:
        """Whether a request that says where it comes from comes from this server's own pages."""
        return origin is None or urlsplit(origin).netloc == host

    def token_allowed(self, given: str | None) -> bool:
        """Whether the token is right, compared in constant time."""
        return self.token is None or hmac.compare_digest((given or "").encode(), self.token.encode())


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def install(server: Flask, guard: Guard, inline_scripts: Callable[[], list[str]]) -> None:
    """Put the guard before every request, and what a page may load behind every answer.

    `inline_scripts` gives the hashes of the scripts that the page itself holds, once it is laid out.
    """
    from flask import Response, redirect, request

    server.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES

    @server.before_request
    def check() -> Any:
        host = request.headers.get("Host", "")
        if not guard.host_allowed(host) or not guard.origin_allowed(request.headers.get("Origin"), host):
            return Response(
                "403: this dashboard answers only to its own address.\n", 403, mimetype="text/plain"
            )
        given = request.args.get(TOKEN_PARAMETER)
        if guard.token is None:
            return None
        if given is not None and guard.token_allowed(given):
            rest = {key: value for key, value in request.args.items() if key != TOKEN_PARAMETER}
            answer = redirect("/" + (f"?{urlencode(rest)}" if rest else ""))
            answer.set_cookie(COOKIE, given, httponly=True, samesite="Strict")
            return answer
        if not guard.token_allowed(request.cookies.get(COOKIE)):
            return Response(
                "401: open the address with the token that `tpuprof dashboard` printed.\n",
                401,
                mimetype="text/plain",
            )
        return None

    @server.after_request
    def restrict(answer: Any) -> Any:
        scripts = " ".join(["'self'", *inline_scripts()])
        answer.headers["Content-Security-Policy"] = (
            f"default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'none'; "
            "frame-ancestors 'none'; form-action 'none'"
        )
        answer.headers["X-Content-Type-Options"] = "nosniff"
        answer.headers["Referrer-Policy"] = "no-referrer"
        return answer


def inside(path: Path, roots: list[Path]) -> bool:
    """Whether a path, symbolic links followed, is in one of the folders or is one of the files."""
    real = path.resolve()
    return any(real == root or root in real.parents for root in roots)


def check_upload(name: str, data: bytes, kept: int) -> None:
    """Refuse an upload that is too large, inflates too much, or is one too many.

    Raises `TpuprofError` (`input-too-large`).
    """
    if kept >= MAX_UPLOADS:
        raise TpuprofError(
            Code.TOO_LARGE,
            f"{name}: {MAX_UPLOADS} uploads are kept at most.",
            "Start the dashboard again, or give it the path of this trace.",
        )
    if len(data) > MAX_UPLOAD_BYTES or not _inflates_within(data, MAX_INFLATED_BYTES):
        raise TpuprofError(
            Code.TOO_LARGE,
            f"{name}: larger than an upload may be ({MAX_UPLOAD_BYTES // 2**20} MiB, "
            f"{MAX_INFLATED_BYTES // 2**20} MiB inflated).",
            "Start the dashboard with the path of this trace.",
        )


def _inflates_within(data: bytes, most: int) -> bool:
    """Whether gzip data inflates to at most `most` bytes; damaged data is left to the reader to explain."""
    if not data.startswith(b"\x1f\x8b"):
        return True
    inflate, total = zlib.decompressobj(wbits=31), 0
    try:
        while data and not inflate.eof:
            total += len(inflate.decompress(data, _CHUNK))
            data = inflate.unconsumed_tail
            if total > most:
                return False
    except zlib.error:
        pass
    return True
