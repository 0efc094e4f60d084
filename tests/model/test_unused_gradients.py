"""Which ops of a program compute gradients that no optimizer uses alone: read from programs of XLA."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tpuprof.decode.hlo_proto import read_hlo_proto
from tpuprof.model.device.unused_gradients import UnusedWork, unused_work

PROGRAMS = Path(__file__).with_name("unused_programs.py")
SHAPE = (64, 48)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, str(PROGRAMS), str(folder)], check=True, env=environment)
    return lambda name: (folder / name).read_bytes()


def products(data, ops):
    """How many of these ops multiply matrices, and how many of the program's do."""
    dots = {each.name for each in read_hlo_proto(data).instructions() if each.opcode == "dot"}
    return len(dots & {op for _, op in ops}), len(dots)


def work_of(data, count=1, shape=SHAPE):
    return unused_work({"step": data}, {shape: count})


def test_the_backward_pass_of_a_teacher_is_for_its_gradients_alone(program):
    """Forward three products, of the student's gradient one; for the teacher's gradient two."""
    found = work_of(program("distill"))
    assert (found.found, found.spare, found.multiplies) == ({SHAPE: 1}, 0, True)
    assert found.sure == found.possible
    assert products(program("distill"), found.sure) == (2, 6)


@pytest.mark.parametrize("name", ["clipped", "read", "set to zero", "moment", "updated"])
def test_gradients_that_a_program_reads_or_does_not_add_up_have_no_work(program, name):
    assert work_of(program(name)) == UnusedWork()


def test_gradients_of_other_dimensions_have_no_work(program):
    assert work_of(program("distill"), shape=(64, 40)) == UnusedWork()


def test_parts_of_gradients_are_those_of_a_program_that_is_split(program):
    found = work_of(program("distill"), shape=(128, 48))
    assert found.found == {(128, 48): 1}
    assert products(program("distill"), found.sure) == (2, 6)


def test_of_more_sums_than_gradients_the_work_is_at_most_that_for_all(program):
    data = program("two sums")
    one, both = work_of(data), work_of(data, count=2)
    assert (one.found, one.spare, one.sure) == ({SHAPE: 1}, 1, frozenset())
    assert one.possible == both.possible == both.sure
    assert products(data, one.possible)[0] == 4
    assert (both.found, both.spare) == ({SHAPE: 2}, 0)


def test_in_a_loop_the_work_of_each_turn_counts(program):
    found = work_of(program("in a loop"))
    assert products(program("in a loop"), found.sure)[0] == 2


def test_of_a_program_that_only_adds_it_is_known_that_the_gradients_are_made_elsewhere(program):
    found = work_of(program("elsewhere"))
    assert (found.found, found.multiplies) == ({SHAPE: 1}, False)
    assert {program_name for program_name, _ in found.sure} == {"step"}


def test_a_table_whose_gradient_is_scattered_into_the_sum_holds_the_way_back_to_it(program):
    """The product that hands the gradient on to the rows is dead as well: a teacher's was left out of the price."""
    data = program("table")
    table = (90, 64)
    assert any(each.opcode == "scatter" for each in read_hlo_proto(data).instructions())
    both = unused_work({"step": data}, {SHAPE: 1, table: 1})
    assert both.found == {SHAPE: 1, table: 1}
    alone = products(data, work_of(data).sure)[0]
    assert products(data, both.sure)[0] > alone


def test_a_scatter_that_takes_the_largest_is_no_sum(program):
    assert work_of(program("largest"), shape=(90, 64)) == UnusedWork()


def test_programs_of_several_kinds_of_steps_hold_the_same_gradients(program):
    data = program("distill")
    found = unused_work({"one": data, "other": data}, {SHAPE: 1})
    assert (found.found, found.spare) == ({SHAPE: 1}, 0)
    assert {name for name, _ in found.sure} == {"one", "other"}


def test_what_is_no_program_has_no_work():
    assert work_of(b"no program") == UnusedWork()
