"""Compiled programs are kept in a folder, and a start finds those of the one before it."""

import os
import tempfile

# Read when the backend starts.
os.environ["TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT"] = os.path.join(
    tempfile.gettempdir(), "tpuprof-scenario-torch-tpu-cache"
)

from stack import train

train()
