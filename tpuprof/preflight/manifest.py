"""The files by which a script's process hands its graphs to `tpuprof preflight`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
# There when enough was taken, and the script's other processes may end.
DONE = "done"


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest as a whole, so that a script which is killed leaves one that can be read."""
    path = folder / MANIFEST
    path.with_suffix(".new").write_text(json.dumps(manifest), "utf-8")
    path.with_suffix(".new").replace(path)
