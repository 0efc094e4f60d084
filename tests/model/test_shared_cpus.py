"""A device that is this machine's CPU is slower while the host's own code runs beside it: the verdict says so."""

from types import SimpleNamespace

import pytest

from tpuprof.analysis.sections.shared_cpus import OWN_CODE_FROM_SHARE, said_of_shared_cpus
from tpuprof.model.busy_machine import ALL_CPUS_FROM_SHARE, DISTURBED_FROM_SHARE
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.report.sections import HostStackRow

STEP = 10.0


def said(
    used=ALL_CPUS_FROM_SHARE,
    took=OWN_CODE_FROM_SHARE,
    word="device",
    device="CPU",
    part="host:python",
    rows=2,
    lines=1,
    waited=None,
    call="np.pad(x)",
    count=1,
):
    """The sentence where two stacks of a line take such a share of the step, most of it behind the device's work."""
    info = {"capture": {"cpus_used": 2 * used, "cpus": 2, "cpu_wait_share": waited}}
    run = SimpleNamespace(
        info=info, hosts=[SimpleNamespace(devices=[SimpleNamespace(type=device, count=count)])]
    )
    each = took * STEP / rows
    stacks = [
        HostStackRow(part, ["f (a.py:7)"], call, f"a.py:{7 + row % lines}", call, 0.1 * each, 0.9 * each)
        for row in range(rows)
    ]
    return said_of_shared_cpus(run, Bound(word, 0.9, 9.0), StepTimes(STEP, {}, 9.0, 5.0, 0.0), stacks)


def test_the_line_and_what_it_takes_are_said():
    assert (
        "code at a.py:7 (np.pad(x)) runs beside it for 2.00 ms of each step. The program used 85 %" in said()
    )


def test_lines_count_together():
    assert "code at a.py:7 (np.pad(x)) and other lines runs beside it for 2.00 ms" in said(lines=2)


@pytest.mark.parametrize(
    ("call", "told"), [("decode(x)", True), ("q.get()", False), ("time.sleep(1)", False)]
)
def test_batches_that_the_training_thread_makes_count(call, told):
    """PIL decoded for 45 ms of steps of 57 ms, which took 33 ms without: "the host keeps up" was all that was said."""
    text = said(part="input_wait", call=call)
    assert (f"code at a.py:7 ({call}) runs beside it for 2.00 ms" in text) is told
    assert bool(text) is told


@pytest.mark.parametrize(
    ("waited", "words"),
    [(DISTURBED_FROM_SHARE, "Its threads waited for a CPU for"), (DISTURBED_FROM_SHARE - 0.01, "")],
)
def test_threads_that_wait_for_a_cpu_are_as_good_a_sign(waited, words):
    text = said(used=0.5, waited=waited)
    assert words in text
    assert bool(text) == bool(words)


@pytest.mark.parametrize(
    "given",
    [
        {"used": ALL_CPUS_FROM_SHARE - 0.01},
        {"took": OWN_CODE_FROM_SHARE - 0.01},
        {"word": "sync"},
        {"device": "TPU v5 Lite"},
        {"part": "tracing"},
        # Four devices computed the same, and "without model(x) the device may be faster" was said.
        {"count": 4},
    ],
)
def test_else_nothing_is_said(given):
    assert said(**given) == ""


def test_without_a_count_of_cpus_nothing_is_said():
    run = SimpleNamespace(info={}, hosts=[])
    assert said_of_shared_cpus(run, Bound("device", 0.9, 9.0), StepTimes(STEP, {}, 9.0, 5.0, 0.0), []) == ""
