"""The same model, with a persistent cache that an earlier start filled."""

import tempfile
from pathlib import Path

import torch_xla.runtime as xr

# Before the cache is: this sets the environment of the device, which initialize_cache starts.
from deep import train_briefly

# The first start fills it; the runner makes one before it captures.
folder = Path(tempfile.gettempdir()) / "tpuprof-scenario-cache"
xr.initialize_cache(str(folder), readonly=False)

train_briefly()
