"""Which results could have had an input's memory, and whose gradients are added up: read from programs of XLA."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tpuprof.decode import hlo_pb2
from tpuprof.model.device.accumulation import batches_in_one_program
from tpuprof.model.device.donation import Undonated, undonated
from tpuprof.model.device.memory import device_memory

PROGRAMS = Path(__file__).with_name("donation_programs.py")
# Of a weight of 64 x 128 numbers in float32.
BYTES = 64 * 128 * 4


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, str(PROGRAMS), str(folder)], check=True, env=environment)

    def read(name):
        proto = hlo_pb2.HloProto()
        proto.hlo_module.ParseFromString((folder / name).read_bytes())
        return proto

    return read


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("update", BYTES),
        ("update in place", 0),
        # A gradient is as large as its weight, which lives on.
        ("gradient", 0),
        ("accumulate", BYTES),
        ("accumulate in place", 0),
        ("adam", 2 * BYTES),
        ("adam, moment in place", BYTES),
        ("write a row", BYTES),
        ("loop", BYTES),
        ("concatenate", 0),
        ("cast", 0),
    ],
)
def test_what_replaces_an_input(program, name, lost):
    assert undonated(program(name)).bytes == lost


@pytest.mark.parametrize(
    ("name", "copies"),
    [("write a row", 1), ("write a row in place", 0), ("update", 0), ("adam", 0), ("other order", 0)],
)
def test_copies_of_inputs_that_must_not_be_overwritten(program, name, copies):
    proto = program(name)
    names = {each.name.decode() for every in proto.hlo_module.computations for each in every.instructions}
    found = undonated(proto).copies
    assert len(found) == copies
    assert names.issuperset(found)


@pytest.mark.parametrize(
    ("name", "updates"),
    [
        # One multiplication of activations that is called outside of any jitted function, and a chain of such.
        ("one op", False),
        ("several ops", False),
        # Nothing tells it from an op.
        ("optimizer of one weight", False),
        ("bias correction", False),
        ("optimizer", True),
        ("adam", True),
        ("update", True),
        ("write a row", True),
        ("update in place", False),
    ],
)
def test_which_programs_update_what_they_are_given(program, name, updates):
    assert undonated(program(name)).updates is updates


@pytest.mark.parametrize(
    ("name", "shares", "lost"),
    [
        ("one op", {"f(1)": 0.4}, 0),
        ("one op", {"f(1)": 0.6}, BYTES),
        ("update", {"f(1)": 0.4}, BYTES),
        ("one op", None, 0),
    ],
)
def test_one_op_replaces_its_inputs_only_where_it_is_the_step(program, name, shares, lost):
    proto = program(name)
    proto.buffer_assignment.buffer_allocations.add(index=0, size=3 * BYTES, maybe_live_out=True)
    assert device_memory({"f(1)": proto.SerializeToString()}, "", shares).undonated == lost


@pytest.mark.parametrize(
    ("name", "batches"),
    # Time steps and views of a batch share work: their gradients are no sum over batches.
    [("micro-batches", 5), ("one batch", 1), ("recurrent", 1), ("views", 1), ("cast", 1), ("loop", 1)],
)
def test_batches_whose_gradients_are_added_up(program, name, batches):
    assert batches_in_one_program(program(name)) == batches


def test_a_damaged_program_ends_nowhere(program):
    proto = program("update")
    for computation in proto.hlo_module.computations:
        for each in computation.instructions:
            each.operand_ids[:] = [each.id, 10**9]
    assert undonated(proto) == Undonated(0, (), updates=False)
    assert undonated(hlo_pb2.HloProto()) == Undonated(0, (), updates=False)
    assert batches_in_one_program(proto) == 1
    assert batches_in_one_program(hlo_pb2.HloProto()) == 1
