"""When it is said that nothing cuts the graph: by what a capture of tpuprof knows of optimizers, cuts and reads."""

from types import SimpleNamespace

import pytest

from tpuprof.model.host.graph_cuts import OTHER, GraphCut
from tpuprof.model.telemetry import StepRecord
from tpuprof.signals.host import UNCUT_FROM_STEPS, uncut_in

TRACED = {"CreateXlaTensor": 34}


def host(steps=UNCUT_FROM_STEPS, stepped=None, cuts=(), counters=(), framework="torch_xla"):
    return SimpleNamespace(
        framework=framework,
        steps=range(steps),
        optimizer_steps=steps if stepped is None else stepped,
        graph_cuts=[GraphCut(call, "train.py:8", steps) for call in cuts],
        records=[StepRecord(number, 10**6, True, each) for number, each in enumerate(counters)],
    )


@pytest.mark.parametrize(
    ("situation", "found"),
    [
        (host(cuts=["item"]), UNCUT_FROM_STEPS),
        (host(cuts=["item", "cpu"]), UNCUT_FROM_STEPS),
        # The first step may have begun before the capture.
        (host(stepped=UNCUT_FROM_STEPS - 1, cuts=["item"]), UNCUT_FROM_STEPS - 1),
        (host(stepped=UNCUT_FROM_STEPS - 2, cuts=["item"]), 0),
        (host(steps=UNCUT_FROM_STEPS - 1, cuts=["item"]), 0),
        (host(cuts=["item", "sync"]), 0),
        # What no sync and no read explains may be a library's own cut.
        (host(cuts=["item", OTHER]), 0),
        (host(cuts=["item"], framework="torch_tpu"), 0),
        (host(counters=[TRACED, TRACED]), UNCUT_FROM_STEPS),
        (host(counters=[TRACED, {**TRACED, "CachedCompile": 1}]), 0),
        # Neither events nor counters: nobody looked.
        (host(), 0),
        (host(counters=[{}]), 0),
    ],
)
def test_only_an_optimizer_without_any_cut_counts(situation, found):
    assert uncut_in(situation) == found
