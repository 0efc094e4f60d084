"""On how many devices a program has the same inputs: what they compute may be the same, too.

With a mesh of two axes, weights that are split over one of them and a batch that is whole leave two devices of four
with the same inputs. Whether the program splits the work inside, by constraints on values, its inputs do not tell.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tpuprof.decode import hlo_pb2
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.model.intervals import Int64

# Types of a sharding in XLA's hlo.proto: each device has all of the value, or a tile.
_REPLICATED, _TILED = 0, 3


@lru_cache(maxsize=PROGRAMS_KEPT)
def alike_inputs(data: bytes) -> int:
    """How many devices have the same inputs as one has, with itself; 1 where each has its own, or nothing tells.

    A program of one device, and one that states no sharding of an input, tell nothing.
    """
    from tpuprof.decode.hlo_proto import split_program

    split = split_program(data)
    if split is None:
        return 1
    module, devices = split
    entry = [each for each in module.computations if each.id == module.entry_computation_id]
    inputs = [each for one in entry for each in one.instructions if each.opcode == b"parameter"]
    classes = np.zeros(devices, np.int64)
    for each in inputs:
        parts = _parts(each.sharding, devices) if each.HasField("sharding") else None
        if parts is None:
            return 1
        classes = np.unique(np.stack([classes, parts]), axis=1, return_inverse=True)[1].reshape(-1)
    count = int(classes.max()) + 1
    return devices // count if inputs and devices % count == 0 else 1


def _parts(sharding: hlo_pb2.OpSharding, devices: int) -> Int64 | None:
    """The number of the part of a value that each device has; None where that is unknown."""
    if sharding.type == _REPLICATED and not sharding.tuple_shardings:
        return np.zeros(devices, np.int64)
    tiles = list(sharding.tile_assignment_dimensions)
    if sharding.type != _TILED or math.prod(tiles) != devices:
        return None
    order = _order(sharding, devices)
    if order is None or sorted(order.tolist()) != list(range(devices)):
        return None
    # Devices along the last axis have the same part.
    alike = tiles[-1] if sharding.replicate_on_last_tile_dim else 1
    found = np.empty(devices, np.int64)
    found[order] = np.arange(devices) // alike
    return found


def _order(sharding: hlo_pb2.OpSharding, devices: int) -> Int64 | None:
    """The devices in the order of tiles: listed, or counted along axes that are exchanged."""
    if sharding.tile_assignment_devices:
        return np.array(sharding.tile_assignment_devices, np.int64)
    shape, axes = list(sharding.iota_reshape_dims), list(sharding.iota_transpose_perm)
    if math.prod(shape) != devices or sorted(axes) != list(range(len(shape))):
        return None
    return np.arange(devices).reshape(shape).transpose(axes).reshape(-1)
