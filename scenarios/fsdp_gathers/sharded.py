"""Training over four CPU devices, with the parameters sharded by FSDPv2 or replicated."""

import os

os.environ["CPU_NUM_DEVICES"] = "4"

import numpy as np
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from common import Shape, Trainer, decoder, run, tokens
from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel as FSDPv2


def train_sharded(*, shard_parameters: bool) -> None:
    """Train a wide model on small batches, so that parameters outweigh activations."""
    xr.use_spmd()
    mesh = xs.Mesh(np.arange(4), (4, 1), ("fsdp", "model"))
    xs.set_global_mesh(mesh)

    def shard_output(output: object, mesh: xs.Mesh) -> None:
        xs.mark_sharding(output, mesh, ("fsdp", None, None))

    model = decoder(Shape(layers=2, width=768))
    if shard_parameters:
        for index, layer in enumerate(model.layers):
            model.layers[index] = FSDPv2(layer, mesh=mesh, shard_output=shard_output)
        model = FSDPv2(model, mesh=mesh, shard_output=shard_output)
    train = Trainer(model)
    batch = tokens(4, 5)
    xs.mark_sharding(batch, mesh, ("fsdp", None))
    run(lambda _: train(batch))
    torch_xla.sync(wait=True)
