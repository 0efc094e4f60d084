"""On how many devices a program has the same inputs, by the shardings that it states."""

import pytest

from tests.rules.given import computed, given, op
from tpuprof.decode import hlo_pb2
from tpuprof.model.device.alike_inputs import alike_inputs
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of

WHOLE = {"type": 0}
# Over the second axis of a mesh of 2 by 2, whose devices are 0, 1 and 2, 3: listed, and counted along exchanged axes.
LISTED = {"type": 3, "tile_assignment_dimensions": [2, 1, 2], "tile_assignment_devices": [0, 2, 1, 3],
          "replicate_on_last_tile_dim": True}  # fmt: skip
COUNTED = {"type": 3, "tile_assignment_dimensions": [2, 1, 2], "iota_reshape_dims": [2, 2],
           "iota_transpose_perm": [1, 0], "replicate_on_last_tile_dim": True}  # fmt: skip
# Over the first axis, and over both.
FIRST = {"type": 3, "tile_assignment_dimensions": [2, 1, 2], "iota_reshape_dims": [4], "iota_transpose_perm": [0],
         "replicate_on_last_tile_dim": True}  # fmt: skip
BOTH = {"type": 3, "tile_assignment_dimensions": [2, 2], "tile_assignment_devices": [0, 1, 2, 3]}


def program(*shardings, devices=4, replicas=1):
    module = hlo_pb2.HloModuleProto(name=b"step", entry_computation_name=b"main", entry_computation_id=1)
    module.device_assignment.computation_count = devices
    module.device_assignment.replica_count = replicas
    main = module.computations.add(name=b"main", id=1, root_id=9)
    for number, sharding in enumerate(shardings):
        each = main.instructions.add(name=b"p.%d" % number, opcode=b"parameter", id=number)
        if sharding is not None:
            each.sharding.CopyFrom(hlo_pb2.OpSharding(**sharding))
    main.instructions.add(name=b"h", opcode=b"dot", id=9)
    return module.SerializeToString()


@pytest.mark.parametrize(
    ("shardings", "alike"),
    [
        ([WHOLE, LISTED], 2),
        ([WHOLE, COUNTED], 2),
        ([LISTED, COUNTED], 2),
        ([WHOLE, FIRST, LISTED], 1),
        ([WHOLE, BOTH], 1),
        ([WHOLE, WHOLE], 4),
    ],
)
def test_devices_that_no_input_tells_apart(shardings, alike):
    assert alike_inputs(program(*shardings)) == alike


@pytest.mark.parametrize(
    "data",
    [
        program(WHOLE, None),
        program(WHOLE, {"type": 4}),
        program(WHOLE, {**LISTED, "tile_assignment_devices": [0, 0, 1, 3]}),
        program(WHOLE, {**COUNTED, "iota_transpose_perm": [0, 0]}),
        program(WHOLE, {**LISTED, "tile_assignment_dimensions": [3, 1]}),
        program(),
        program(WHOLE, devices=1),
        program(WHOLE, LISTED, replicas=2),
        b"no program",
        b"",
    ],
)
def test_what_is_unknown_tells_nothing(data):
    assert alike_inputs(data) == 1


def test_devices_with_the_same_inputs_may_compute_the_same():
    """Weights over one axis of a mesh of 2 by 2, and a batch that is whole: "devices hardly compute the same"."""
    outcome = outcome_of(
        find_rule("repeated-work"), given(**computed(op("h", 90.0, repeated=0)), alike_inputs=2)
    )
    assert (outcome.status, outcome.confidence) == ("failed", "low")
    assert outcome.title == "No input tells 2 devices of the mesh apart, so they may compute the same"
    assert outcome.price.savings is None or outcome.price.savings.low == 0.0
