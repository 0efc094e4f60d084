"""Keeps what TorchTPU logged while it was captured, where the user had set TORCH_TRACE: a copy in the run folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tpuprof.instrument.state import pass_on
from tpuprof.run_folder import TORCH_TRACE, TORCH_TRACE_LOGS

VARIABLE = "TORCH_TRACE"
# A log larger than this is not kept (bytes).
MOST_BYTES = 256 << 20


def keep(run: Path, since: float) -> None:
    """Copy the logs that were written since then (s since 1970), if there are any."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return
    try:
        for path in Path(folder).glob(TORCH_TRACE_LOGS):
            facts = path.stat()
            if facts.st_mtime >= since and facts.st_size <= MOST_BYTES:
                (run / TORCH_TRACE).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, run / TORCH_TRACE / path.name)
    except OSError as error:
        pass_on(error)
