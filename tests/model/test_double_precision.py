"""Device time in float64 is told of; scalars and small arrays are not what a program computes in."""

from types import SimpleNamespace

import numpy as np
import pytest

from tpuprof.decode import hlo_pb2
from tpuprof.model.compile.hlo_metadata import ARRAY_FROM, F64
from tpuprof.model.device.double_precision import double_precision
from tpuprof.model.device.op_kind import OpKind

F32 = 11


def program(*ops):
    """A program of ops: (name, element type, dimensions)."""
    proto = hlo_pb2.HloProto()
    computation = proto.hlo_module.computations.add(name=b"main")
    for name, element_type, dimensions in ops:
        instruction = computation.instructions.add(name=name.encode(), opcode=b"multiply")
        instruction.shape.element_type = element_type
        instruction.shape.dimensions.extend(dimensions)
    return proto.SerializeToString()


def device(**own_ps):
    """A device that works so long in each op of the program `step(1)` (ps)."""
    kinds = [OpKind.CONTAINER if name.startswith("while") else OpKind.COMPUTE for name in own_ps]
    ops = SimpleNamespace(name=[*own_ps], program=["step(1)"] * len(own_ps), kind=np.array(kinds))
    sums = SimpleNamespace(self_ps_in_steps=np.array([*own_ps.values()]))
    return SimpleNamespace(ops=ops, sums=lambda _spans: sums)


def said(device_, *ops):
    return double_precision([device_], SimpleNamespace(spans=None), {"step(1)": program(*ops)})


@pytest.mark.parametrize(("took", "told"), [(9, False), (10, True)])
def test_float64_is_told_of_from_a_tenth_of_the_time_on(took, told):
    notes = said(device(a=took, b=100 - took), ("a", F64, [64, 64]), ("b", F32, [64, 64]))
    assert bool(notes) == told
    if told:
        assert notes[0].startswith("10 % of the device's time goes to ops in float64")


@pytest.mark.parametrize(
    ("dimensions", "told"), [([], False), ([ARRAY_FROM - 1], False), ([ARRAY_FROM], True)]
)
def test_scalars_and_small_arrays_are_left_out(dimensions, told):
    assert bool(said(device(a=50, b=50), ("a", F64, dimensions), ("b", F32, [64]))) == told


def test_a_loop_is_not_counted_beside_its_body():
    assert not said(
        device(a=5, b=95, while_=1000), ("a", F64, [4096]), ("b", F32, [4096]), ("while_", F64, [4096])
    )


def test_a_damaged_program_tells_nothing():
    assert double_precision([device(a=5)], SimpleNamespace(spans=None), {"step(1)": b"\xff\xff"}) == []
