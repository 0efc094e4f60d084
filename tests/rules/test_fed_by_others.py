"""Where training waits for a queue that others fill, it may wait there for what it saves elsewhere."""

import pytest

from tests.rules.given import given, step
from tpuprof import parts as part
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.base import counterfactual
from tpuprof.rules.fed_by_others import MAY_WAIT_INSTEAD, parts_fed_by_others
from tpuprof.rules.pricing import Pricing, doubted
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.simulate.change import Change

LOCK = "host:lock"
MAIN, WAIT = "<module> (/home/u/serve.py:16)", "wait (/usr/lib/python3.11/threading.py:327)"
QUEUE = "get (/usr/lib/python3.11/queue.py:171)"
WORKERS = "_try_get_data (/venv/torch/utils/data/dataloader.py:1251)"
LOADER = "get (/venv/torch_xla/utils/keyd_queue.py:35)"
ENOUGH = 100 * FAILS_FROM_SHARE


def stack(name, *inside, ms=ENOUGH):
    return HostStackRow(name, [MAIN, *inside], "wait()", "/home/u/serve.py:16", "inbox.get()", ms, 0.0)


@pytest.mark.parametrize(
    ("row", "fed"),
    [
        (stack(LOCK, QUEUE, WAIT), {LOCK}),
        (stack(part.INPUT_WAIT, WORKERS, QUEUE, WAIT), {part.INPUT_WAIT}),
        (stack(part.INPUT_WAIT, LOADER, WAIT), {part.INPUT_WAIT}),
        (stack(LOCK, QUEUE, WAIT, ms=0.99 * ENOUGH), set()),
        # A process that the step itself starts, a loader without workers, a `get` of the program.
        (stack(LOCK, "communicate (/usr/lib/python3.11/subprocess.py:1209)"), set()),
        (stack(part.INPUT_WAIT, "__getitem__ (/home/u/serve.py:7)"), set()),
        (stack(LOCK, "get (/home/u/cache.py:7)"), set()),
    ],
)
def test_waits_for_queues_are_known_by_what_they_call(row, fed):
    assert parts_fed_by_others([row], 100.0) == fed


class Simulator:
    """Each change saves 40 of 100 ms."""

    error, measured_ms = 0.0, 100.0

    def step_ms(self, change):
        return 60.0


@pytest.mark.parametrize(
    ("change", "sure"),
    [
        (Change(unblock=True), False),
        (Change(host={part.TRACING: 0.0}), False),
        # The wait itself, what comes in a few steps, and compiles.
        (Change(host={LOCK: 0.0}), True),
        (Change(unblock=True, steps=frozenset({3})), True),
        (Change(host={part.COMPILE: 0.0}), True),
    ],
)
def test_what_is_saved_elsewhere_may_be_waited_for_instead(change, sure):
    def price(*rows):
        signals = given(steps=[step(100.0)], report={"host_stacks": list(rows)})
        return Pricing(signals, Simulator).savings(counterfactual(change))[0]

    beside = price(stack(LOCK, QUEUE, WAIT))
    assert (beside.low, beside.high) == ((40.0, 40.0) if sure else (0.0, 40.0))
    assert (beside.note == MAY_WAIT_INSTEAD, doubted(beside)) == (not sure, not sure)
    assert price().low == 40.0
