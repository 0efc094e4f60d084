"""Keeps the dashboard to those it is for: host names, a token for other machines, and what pages may load.

On loopback a request must name a loopback host, so that a web site whose name was rebound to 127.0.0.1 cannot
read a trace. On any other address a token, printed once when the dashboard starts, is required.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from tpuprof.shown_text import printable

if TYPE_CHECKING:
    from flask import Flask

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "tpuprof_token"
TOKEN_PARAMETER = "token"
# A request's body (bytes): what a page asks holds no more than a long address. Uploads have a bound of their own.
MAX_BODY_BYTES = 4 * 2**20
# Dash answers any other path with its page, as if it were one of an app with many paths.
_ANY_PATH = "/<path:path>"
# Of an error, no more than this is printed (characters).
_LONGEST_ERROR = 500


@dataclass(frozen=True)
class Guard:
    """Who may ask: `token` is None on loopback, where the Host header must name a loopback address."""

    token: str | None = None

    @property
    def cookie(self) -> str:
        """The cookie's name. Browsers share cookies between ports, so each token has a name of its own."""
        return f"{COOKIE}_{hashlib.sha256((self.token or '').encode()).hexdigest()[:12]}"

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
    server.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    _install_guard(server, guard)
    _install_errors(server)

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


def _install_guard(server: Flask, guard: Guard) -> None:
    from flask import redirect, request

    @server.before_request
    def check() -> Any:
        host = request.headers.get("Host", "")
        if not guard.host_allowed(host) or not guard.origin_allowed(request.headers.get("Origin"), host):
            return _plain(403, "this dashboard answers only to its own address.")
        given = request.args.get(TOKEN_PARAMETER)
        if guard.token is not None:
            if given is not None and guard.token_allowed(given):
                rest = {key: value for key, value in request.args.items() if key != TOKEN_PARAMETER}
                answer = redirect("/" + (f"?{urlencode(rest)}" if rest else ""))
                answer.set_cookie(guard.cookie, given, httponly=True, samesite="Strict")
                return answer
            if not guard.token_allowed(request.cookies.get(guard.cookie)):
                return _plain(401, "open the address with the token that `tpuprof dashboard` printed.")
        rule = request.url_rule.rule if request.url_rule else ""
        return None if _is_served(request.path, rule) else _plain(404)


def _install_errors(server: Flask) -> None:
    from flask import request
    from werkzeug.exceptions import HTTPException

    @server.errorhandler(Exception)
    def failed(error: Exception) -> Any:
        """One line to whoever asked, and no traceback on the terminal: paths that name nothing are no fault of ours."""
        if isinstance(error, HTTPException):
            status = error.code or 500
            return error if status < 400 else _plain(status)
        if request.path.startswith(("/_dash-component-suites/", "/assets/")):
            return _plain(404)
        text = printable(f"{request.path} failed ({type(error).__name__}: {error})")[:_LONGEST_ERROR]
        print(f"tpuprof: dashboard: {text}", file=sys.stderr, flush=True)
        return _plain(500)


def _is_served(path: str, rule: str) -> bool:
    """Whether a path is one of the dashboard's own, and leads nowhere else."""
    return rule != _ANY_PATH and ".." not in path.split("/") and not any(each in path for each in "\\\0")


def _plain(status: int, text: str = "") -> Any:
    from http.client import responses

    from flask import Response

    return Response(
        f"{status}: {text or responses.get(status, 'error') + '.'}\n", status, mimetype="text/plain"
    )


def inside(path: Path, roots: list[Path]) -> bool:
    """Whether a path, symbolic links followed, lies in one of the folders or is one of the files."""
    real = path.resolve()
    return any(real == root or root in real.parents for root in roots)
