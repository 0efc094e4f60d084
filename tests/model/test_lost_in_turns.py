"""What reads cost by turns: of the same steps, not of host and device time summed over all of them."""

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tpuprof.model.lost_in_turns import idle_at_reads, lost_in_turns
from tpuprof.rules.base import FAILED, PASSED

SOURCE = "train.py:25"
STEPS, SAVES = 20, 220


def column(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("walls", "busy", "works", "lost"),
    [
        # In turns in each step.
        ([20] * 4, [10] * 4, [10] * 4, [10] * 4),
        # The host's work of one step: no step is faster side by side.
        ([11, 11, 100, 11], [10, 10, 10, 10], [1, 1, 90, 1], [1, 10, 10, 10]),
        # Two networks take turns of another kind: what one needs on the host, the other needs on the device.
        ([12] * 4, [2, 10] * 2, [10, 2] * 2, [6] * 4),
        ([20], [10], [8], [10]),
        # Devices of several threads may work for longer than the step.
        ([20] * 2, [25] * 2, [8] * 2, [0] * 2),
    ],
)
def test_turns_are_of_two_steps_at_most(walls, busy, works, lost):
    assert lost_in_turns(column(*walls), column(*busy), column(*works)).tolist() == lost


def test_reads_answer_for_idle_time_of_their_own_steps():
    idle, blocked = column(1, 1, 90, 90), column(10, 10, 10, 10)
    assert idle_at_reads(idle, blocked).tolist() == [1, 10, 10, 10]
    assert idle_at_reads(column(-5), column(3)).tolist() == [0]


def read_in_each(analyze, checkpoints):
    """The report of steps that read a loss of 10 ms of work, while `checkpoints` of the steps save for long as well."""
    trace, at = TraceBuilder(), 0
    python = trace.host().line("python")
    modules, ops = (trace.tpu(0).line(name) for name in ("XLA Modules", "XLA Ops"))
    for number in range(STEPS):
        saves = STEPS * (SAVES // STEPS) * 1000 // checkpoints if number >= STEPS - checkpoints else 0
        python.event("train_step", at, 11_000 + saves, _r=1, step_num=number, tpuprof="step", origin="user")
        python.event("StepMarker", at, 900)
        python.event("SyncTensorsGraph", at, 900)
        modules.event("step(7)", at + 1000, 10_000)
        ops.event("dot.1", at + 1000, 10_000)
        python.event("tpuprof.host_read", at + 1000, 10_000, tpuprof="host_read", call="item", source=SOURCE)
        if saves:
            trace.sampled(at, 11_000).sampled(
                at + 11_000, saves, frames="save (ckpt.py:18)", source="ckpt.py:18"
            )
        at += 11_000 + saves
    return analyze(trace)


def test_a_save_in_one_step_is_no_turn_that_reads_of_all_steps_make(analyze):
    """60 steps of 11 ms read the loss, and one of them saved for 600 ms: "sync-bound, up to 44 %", which saved nothing."""
    report = read_in_each(analyze, 1)
    assert report.verdict.bound == "host"
    finding = next(each for each in report.findings if each.rule == "device-to-host-sync")
    assert finding.status == PASSED


def test_saves_of_all_steps_are_turns_that_their_reads_make(analyze):
    report = read_in_each(analyze, STEPS)
    assert report.verdict.bound == "sync"
    assert report.verdict.share == pytest.approx(10 / 22, abs=0.01)
    finding = next(each for each in report.findings if each.rule == "device-to-host-sync")
    assert finding.status == FAILED
