"""What recording adds to steps of very many ops on a CPU device is said with the verdict."""

from types import SimpleNamespace

import numpy as np
import pytest

from tpuprof.model.device.recorded_density import RECORDING_PS, SAID_FROM_SHARE, said_of_recording

MS = 10**9


def host(ops, wall_ms=100, kind="CPU", count=1, after=None, steps=2):
    start = np.arange(steps) * wall_ms * MS
    wall = np.full(steps, wall_ms * MS)
    own = SimpleNamespace(start=start, end=start + wall, wall_ps=wall)
    events = np.linspace(0, steps * wall_ms * MS, ops, endpoint=False).astype(np.int64)
    device = SimpleNamespace(type=kind, count=count, op_events=SimpleNamespace(start=events))
    steps_of = type("Steps", (SimpleNamespace,), {"__len__": lambda each: len(each.start)})
    return SimpleNamespace(steps=steps_of(**vars(own)), devices=[device], after_steps=after)


ENOUGH = int(SAID_FROM_SHARE * 200 * MS / RECORDING_PS)


def test_a_loop_of_many_small_ops_is_said_with_what_recording_takes():
    """A step of 122 ms took 380 as it was recorded, and "16 % of each step" was half of it."""
    said = said_of_recording([host(2 * ENOUGH)])
    assert said == (
        f" To record {ENOUGH:,} ops per step takes about 50 % of these steps (50.0 ms each): without it they are "
        "shorter, and the same idle time is more of them."
    )


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, True),
        ({"ops": ENOUGH - 2}, False),
        # Devices of their own record without the host.
        ({"kind": "TPU v5 lite"}, False),
        # Devices that work side by side are recorded side by side.
        ({"count": 2}, False),
        # Steps without recording were counted: the report compares them.
        ({"after": SimpleNamespace()}, False),
        ({"steps": 0}, False),
    ],
)
def test_it_is_said_where_it_is_much_and_nothing_else_tells(facts, said):
    assert bool(said_of_recording([host(**{"ops": ENOUGH, **facts})])) is said


def test_nothing_is_said_without_hosts():
    assert said_of_recording([]) == ""
