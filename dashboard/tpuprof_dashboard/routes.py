"""What the dashboard's own scripts ask for beside Dash's callbacks: whether it is there, and uploads."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from tpuprof.errors import TpuprofError
from tpuprof_dashboard.uploads import MAX_UPLOAD_BYTES

if TYPE_CHECKING:
    from flask import Flask

    from tpuprof_dashboard.store import Store

ALIVE = "/_tpuprof/alive"
UPLOAD = "/_tpuprof/upload"


def install_routes(server: Flask, store: Store) -> None:
    """Answer the two paths above."""
    from flask import jsonify, request
    from werkzeug.exceptions import RequestEntityTooLarge

    instance = secrets.token_hex(8)

    @server.get(ALIVE)
    def alive() -> Any:
        """Tells one start of the dashboard from the next."""
        return jsonify(instance=instance)

    @server.post(UPLOAD)
    def upload() -> Any:
        """The body is the file itself, which is written to disk as it comes."""
        request.max_content_length = MAX_UPLOAD_BYTES + 1
        try:
            name = store.upload(request.args.get("name", ""), request.stream)
        except TpuprofError as error:
            return jsonify(error=str(error)), 400
        except RequestEntityTooLarge:
            return jsonify(error=f"an upload may have {MAX_UPLOAD_BYTES // 2**20} MiB."), 413
        return jsonify(run=name)
