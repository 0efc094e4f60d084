"""Training the head of a model over four CPU devices, its frozen layers sharded by FSDPv2 or replicated."""

import os

os.environ["CPU_NUM_DEVICES"] = "4"

import numpy as np
import torch
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from common import Shape, Trainer, decoder, run, tokens
from torch.func import functional_call
from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel as FSDPv2


def train_head(*, shard_parameters: bool) -> None:
    """Train on batches so small that parameters outweigh activations.

    The layers are frozen: where they are trained, sharding also spares each CPU device three quarters of the
    optimizer's work, which here is as dear as the gathers.
    """
    xr.use_spmd()
    mesh = xs.Mesh(np.arange(4), (4, 1), ("fsdp", "model"))
    xs.set_global_mesh(mesh)

    def shard_output(output: object, mesh: xs.Mesh) -> None:
        xs.mark_sharding(output, mesh, ("fsdp", None, None))

    def whole(parameter: torch.Tensor) -> torch.Tensor:
        """The parameter, gathered: for so few tokens XLA would move activations instead, for a real batch never."""
        copy = parameter * 1.0
        xs.mark_sharding(copy, mesh, (None,) * copy.dim())
        return copy

    def run_layers(layers: torch.nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = functional_call(layer, {name: whole(each) for name, each in layer.named_parameters()}, (x,))
        return x

    model = decoder(Shape(layers=2, width=640, heads=8), run_layers=run_layers)
    model.embed.requires_grad_(False)
    model.layers.requires_grad_(False)
    if shard_parameters:
        for index, layer in enumerate(model.layers):
            model.layers[index] = FSDPv2(layer, mesh=mesh, shard_output=shard_output)
        model = FSDPv2(model, mesh=mesh, shard_output=shard_output)
    train = Trainer(model)
    batch = tokens(4, 5)
    xs.mark_sharding(batch, mesh, ("fsdp", None))
    run(lambda _: train(batch), steps=40)
