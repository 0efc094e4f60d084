"""When it is said that nothing cuts the graph: by what a capture of tpuprof knows of optimizers, cuts and reads."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tests.rules.given import given
from tests.rules.situations import uncut
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.compile.cause import CompileCause
from tpuprof.model.compile.compiles import Compile
from tpuprof.model.compile.growth import GROWS_FROM
from tpuprof.model.host.graph_cuts import GraphCut
from tpuprof.model.steps.table import StepSource
from tpuprof.model.telemetry import StepRecord
from tpuprof.report.labels import OTHER_CUT
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.signals.host import (
    UNCUT_BEFORE_FROM,
    UNCUT_FROM_STEPS,
    off_device_in,
    off_device_steps,
    uncut_in,
)

TRACED = {"CreateXlaTensor": 34}


class Steps(list):
    def __init__(self, count, source):
        super().__init__(range(count))
        self.source = source


def host(
    steps=UNCUT_FROM_STEPS,
    stepped=None,
    cuts=(),
    counters=(),
    framework="torch_xla",
    more_ops=(),
    devices=(),
    traced=0,
):
    return SimpleNamespace(
        framework=framework,
        steps=Steps(steps, StepSource.READS if more_ops else StepSource.OPTIMIZER),
        optimizer_steps=steps if stepped is None else stepped,
        graph_cuts=[GraphCut(call, "train.py:8", steps) for call in cuts],
        devices=list(devices),
        breakdown=SimpleNamespace(parts={"tracing": np.array([traced]), "host:python": np.array([9])}),
        compiles=[compiled(each) for each in more_ops],
        records=[StepRecord(number, 10**6, True, each) for number, each in enumerate(counters)],
    )


def compiled(more_ops):
    """A compile of a graph with so many ops more than the one before; None: it has another cause."""
    cause = CompileCause("graph", "", "", more_ops) if more_ops is not None else CompileCause("shape", "")
    return Compile(0, "", "", 0, 1, cause)


@pytest.mark.parametrize(
    ("more_ops", "found"),
    [
        # Each holds one step more than the one before.
        ([31] * GROWS_FROM, 6),
        ([31], 0),
        # Of steps that differ, more are needed: one more where they hardly do.
        ([200, 190, 195], 6),
        ([200, 189, 195], 0),
        ([200, 195], 0),
        ([31, 29, 31, 32], 6),
        ([31, 29, 31], 0),
        # Rounds of a loop come and go.
        ([31, -31, 31, -31], 0),
        ([31, 31, 0, 31], 0),
        ([31, 31, None], 6),
        ([31, 31, None, None], 0),
    ],
)
def test_without_an_optimizer_graphs_that_grow_tell(more_ops, found):
    assert uncut_in(host(steps=6, stepped=0, more_ops=more_ops)) == found


def before(*counters, compiles=5):
    """Steps from reads, of a process that noted others before them: skorch's `fit` never cuts, and takes a minute each."""
    found = host(steps=9, stepped=0, more_ops=[31, -31])
    found.records = [
        StepRecord(number, 10**6, False, {"UncachedCompile": 5, **each}, compiles)
        for number, each in enumerate(counters)
    ]
    return found


@pytest.mark.parametrize(
    ("situation", "found"),
    [
        (before(*[{}] * UNCUT_BEFORE_FROM), 9),
        (before(*[{}] * (UNCUT_BEFORE_FROM - 1)), 0),
        (before({}, {}, {"MarkStep": 1}), 0),
        # Graphs that come again are no growing one.
        (before({}, {"CachedCompile": 1}), 0),
        (before({}, {}, compiles=0), 0),
    ],
)
def test_steps_before_the_capture_that_never_cut_tell_too(situation, found):
    """Nine compiles of gradient norms in one step were "let the decision be data"."""
    assert uncut_in(situation) == found


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
        (host(cuts=["item", OTHER_CUT]), 0),
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


CUT = {"MarkStep": 1}


@pytest.mark.parametrize(
    ("situation", "found"),
    [
        (host(counters=[CUT, CUT]), 2),
        (host(counters=[CUT, {**CUT, **TRACED}]), 0),
        (host(counters=[CUT, {**CUT, "CachedCompile": 1}]), 0),
        (host(counters=[CUT, CUT], devices=["CPU"]), 0),
        # Where nothing was counted, the trace tells.
        (host(counters=[{}, {}]), 2),
        (host(counters=[{}, {}], traced=1), 0),
        # Samples in PyTorch's code look like tracing: without an event of torch_xla it is PyTorch's own work.
        (host(counters=[{}, {}], traced=1, framework="unknown"), 2),
        # Nobody counted.
        (host(), 0),
    ],
)
def test_steps_without_a_tensor_and_a_graph_use_nothing_of_the_device(situation, found):
    assert off_device_in(situation) == found


@pytest.mark.parametrize(
    ("traced", "stated", "found"),
    # A trace without any event of torch_xla names no framework: the capture does.
    [("torch_xla", "", 2), ("unknown", "torch_xla", 2), ("unknown", "jax", 0), ("jax", "jax", 0)],
)
def test_only_torch_xla_leaves_tensors_on_the_cpu(traced, stated, found):
    run = SimpleNamespace(hosts=[host(counters=[CUT, CUT], framework=traced)], info={"framework": stated})
    assert off_device_steps(run) == found


@pytest.mark.parametrize(
    ("counters", "said"),
    [
        (TRACED, "Unknown: no graph ran in 6 cap"),
        ({}, "Tracing-b"),
        ({"MarkStep": 1}, "Unknown: nothing of 6 cap"),
    ],
)
def test_the_verdict_of_steps_that_run_no_graph_is_not_that_they_trace(tmp_path, counters, said):
    """Nobody knows what such a step takes: the device has yet to do it."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for begin in range(0, 6000, 1000):
        python.event("train_step", begin, 1000, _r=1, step_num=begin // 1000)
        python.event("PjRtComputationClient::TransferToDevice", begin + 10, 5)
        python.event("tpuprof.optimizer_step", begin + 900, 1, optimizer=0, tpuprof="optimizer_step")
        trace.sampled(begin, 1000, ops=34, stack=1, frames="f (train.py:9)", source="train.py:9")
    trace.write(tmp_path / "plugins" / "profile" / "x" / "vm.xplane.pb")
    rows = [
        {"step": step, "wall_ns": 10**6, "captured": True, "counters": counters, "compiles": []}
        for step in range(6)
    ]
    (tmp_path / "tpuprof").mkdir()
    (tmp_path / "tpuprof" / "run.json").write_text(json.dumps({"schema": "tpuprof.run/1"}))
    (tmp_path / "tpuprof" / "telemetry.vm.0.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert analyze_run(tmp_path).verdict.sentence.startswith(said)


@pytest.mark.parametrize(
    ("source", "confidence"), [(StepSource.OPTIMIZER, "high"), (StepSource.READS, "medium")]
)
def test_without_an_optimizer_steps_may_differ_once_they_are_cut(source, confidence):
    """A generated text: "saves 1.61 s per step", high, of graphs whose lengths grow with each word anyway."""
    found = outcome_of(find_rule("no-graph-cut"), given(**uncut(0.5, "item", method=source.value)))
    assert (found.status, found.confidence) == ("failed", confidence)
