"""What the installation's `tpuprof_capture.pth` runs when Python starts while a capture is under way.

It reaches processes that lost PYTHONPATH (`PYTHONPATH=src python`, `python -I`, `python -E`) or their whole
environment (`env -i`). The .pth file itself imports nothing where no capture runs.
"""

from __future__ import annotations

import os

from tpuprof.capture import marker


def start() -> None:
    """Set the hook up if this process belongs to a capture. Raises nothing."""
    try:
        # VARIABLE of orders.py, which imports more than a starting Python should.
        folder = os.environ.get("TPUPROF_CAPTURE") or marker.folder_of_ancestor()
        if folder:
            from tpuprof.capture.injected import install

            install(folder)
    except Exception:  # an error in a .pth file would be printed by every Python of this installation
        return
