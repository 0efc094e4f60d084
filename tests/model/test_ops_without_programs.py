"""Where far more ops are called than programs run, the verdict says that most of them may compute on the host."""

from types import SimpleNamespace

import pytest

from tpuprof.analysis.sections.ops_without_programs import OPS_PER_PROGRAM, said_of_ops_without_programs
from tpuprof.model.host.eager_dispatch import EagerDispatch


def said(ops, programs, optimizer_ps=1.0):
    hosts = [SimpleNamespace(eager=None), SimpleNamespace(eager=EagerDispatch(ops, programs, optimizer_ps))]
    return said_of_ops_without_programs(hosts)


def test_small_ops_on_the_cpu_are_said_not_to_become_programs():
    """Pictures were augmented one by one: 551 ops and 6 programs per step, and "hands programs over" was all."""
    assert said(551.2, 6.0).startswith(" The host calls 551 ops per step, which become 6 programs: unless")
    assert said(OPS_PER_PROGRAM, 1.0).startswith(" The host calls 8 ops per step, which become 1 program:")


@pytest.mark.parametrize(
    ("ops", "programs", "optimizer_ps"),
    [
        (OPS_PER_PROGRAM - 0.1, 1.0, 1.0),
        (100.0, 0.0, 1.0),
        # JAX names functions that are called, and no ops.
        (100.0, 1.0, None),
    ],
)
def test_else_nothing_is_said(ops, programs, optimizer_ps):
    assert not said(ops, programs, optimizer_ps)


def test_hosts_of_which_none_calls_ops_say_nothing():
    assert not said_of_ops_without_programs([SimpleNamespace(eager=None)])
