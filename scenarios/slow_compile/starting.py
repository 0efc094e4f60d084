"""What both scripts do: start, and train briefly, with a persistent cache that no earlier start has filled."""

import tempfile
from collections.abc import Callable

import torch_xla.runtime as xr

# Before the cache is: this sets the environment of the device, which initialize_cache starts.
from cells import train
from torch import Tensor, nn


def start(run_layers: Callable[[nn.ModuleList, Tensor], Tensor]) -> None:
    """Compile 56 layers, and train a few steps that keep the device busy for longer than tracing takes."""
    with tempfile.TemporaryDirectory(prefix="tpuprof-scenario-") as folder:
        xr.initialize_cache(folder, readonly=False)
        train(run_layers, layers=56, width=64, batch=2048, steps=5, warmup=2)
