"""The decoder sharded over four CPU devices with FSDPv2; `scan` as second argument folds the layers too."""

import os
import sys

os.environ["CPU_NUM_DEVICES"] = "4"

import numpy as np
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from common import decoder, random_tokens, record, trainer
from torch_xla.experimental.scan_layers import scan_layers
from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel as FSDPv2

from tpuprof.demo.decoder import Block, Shape

# Few, so that the sample stays small: four devices leave four times the ops in the trace.
LAYERS, STEPS = 1, 4

xr.use_spmd()
mesh = xs.Mesh(np.arange(4), (4, 1), ("fsdp", "model"))
xs.set_global_mesh(mesh)


def shard_output(output, mesh) -> None:
    xs.mark_sharding(output, mesh, ("fsdp", None, None))


model = decoder(Shape(layers=LAYERS, width=64), run_layers=scan_layers if "scan" in sys.argv[2:] else None)
if "scan" not in sys.argv[2:]:
    for index, layer in enumerate(model.layers):
        model.layers[index] = FSDPv2(layer, mesh=mesh, shard_output=shard_output)
assert all(isinstance(layer, Block | FSDPv2) for layer in model.layers)
train = trainer(FSDPv2(model, mesh=mesh, shard_output=shard_output))


def step(_: int) -> None:
    tokens = random_tokens(8, 33)
    xs.mark_sharding(tokens, mesh, ("fsdp", None))
    train(tokens)


record(step, STEPS)
