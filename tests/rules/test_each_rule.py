"""What each rule says: failed, passed, not applicable, unavailable, on both sides of its thresholds."""

from dataclasses import replace

import pytest

from tests.rules.given import (
    asleep,
    barriers,
    cache,
    compiled,
    fallen,
    given,
    growing,
    loop,
    memory,
    noting,
    one_host,
    op,
    record,
    step,
    steps,
    summary,
    transfer,
    two_hosts,
    undonated,
)
from tests.rules.situations import (
    ABOVE,
    BELOW,
    NOTHING,
    accumulated,
    again,
    attention,
    called_by_themselves,
    collectives,
    compiled_for_reads,
    computed_again,
    cut,
    debug,
    dispatched,
    eager,
    flags,
    flushed,
    foreseen,
    given_up,
    goes_on,
    host_alone,
    in_parts,
    in_the_start,
    info,
    offloaded,
    parts_of,
    read_in_backward,
    read_in_one,
    reading_in_each,
    reads,
    recompiled,
    scan,
    selects,
    short_calls,
    special,
    started,
    started_by_reads,
    tools,
    tpu,
    traced,
    uncut,
    unused,
    updates,
    waits_behind_work,
)
from tpuprof.model.compile.unseen import unseen_compiles
from tpuprof.model.device.compute import PADDED_FROM
from tpuprof.model.device.unused_gradients import UnusedWork
from tpuprof.model.held_gradients import HeldGradients
from tpuprof.model.host.eager_mode import EagerOps
from tpuprof.model.python_tools import ANOMALY
from tpuprof.model.telemetry import StepRecord
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE
from tpuprof.report.schema import Cause, HostReadRow
from tpuprof.report.sections import Hosts
from tpuprof.rules import thresholds
from tpuprof.rules.input.input_starved.rule import PACED_FROM_SHARE
from tpuprof.rules.registry import all_rules, find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.tracing.eager_dispatch.rule import EAGER_FROM_PROGRAMS
from tpuprof.rules.tracing.graph_breaks.rule import CALLED_FROM
from tpuprof.rules.tracing.optimizer_loop.rule import KNOWN_FROM_SAMPLES, LOOP_FROM_OPS
from tpuprof.signals import Unavailable
from tpuprof.signals.device import SHORT_OP_MS
from tpuprof.units import PS_PER_MS

CPU = {"is_tpu": False}
ON_CPU = {"is_tpu": False, "framework": "torch_xla"}


def on_tpu(version):
    return {"is_tpu": True, "framework": "torch_xla", "info": {"versions": {"torch_xla": version}}}


def beside_a_read(signals):
    """The same signals of a program that reads a value of its own in each step."""
    report = {**signals["report"], "host_reads": [HostReadRow("item", "train.py:20", 10, 1.0)]}
    return {**signals, "report": report, "steps": steps()}


AHEAD_OF_COMPILES = unseen_compiles([], [StepRecord(0, 0, captured=True, counters={"UncachedCompile": 3})])[0]
CALLBACK = op("pure_callback.1", kind="host_callback")
GATHER = "all-gather"


def on_cpu(facts):
    return {**facts, "report": {**facts["report"], "environment": {"device_type": "CPU"}}}


GATHER_BESIDE_COMPUTE = transfer(GATHER, hidden=5.0)
GATHER_OF_PARAMETER = transfer(GATHER, role="parameter_gather")
NEW_COUNT = replace(compiled("shape"), cause=Cause("shape", "s64[29,1] became s64[30,1]", "train.py", 9))
OLD = info(versions={"torch_xla": "2.6.0"}, cxx11_abi=False)
NEW_ABI = info(versions={"torch_xla": "2.6.0"}, cxx11_abi=True)
SLOW = thresholds.SLOW_COMPILE_FROM_SECONDS
ACCUMULATED = thresholds.ACCUMULATED_FROM_BATCHES
LAYERS = thresholds.UNROLLED_FROM_LAYERS
TORCH_COMPILE = thresholds.TORCH_COMPILE_FROM_SHARE
# Frames of torch below an optimizer's `step`: its decorator, and a call of a module.
NO_GRAD = "decorate_context (/lib/torch/utils/_contextlib.py:120)"
MODULE = "_call_impl (/lib/torch/nn/modules/module.py:1786)"


# By rule: (what is tested, the status that must come out, the signals). A rule that can never fail, or always has an
# answer, has no case of that kind; EXCEPTIONS says which and why.
def python(count, ms):
    """Steps that take 40 ms, and run other code for so long beside that (ms)."""
    return [step(40 + ms, row, **{"host:python": ms}) for row in range(count)]


CASES = {
    "host-blocked": [
        ("beside a device on the same CPUs", "failed", {"steps": steps(compute=50.0, **{"host:python": 40.0}), "host_stacks": [asleep(40.0, part="host:python")], "device_type": "CPU", "busy_share": 0.5, "run_info": {"capture": {"cpus": 2, "cpus_used": 1, "cpu_wait_share": 0.4}}}),
        ("asleep", "failed", {"steps": steps(), "host_stacks": [asleep(100 * ABOVE)]}),
        ("a short sleep", "passed", {"steps": steps(), "host_stacks": [asleep(100 * BELOW)]}),
        ("behind the device", "passed", {"steps": steps(), "host_stacks": [asleep(0.0, hidden=50.0)]}),
        ("other Python", "failed", {"steps": steps(), "host_stacks": [asleep(100 * ABOVE, part="host:python")]}),
        ("other Python on the device's CPUs", "failed", {"steps": steps(), "host_stacks": [asleep(100 * ABOVE, part="host:python")], "device_type": "CPU"}),
        ("two looks of the sampler", "failed", {"steps": steps(8, wall=10.0), "host_stacks": [asleep(thresholds.SAMPLED_FROM_MS / 8)]}),
        ("hardly one", "unavailable", {"steps": steps(8, wall=10.0), "host_stacks": [asleep(thresholds.SAMPLED_FROM_MS / 8 - 0.1)]}),
        ("not sampled", "unavailable", {"steps": steps()}),
        ("a callback", "failed", {"steps": steps(host_callback=100 * ABOVE), "ops": [CALLBACK], "callback_alone_ms": 50.0}),
        ("a short callback", "unavailable", {"steps": steps(host_callback=100 * BELOW)}),
    ],
    "tracing-bound": [
        ("nothing cuts the graph", "passed", {**traced(ABOVE), **uncut(ABOVE, "item")}),
        ("tracing or other Python", "unavailable", {**traced(BELOW), "steps": steps(tracing=5.0, host_other=20.0)}),
        ("enough", "failed", traced(ABOVE)),
        ("too little", "passed", traced(BELOW)),
        ("turns", "passed", traced(0.5, bound="sync")),
        ("reads, and more tracing than the device hides", "failed", traced(0.6, bound="sync")),
        ("jax", "not_applicable", {"framework": "jax"}),
        ("no steps", "unavailable", {"framework": "torch_xla"}),
    ],
    "scan-cache-off": [
        ("every step", "failed", scan(1.0, 0.5, ms=ABOVE * 100)),
        ("too short", "passed", scan(1.0, 0.5, ms=BELOW * 100)),
        ("hidden", "passed", scan(1.0, BELOW, ms=50.0)),
        ("rarely", "passed", scan(thresholds.SCAN_RETRACES_FROM - 0.1, 0.5, ms=50.0)),
        ("often", "failed", scan(thresholds.SCAN_RETRACES_FROM, 0.5, ms=50.0)),
        ("untimed", "failed", scan(1.0, 0.5)),
        ("untimed, little tracing", "passed", scan(1.0, BELOW)),
        ("no scan", "not_applicable", {"steps": steps(), "event_count": {}}),
        ("no steps", "unavailable", NOTHING),
    ],
    "unrolled-layers": [
        ("many", "failed", traced(0.5, loops=[loop(16)])),
        # A scan takes as much as tracing eight and a half layers.
        ("few", "passed", traced(0.5, loops=[loop(8)])),
        ("hidden", "passed", traced(BELOW, loops=[loop(16)])),
        # 7 ms of tracing: any scan of 16 layers takes 4 ms, and this one as much as eight and a half of them besides.
        ("scan takes as long", "passed", traced(0.5, steps=steps(wall=14.0, tracing=7.0), loops=[loop(16)])),
        ("scan takes less", "failed", traced(0.5, steps=steps(wall=20.0, tracing=10.0), loops=[loop(16)])),
        # As above, but half of the ops are outside the layers.
        ("few ops in them", "passed", traced(0.5, steps=steps(wall=20.0, tracing=10.0), loops=[loop(16, ops=0.5)])),
        ("only loops", "not_applicable", {"loops": [loop(8, "while")]}),
        ("no steps", "unavailable", NOTHING),
    ],
    "pre-cxx11-abi": [
        ("old", "failed", traced(ABOVE, run_info=OLD)),
        ("old, hidden", "passed", traced(BELOW, run_info=OLD)),
        ("new abi", "passed", traced(ABOVE, run_info=NEW_ABI)),
        ("2.7", "not_applicable", traced(ABOVE, run_info=info(versions={"torch_xla": "2.7.0"}))),
        ("no run.json", "unavailable", NOTHING),
    ],
    "debug-flags-on": [
        ("slow", "failed", debug(100, 100 * (1 - ABOVE))),
        ("harmless", "passed", debug(100, 100 * (1 - BELOW))),
        ("by tpuprof alone", "passed", debug(200, 100, by_user=False)),
        ("another flag", "failed", debug(100, 100, by_user=False, PT_XLA_DEBUG="1")),
        ("off by 0", "passed", debug(100, 100, by_user=False, PT_XLA_DEBUG="0")),
        ("no run.json", "unavailable", NOTHING),
    ],
    "eager-graph-cuts": [
        ("TorchTPU", "not_applicable", {**cut(4, 20.0), "framework": "torch_tpu"}),
        ("many", "failed", cut(4, 20.0)),
        ("cheap", "passed", cut(4, 12.0)),
        ("dear", "failed", cut(4, 14.0)),
        ("cheap, but dear to hand over", "failed", {**cut(4, 12.0), "steps": steps(dispatch=2.0)}),
        ("one", "passed", cut(1, 50.0)),
        ("jax", "not_applicable", {"framework": "jax"}),
        ("no telemetry", "unavailable", {"framework": "torch_xla"}),
    ],
    "eager-mode": [
        ("waits", "failed", eager(ABOVE)),
        ("hardly waits", "passed", eager(BELOW)),
        ("lazy tensors", "passed", {"framework": "torch_xla", "steps": steps()}),
        ("jax", "not_applicable", {"framework": "jax"}),
        ("no steps", "unavailable", {"framework": "torch_xla", "eager_ops": EagerOps(60.0, True)}),
    ],
    "debug-tool-on": [
        ("tracemalloc", "failed", {**tools("tracemalloc"), "steps": steps(tracing=100 * ABOVE)}),
        ("a debugger beside a busy device", "passed", {**tools("pdb"), "steps": steps(tracing=100 * BELOW)}),
        ("a check of each gradient", "failed", {**tools(ANOMALY), **read_in_backward()}),
        ("a check of each result", "failed", {**tools("jax_debug_nans"), "steps": steps(compute=90.0)}),
        ("a read of the program", "failed", {**tools("yappi"), "steps": steps(device_to_host_sync=100 * ABOVE)}),
        ("Python of the program", "failed", {**tools("coverage"), "steps": steps(**{"host:python": 100 * ABOVE})}),
        ("a sleep takes as long", "passed", {**tools("coverage"), "steps": steps(**{"host:sleep": 50.0})}),
        ("none", "passed", {**tools(), "steps": steps(tracing=50.0)}),
        ("no run.json", "unavailable", {"steps": steps(tracing=50.0)}),
        ("an older capture", "unavailable", {"run_info": info(capture={}), "steps": steps(tracing=50.0)}),
    ],
    "short-steps": [
        ("a short step", "failed", short_calls(ABOVE)),
        ("a longer step", "passed", short_calls(ABOVE, 1.01 * thresholds.SHORT_STEP_UP_TO_MS)),
        ("short ops", "failed", short_calls(BELOW, compute=thresholds.MOSTLY_SHORT_FROM_SHARE - BELOW)),
        ("fewer short ops", "passed", short_calls(BELOW, compute=thresholds.MOSTLY_SHORT_FROM_SHARE - BELOW - 0.01)),
        ("long ops", "passed", short_calls(BELOW, compute=0.8, short=0.1)),
        ("short ops of a TPU", "passed", short_calls(BELOW, compute=0.8, device="TPU v5 Lite")),
        ("short steps of a TPU", "failed", short_calls(ABOVE, compute=0.8, device="TPU v5 Lite")),
        ("TorchTPU", "not_applicable", {**short_calls(ABOVE), "framework": "torch_tpu"}),
        ("many programs", "passed", {**short_calls(ABOVE), **dispatched(programs=float(EAGER_FROM_PROGRAMS)), "framework": "jax"}),
        ("no device plane", "unavailable", {**short_calls(ABOVE), "sees_device": False}),
        ("torch_xla", "not_applicable", {**short_calls(ABOVE), "framework": "torch_xla", "eager_dispatch": None}),
        ("no steps", "unavailable", {"framework": "jax", "eager_dispatch": short_calls()["eager_dispatch"]}),
    ],
    "eager-dispatch": [
        ("one by one", "failed", dispatched(ABOVE)),
        ("of JAX", "failed", {**dispatched(ABOVE), "framework": "jax", "one_op_programs_share": 0.5}),
        ("of JAX, with computing", "failed", called_by_themselves(0.06, 0.05)),
        ("of JAX, too little computing", "passed", called_by_themselves(0.06, 0.03)),
        ("of JAX, too little dispatch", "passed", called_by_themselves(0.04, 0.5)),
        ("no device plane", "failed", {**dispatched(ABOVE), "sees_device": False, "unfinished_ms": 0.0}),
        ("the host runs ahead of work", "passed", {**dispatched(ABOVE), "sees_device": False, "unfinished_ms": 900.0}),
        ("little of the step", "passed", dispatched(BELOW)),
        ("the host ran ahead", "unavailable", dispatched(programs=0.0)),
        ("one program", "passed", dispatched(programs=1.0)),
        ("fused", "passed", dispatched(programs=EAGER_FROM_PROGRAMS - 1.0)),
        ("just not fused", "failed", dispatched(programs=float(EAGER_FROM_PROGRAMS))),
        ("programs of compiled functions", "passed", dispatched(compiled_regions=8.0)),
        ("parts of a compiled function", "passed", dispatched(compiled_regions=3.0, graph_breaks=6.0)),
        ("few parts of one", "failed", dispatched(compiled_regions=3.0, graph_breaks=5.0)),
        ("functions of torch.compile", "passed", dispatched(ops=EAGER_FROM_PROGRAMS - 1.0)),
        ("lazy tensors", "not_applicable", {"steps": steps(), "eager_dispatch": None}),
        ("no steps", "unavailable", {"framework": "torch_tpu"}),
    ],
    "optimizer-loop": [
        ("a loop", "failed", dispatched(optimizer_ps=100 * PS_PER_MS * ABOVE, optimizer_ops=float(LOOP_FROM_OPS))),
        ("short", "passed", dispatched(optimizer_ps=100 * PS_PER_MS * BELOW, optimizer_ops=60.0)),
        ("its reads", "passed", dispatched(optimizer_ps=75.0 * PS_PER_MS, optimizer_ops=60.0, reads=70.0)),
        ("few ops", "passed", dispatched(optimizer_ps=50.0 * PS_PER_MS, optimizer_ops=LOOP_FROM_OPS - 1.0)),
        ("foreach", "passed", dispatched(optimizer_ps=50.0 * PS_PER_MS, optimizer_ops=60.0, optimizer_many=12.0)),
        ("JAX", "not_applicable", {"steps": steps(), "eager_dispatch": None, "framework": "jax"}),
        ("traced", "failed", updates(100 * ABOVE)),
        ("traced, short", "passed", updates(100 * BELOW)),
        ("half of tracing", "failed", updates(30.1, tracing=60.0)),
        ("less of tracing", "passed", updates(29.9, tracing=60.0)),
        ("a read makes turns", "passed", {**updates(50.0), "bound": "sync"}),
        ("a read, and more tracing than the device hides", "failed", {**updates(60.0), "bound": "sync"}),
        ("the device takes longer", "passed", {**updates(50.0), "bound": "device"}),
        ("a scheduler of rates", "passed", updates(50.0, file="/lib/torch/optim/lr_scheduler.py")),
        ("one flat gradient already", "passed", updates(50.0, call="wrapper", inside=["step (/lib/torch/optim/lbfgs.py:401)"])),
        ("a closure", "passed", updates(50.0, inside=["closure (train.py:12)", "linear (/lib/torch/nn/functional.py:9)"])),
        ("ops of the update", "failed", updates(50.0, inside=["_fn (/lib/torch/_meta_registrations.py:7)"])),
        ("an optimizer of one's own", "failed", updates(50.0, call="wrapper", inside=["step (mine.py:3)"])),
        ("with torch's decorator", "failed", updates(50.0, call="wrapper", inside=[NO_GRAD, "step (mine.py:3)"])),
        ("its helper", "failed", updates(50.0, call="wrapper", inside=[NO_GRAD, "step (mine.py:3)", "decay (other.py:4)"])),
        ("of a library", "failed", updates(50.0, call="wrapper", inside=[NO_GRAD, "step (/lib/site-packages/timm/optim/lion.py:9)"])),
        ("a closure of one's own", "passed", updates(50.0, call="wrapper", inside=[NO_GRAD, "step (mine.py:3)", "closure (mine.py:9)"])),
        ("the model, in a closure", "passed", updates(50.0, call="wrapper", inside=["step (mine.py:3)", "loss_of (mine.py:9)", MODULE])),
        ("what a hook does", "passed", updates(50.0, call="wrapper", inside=["average (mine.py:3)", "step (mine.py:9)"])),
        ("traced, of few samples", "unavailable", updates(50.0, samples=KNOWN_FROM_SAMPLES - 1)),
        ("gradients put to zero", "passed", updates(50.0, call="zero_grad")),
        ("a step of the user's", "passed", updates(50.0, file="train.py")),
        ("traced, not sampled", "unavailable", {"framework": "torch_xla", "steps": steps(), "eager_dispatch": None}),
        ("no steps", "unavailable", {"framework": "torch_tpu"}),
    ],
    "graph-breaks": [
        ("breaks", "failed", dispatched(compiled_regions=2.0, between_ps=100 * PS_PER_MS * ABOVE)),
        ("breaks for sure", "failed", dispatched(compiled_regions=2.0, graph_breaks=1.0, between_ps=100 * PS_PER_MS * ABOVE)),
        ("many breaks whose calls cost", "failed", dispatched(compiled_regions=5.0, graph_breaks=4.0, **parts_of(BELOW, ABOVE))),
        ("few breaks whose calls cost", "passed", dispatched(compiled_regions=4.0, graph_breaks=3.0, **parts_of(BELOW, ABOVE))),
        ("many breaks that cost little", "passed", dispatched(compiled_regions=5.0, graph_breaks=4.0, **parts_of(0.01, BELOW - 0.01))),
        ("compiled apart, and called for long", "passed", dispatched(compiled_regions=9.0, **parts_of(BELOW, ABOVE))),
        ("one function", "passed", dispatched(compiled_regions=1.0, between_ps=50.0 * PS_PER_MS)),
        ("short", "passed", dispatched(compiled_regions=3.0, between_ps=100 * PS_PER_MS * BELOW)),
        ("nothing compiled", "not_applicable", dispatched()),
        ("noted, torch_xla", "failed", in_parts(ABOVE)),
        ("noted, in the backward pass alone", "failed", in_parts(ABOVE, forward=1.0, backward=2.0)),
        ("noted, and it costs little between", "unavailable", in_parts(BELOW)),
        ("noted, and the steps call one function", "passed", in_parts(ABOVE, forward=1.9, backward=1.0)),
        ("compiled apart, torch_xla", "passed", in_parts(ABOVE, breaks=0)),
        ("nobody noted anything", "unavailable", {**in_parts(ABOVE), "run_info": None}),
        ("nothing compiled, torch_xla", "not_applicable", {**in_parts(ABOVE), "event_count": {}}),
        ("given up", "failed", {**given_up(), "event_count": {}}),
        ("given up, and called now and then", "failed", given_up(CALLED_FROM - 0.01)),
        ("another one given up", "passed", given_up(CALLED_FROM)),
        ("no steps", "unavailable", {"framework": "torch_tpu"}),
    ],
    "frequent-flushes": [
        ("four reads of deferred ops", "failed", flushed(4)),
        ("three reads", "passed", flushed(3)),
        ("cheap reads", "passed", flushed(4, cost=0.02)),
        ("many programs without a read", "passed", flushed(0)),
        ("ops are not deferred", "not_applicable", {**flushed(4), "defers_ops": False}),
        ("another framework", "not_applicable", {"framework": "jax"}),
        ("no steps", "unavailable", {"framework": "torch_tpu"}),
    ],
    "aten-fallback": [
        ("each step", "failed", fallen(1.0)),
        ("one in two", "failed", fallen(thresholds.FALLBACKS_FROM)),
        ("one in three", "passed", fallen(thresholds.FALLBACKS_FROM - 0.01)),
        ("beside a read", "failed", beside_a_read(fallen(1.0))),
        ("device busy", "passed", fallen(1.0, 1 - BELOW)),
        ("none", "passed", {"records": [record()], "busy_share": 0.5}),
        ("text alone", "unavailable", fallen(None)),
        ("no telemetry", "unavailable", NOTHING),
    ],
    "gather-bound": [
        ("much", "failed", special(100 * ABOVE, looks_up=True, self_ms_per_step=100 * ABOVE)),
        ("little", "passed", special(100 * BELOW, looks_up=True, self_ms_per_step=100 * BELOW)),
        ("none", "passed", special(50, looks_up=False)),
        ("little is unknown", "passed", special(100 * BELOW, self_ms_per_step=100 * BELOW)),
        ("much is unknown", "unavailable", special(100 * ABOVE, self_ms_per_step=100 * ABOVE)),
        ("a prediction", "unavailable", {**special(50, looks_up=True), "predicted": True}),
        ("not a TPU", "not_applicable", CPU),
        ("no device", "unavailable", NOTHING),
    ],
    "sort-bound": [
        ("much", "failed", special(100 * ABOVE, name="sort.2", self_ms_per_step=100 * ABOVE)),
        ("much on a CPU", "failed", {**special(100 * ABOVE, name="topk.2", self_ms_per_step=100 * ABOVE), "is_tpu": False}),
        ("little", "passed", special(100 * BELOW, name="sort", self_ms_per_step=100 * BELOW)),
        ("another op", "passed", special(50, name="sorted.2", self_ms_per_step=50.0)),
        ("a prediction", "unavailable", {**special(50, name="sort.2"), "predicted": True}),
        ("communication", "passed", special(50, name="sort.2", kind="collective", self_ms_per_step=50.0)),
        ("no device", "unavailable", NOTHING),
    ],
    "float64-ops": [
        ("much", "failed", special(100 * ABOVE, double=True, self_ms_per_step=100 * ABOVE)),
        ("much on a CPU", "failed", {**special(100 * ABOVE, double=True, self_ms_per_step=100 * ABOVE), "is_tpu": False}),
        ("little", "passed", special(100 * BELOW, double=True, self_ms_per_step=100 * BELOW)),
        ("none", "passed", special(50, double=False)),
        ("communication", "passed", special(50, kind="collective", double=True, self_ms_per_step=50.0)),
        ("no program", "unavailable", special(50)),
        ("no device", "unavailable", NOTHING),
    ],
    "recomputed-activations": [
        ("much, and memory has room", "failed", again(100 * ABOVE, peak=859)),
        ("much, and memory has none", "passed", again(100 * ABOVE, peak=861)),
        ("much, and the memory is unknown", "failed", again(100 * ABOVE, capacity=None)),
        ("much, on this machine's CPU", "failed", {**again(100 * ABOVE, capacity=None), "device_type": "CPU"}),
        ("much, and what it takes is unknown", "failed", again(100 * ABOVE, more=None)),
        ("little", "passed", again(100 * BELOW)),
        ("no checkpointing", "not_applicable", {"recomputed_ops": None}),
        ("no device", "unavailable", NOTHING),
    ],
    "repeated-work": [
        ("much", "failed", special(100 * ABOVE, repeated=4, self_ms_per_step=100 * ABOVE)),
        ("on this machine's CPU", "failed", {**special(100 * ABOVE, repeated=4, self_ms_per_step=100 * ABOVE), "device_type": "CPU"}),
        ("little", "passed", special(100 * BELOW, repeated=4, self_ms_per_step=100 * BELOW)),
        ("no op", "passed", special(50, repeated=0)),
        ("inputs that tell two devices apart", "passed", {**special(50, repeated=0), "alike_inputs": 1}),
        ("inputs that do not", "failed", {**special(50, repeated=0), "alike_inputs": 2}),
        ("communication", "passed", special(50, kind="collective", repeated=4, self_ms_per_step=50.0)),
        ("no program of several devices", "not_applicable", special(50)),
        ("no device", "unavailable", NOTHING),
    ],
    "f32-upcasts": [
        ("much", "failed", special(100 * ABOVE, upcast=True, self_ms_per_step=100 * ABOVE)),
        ("little", "passed", special(100 * BELOW, upcast=True, self_ms_per_step=100 * BELOW)),
        ("none", "passed", special(50, upcast=False)),
        ("no lines", "unavailable", special(50)),
        ("not a TPU", "not_applicable", CPU),
        ("no device", "unavailable", NOTHING),
    ],
    "accumulated-graph": [
        ("tracing", "failed", accumulated(ACCUMULATED, ABOVE)),
        ("tracing hidden", "passed", accumulated(ACCUMULATED, BELOW)),
        ("few", "passed", accumulated(ACCUMULATED - 1)),
        ("a read makes turns", "passed", accumulated(ACCUMULATED, bound="sync")),
        ("a read in each", "failed", reading_in_each(ACCUMULATED, ABOVE)),
        ("tracing of reads", "passed", accumulated(ACCUMULATED, 0.3, graphs_for_reads_ms=30 - 100 * BELOW)),
        ("tracing beside reads", "failed", accumulated(ACCUMULATED, 0.3, graphs_for_reads_ms=30 - 100 * ABOVE)),
        ("a slow start", "failed", accumulated(ACCUMULATED, BELOW, SLOW)),
        ("a start", "passed", accumulated(ACCUMULATED, BELOW, SLOW - 1)),
        ("a slow start of JAX", "failed", accumulated(ACCUMULATED, 0.5, SLOW, framework="jax")),
        ("JAX", "passed", accumulated(ACCUMULATED, 0.5, framework="jax")),
        ("predicted", "failed", {**accumulated(ACCUMULATED, 0.5), **foreseen(SLOW)}),
        ("one batch", "not_applicable", accumulated(1)),
        ("no program", "unavailable", accumulated(None)),
        ("no memory", "unavailable", NOTHING),
    ],
    "boolean-mask": [
        ("each step", "failed", selects(1.0)),
        ("one in three", "not_applicable", selects(thresholds.FALLBACKS_FROM - 0.01)),
        ("another op", "not_applicable", fallen(1.0)),
        ("beside a read, for new counts", "failed", {**beside_a_read(selects(1.0)), "step_compiles": [NEW_COUNT]}),
        ("device busy", "passed", selects(1.0, 1 - BELOW)),
        ("device less busy", "failed", selects(1.0, 1 - ABOVE)),
        ("no telemetry", "unavailable", NOTHING),
    ],
    "torch-compile-candidate": [
        ("worth a try", "passed", traced(TORCH_COMPILE + 0.01, event_count={})),
        ("compiled already", "not_applicable", traced(TORCH_COMPILE + 0.01, event_count={"compiled_region": 1.0})),
        ("jax", "not_applicable", {"framework": "jax"}),
        ("no steps", "unavailable", {"framework": "torch_xla"}),
    ],
    "while-loop-candidate": [
        ("many", "passed", {"loops": [loop(LAYERS)]}),
        ("few", "not_applicable", {"loops": [loop(LAYERS - 1)]}),
        ("not told", "unavailable", NOTHING),
    ],
    "recompiles-shape": [
        ("nothing cuts the graph", "passed", uncut(ABOVE, "item", kind="shape")),
        ("enough", "failed", recompiled(ABOVE, "shape", "dtype")),
        ("too little", "passed", recompiled(BELOW, "shape")),
        ("half of it", "passed", recompiled(0.15, "shape", "constant")),
        ("another cause", "passed", recompiled(0.9, "constant")),
        ("jax traces to compile", "failed", {**recompiled(BELOW, "shape"), "framework": "jax", "steps": steps(tracing=1.0)}),
        ("none", "passed", recompiled(0.0)),
        ("no steps", "unavailable", {"report": {"compiles": [compiled("shape")]}}),
    ],
    "recompiles-constant": [
        ("nothing cuts the graph", "passed", uncut(ABOVE, "item", kind="constant")),
        ("enough", "failed", recompiled(ABOVE, "constant")),
        ("the last not told", "failed", recompiled(ABOVE, "constant", "constant", "unknown")),
        ("too little", "passed", recompiled(BELOW, "constant")),
        ("jax traces to compile", "failed", {**recompiled(BELOW, "constant"), "framework": "jax", "steps": steps(tracing=1.0)}),
        ("none", "passed", recompiled(0.0)),
        ("no steps", "unavailable", {"report": {"compiles": [compiled("constant")]}}),
    ],
    "no-graph-cut": [
        ("a read in each step", "failed", uncut(ABOVE, "item")),
        ("a read that compiles nothing", "passed", uncut(BELOW, "item")),
        ("no graph at all", "failed", uncut(0.0)),
        ("a cut", "passed", uncut(ABOVE, steps_without=0)),
        ("jax", "not_applicable", {"framework": "jax"}),
        ("no steps", "unavailable", {"framework": "torch_xla"}),
    ],
    "not-on-device": [
        ("no tensor and no graph", "failed", {"framework": "torch_xla", "off_device": 8}),
        ("tensors on the device", "passed", {"framework": "torch_xla", "off_device": 0}),
        ("jax", "not_applicable", {"framework": "jax"}),
        ("nobody counted", "unavailable", {"framework": "torch_xla"}),
    ],
    "recompiles-other": [
        ("enough", "failed", recompiled(ABOVE, "graph")),
        ("nothing cuts the graph", "passed", uncut(ABOVE, "item")),
        ("not told at all", "failed", recompiled(ABOVE, "unknown")),
        ("the same program", "failed", {**recompiled(ABOVE, "again"), "explains_misses": False}),
        ("too little", "passed", recompiled(BELOW, "graph")),
        ("jax traces to compile", "failed", {**recompiled(BELOW, "graph"), "framework": "jax", "steps": steps(tracing=1.0)}),
        ("none", "passed", recompiled(0.0)),
        ("no steps", "unavailable", {"report": {"compiles": [compiled("graph")]}}),
    ],
    "slow-compile": [
        ("slow", "failed", started(SLOW)),
        ("slow, of layers", "failed", {**started(SLOW), "loops": [loop(10, ops=0.6)]}),
        ("slow, by reads", "failed", started_by_reads(SLOW)),
        ("slow, of a graph that nothing cuts", "passed", {**started_by_reads(SLOW), "uncut_steps": 5, "compile_share": ABOVE}),
        ("quick", "passed", started(SLOW - 0.1)),
        ("slow, and it goes on", "passed", goes_on(SLOW, "train.py:8", "yes")),
        ("slow at another line than what goes on", "failed", goes_on(SLOW, "train.py:9", "yes")),
        ("slow at no known line", "failed", goes_on(SLOW, "", "yes")),
        ("slow, and it goes on more seldom", "failed", goes_on(SLOW, "train.py:8", "yes", 4)),
        ("slow, and it may go on", "failed", goes_on(SLOW, "train.py:8", "unknown")),
        ("slow, and the capture lies in it", "failed", in_the_start(SLOW / 7, before=0.0)),
        ("quick, and the capture lies in it", "passed", in_the_start((SLOW - 0.1) / 7, before=0.0)),
        ("slow for a TPU", "failed", foreseen(SLOW)),
        ("quick for a TPU", "passed", foreseen(SLOW - 0.1)),
        ("no telemetry", "unavailable", NOTHING),
    ],
    "persistent-cache-off": [
        ("slow", "failed", {**started(SLOW), **ON_CPU}),
        ("quick", "passed", {**started(SLOW - 0.1), **ON_CPU}),
        ("JAX on TPU", "failed", {**started(SLOW), "framework": "jax", "is_tpu": True}),
        ("TorchTPU without a device plane", "failed", {**started(SLOW), "framework": "torch_tpu"}),
        ("TorchTPU, quick", "passed", {**started(SLOW - 0.1), "framework": "torch_tpu"}),
        ("cannot load on TPU", "not_applicable", {**started(SLOW), **on_tpu("2.9.0")}),
        ("unknown on TPU", "failed", {**started(SLOW), **on_tpu("2.10.0")}),
        ("unknown release on TPU", "failed", {**started(SLOW), "framework": "torch_xla", "is_tpu": True}),
        ("on", "not_applicable", started(SLOW, cache("ok", hits=1))),
        ("on and cold", "not_applicable", started(SLOW, cache("cold", misses=1))),
        ("no telemetry", "unavailable", NOTHING),
    ],
    "persistent-cache-ineffective": [
        ("misses", "failed", started(SLOW, cache("ok", hits=1, misses=2))),
        ("hits", "passed", started(SLOW, cache("ok", hits=1, misses=1))),
        ("cannot load", "failed", started(SLOW, cache("never_loads", hits=2))),
        ("quick", "passed", started(SLOW - 0.1, cache("ok", misses=2, hits=1))),
        ("first run", "passed", started(SLOW, cache("cold", misses=2))),
        ("not asked", "not_applicable", started(SLOW, cache("unknown"))),
        ("no cache", "not_applicable", started(SLOW)),
        ("no telemetry", "unavailable", NOTHING),
    ],
    "auto-sharding-cost": [
        ("slow", "failed", started(SLOW, CompileWithAutoSharding=1)),
        ("quick", "passed", started(SLOW - 0.1, CompileWithAutoSharding=1)),
        ("slow on a TPU", "failed", {**started(SLOW, CompileWithAutoSharding=1), **on_tpu("2.9.0")}),
        ("slow on a CPU", "failed", {**started(SLOW, CompileWithAutoSharding=1), **ON_CPU}),
        ("by hand", "not_applicable", started(SLOW)),
        ("no telemetry", "unavailable", NOTHING),
    ],
    "device-to-host-sync": [
        ("in the backward pass", "failed", {**read_in_backward(), "framework": "torch_xla"}),
        ("nothing cuts the graph", "passed", uncut(ABOVE, "item")),
        ("computed again", "failed", computed_again(100 * ABOVE)),
        ("hardly computed again", "passed", computed_again(100 * BELOW)),
        ("and compiled for reads", "failed", compiled_for_reads(10.0, 30.0)),
        ("graphs of its own", "failed", {**reads(1.0, 0.9, 20.0), "graphs_for_reads_ms": 100 * ABOVE}),
        ("turns", "failed", reads(1.0, ABOVE, 50.0)),
        ("turns on a CPU", "failed", on_cpu(reads(1.0, ABOVE, 50.0))),
        ("device has work", "passed", reads(1.0, BELOW, 50.0)),
        ("hardly blocks", "passed", reads(1.0, 0.5, 100 * BELOW)),
        ("no device plane", "failed", host_alone(ABOVE, ABOVE)),
        ("no device plane, short", "passed", host_alone(BELOW, BELOW)),
        ("no device plane, a compile is waited for", "passed", host_alone(ABOVE, BELOW)),
        ("the runtime waited first", "failed", reads(1.0, 0.5, 1.0, bound="sync", runtime=100 * ABOVE)),
        ("the runtime waits, and no verdict", "passed", reads(1.0, 0.5, 1.0, runtime=100 * ABOVE)),
        ("half of the steps", "failed", reads(READS_IN_STEPS_SHARE, 0.5, 50.0)),
        ("waits for a compile", "passed", {**reads(1.0, 0.5, 50.0), "steps": steps(compile=44.5)}),
        ("waits for less", "failed", {**reads(1.0, 0.5, 50.0), "steps": steps(compile=44.4)}),
        ("fewer", "passed", reads(READS_IN_STEPS_SHARE - 0.01, 0.5, 50.0)),
        ("fallback", "passed", {**reads(1.0, 0.5, 50.0, "TransferFromDevice"), "falls_back": True}),
        ("no steps", "unavailable", NOTHING),
    ],
    "input-starved": [
        ("waits", "failed", {"steps": steps(input_wait=100 * ABOVE)}),
        ("hardly", "passed", {"steps": steps(input_wait=100 * BELOW)}),
        ("batches are the pace", "failed", waits_behind_work(PACED_FROM_SHARE)),
        ("some batches are late", "passed", waits_behind_work(PACED_FROM_SHARE - 0.01)),
        ("copies", "failed", {"steps": steps(host_to_device=60.0), "copied_again": 0.0}),
        ("copies the same", "failed", {"steps": steps(host_to_device=60.0), "copied_again": 1.0}),
        ("copies on a CPU", "failed", {"steps": steps(host_to_device=60.0), "copied_again": 1.0, "report": {"environment": {"device_type": "CPU"}}, "copying_ms": 90.0}),
        ("fallback", "passed", {"steps": steps(host_to_device=60.0), "falls_back": True}),
        ("waits beside a fallback", "failed", {"steps": steps(input_wait=60.0), "falls_back": True}),
        ("no steps", "unavailable", NOTHING),
    ],
    "exposed-collectives": [
        ("waits", "failed", collectives("all-reduce", ABOVE)),
        ("hardly", "passed", collectives("all-reduce", BELOW)),
        ("gathers only", "not_applicable", collectives(GATHER, 0.5, fsdp=True)),
        ("none", "not_applicable", {"collectives": []}),
        ("not told", "unavailable", NOTHING),
    ],
    "async-flags-missing": [
        ("waits", "failed", flags(ABOVE)),
        ("hardly", "passed", flags(BELOW)),
        ("set", "passed", flags(ABOVE, LIBTPU_INIT_ARGS="--xla_enable_async_all_gather=true")),
        ("of jax on any chip", "failed", flags(ABOVE, chip="v5e", framework="jax")),
        ("set by torch_xla", "not_applicable", flags(ABOVE, chip="v5e")),
        ("asynchronous already", "passed", {**flags(ABOVE), "collectives": [GATHER_BESIDE_COMPUTE]}),
        ("another kind", "not_applicable", {**flags(ABOVE), **collectives("all-reduce", ABOVE)}),
        ("cpu", "not_applicable", CPU),
        ("flags unknown", "unavailable", {**flags(ABOVE), "run_info": None}),
    ],
    "exposed-parameter-gather": [
        ("waits", "failed", collectives(GATHER, ABOVE, fsdp=True)),
        ("hardly", "passed", collectives(GATHER, BELOW, fsdp=True)),
        ("told by the program", "failed", {**collectives(GATHER, ABOVE), "collectives": [GATHER_OF_PARAMETER]}),
        (
            "devices that share CPUs",
            "failed",
            {**collectives(GATHER, ABOVE, fsdp=True), "beside_gathers_share": 0.3, "steps": steps(compute=50.0)},
        ),
        ("not fsdp", "not_applicable", collectives(GATHER, 0.5)),
        ("not told", "unavailable", {"run_info": info(features_loaded=["fsdpv2"], spmd={"on": True})}),
    ],
    "exposed-host-offload": [
        ("waits", "failed", offloaded(ABOVE)),
        ("hardly", "passed", offloaded(BELOW)),
        ("none", "not_applicable", {"offload": []}),
        ("not told", "unavailable", NOTHING),
    ],
    "offload-not-effective": [
        ("exposed", "failed", offloaded(0.5, exposed=5.0, hidden=5.0)),
        ("hidden", "passed", offloaded(0.5, exposed=4.9, hidden=5.1)),
        ("too little", "passed", offloaded(BELOW, exposed=9.0)),
        ("none", "not_applicable", {"offload": []}),
        ("no async line", "unavailable", offloaded(0.5, hidden=None)),
    ],
    "offload-unneeded": [
        ("room", "failed", {**offloaded(ABOVE), "memory": memory(599, host=300)}),
        ("needed", "passed", {**offloaded(ABOVE), "memory": memory(600, host=300)}),
        ("may fit", "unavailable", {**offloaded(ABOVE), "memory": memory(600, host=300, copied=1)}),
        ("cheap", "passed", {**offloaded(BELOW), "memory": memory(100, host=1)}),
        ("bytes of the copies", "passed", {**offloaded(ABOVE), "memory": memory(1)}),
        ("none", "not_applicable", {"offload": []}),
        ("memory not told", "unavailable", offloaded(ABOVE)),
    ],
    "hbm-pressure": [
        ("full", "failed", {"memory": memory(900)}),
        ("room", "passed", {"memory": memory(899)}),
        ("not told", "unavailable", NOTHING),
        ("capacity not told", "unavailable", {"memory": memory(900, None)}),
    ],
    "lost-donation": [
        ("kept twice", "failed", undonated(250)),
        ("a little", "passed", undonated(249)),
        ("of much memory", "failed", undonated(250, capacity=25_000)),
        ("of very much memory", "passed", undonated(250, capacity=25_001)),
        ("of unknown memory", "failed", undonated(250, capacity=None)),
        ("none", "passed", undonated(0)),
        ("copied long", "failed", undonated(1, copied_ms=100 * ABOVE)),
        ("copied shortly", "passed", undonated(1, copied_ms=100 * BELOW)),
        ("kept twice and copied shortly", "failed", undonated(250, copied_ms=100 * BELOW)),
        ("unknown", "unavailable", undonated(None)),
        ("no memory", "unavailable", NOTHING),
    ],
    "unused-gradients": [
        ("take long", "failed", unused(ABOVE)),
        ("take little", "passed", unused(BELOW)),
        ("some of them surely", "failed", unused(ABOVE, least=0.0, device_type="CPU")),
        ("none", "passed", unused(held_gradients=HeldGradients((), 8, 5))),
        ("read by the program", "passed", unused(work=UnusedWork())),
        ("made elsewhere", "failed", unused(work=UnusedWork(found={(64, 48): 2}))),
        ("no program, added up once per step", "failed", unused(unused_work=None)),
        ("no program, changed twice per step", "unavailable", unused(unused_work=None, grew=16)),
        ("eager ops that only add", "failed", unused(framework="torch_tpu", grew=16, gradient_resets=())),
        ("eager ops that set to zero", "unavailable", unused(framework="torch_tpu", gradient_resets=("aten::zero_",))),
        ("no optimizer known", "unavailable", {"framework": "torch_xla"}),
        ("JAX", "not_applicable", unused(framework="jax")),
        ("predicted", "not_applicable", unused(predicted=True)),
    ],
    "memory-growth": [
        ("grows", "failed", growing(range(0, 1001, 100), free=thresholds.MEMORY_FULL_WITHIN_STEPS * 100)),
        ("lasts", "passed", growing(range(0, 1001, 100), free=thresholds.MEMORY_FULL_WITHIN_STEPS * 100 + 1)),
        ("comes and goes", "passed", growing([0, 900] * 5, free=1000)),
        ("falls in a fifth", "failed", growing([0, 9, 8, 9, 10, 11], free=1000)),
        ("falls more often", "passed", growing([0, 9, 8, 9, 8, 11], free=1000)),
        ("flat", "passed", growing([100] * 10, free=1)),
        ("grows once", "passed", growing([2, 3, 3, 3, 3, 3, 3], free=1)),
        ("few steps", "unavailable", growing([0, 1, 2, 3], free=1)),
        ("no events", "unavailable", NOTHING),
    ],
    "unfused-attention": [
        ("much", "failed", attention(100 * ABOVE)),
        ("little", "passed", attention(100 * BELOW)),
        ("a kernel", "not_applicable", special(50.0, annotation="softmax", kernel="flash_attention")),
        ("a loss", "not_applicable", special(50.0, annotation="loss/aten__log_softmax")),
        ("a fused loss", "not_applicable", special(50.0, annotation="step/softmax_cross_entropy/reduce_max")),
        ("in a step named after its loss", "failed", special(50.0, annotation="cross_entropy/layer/attention/softmax")),
        ("none", "not_applicable", tpu()),
        ("cpu", "not_applicable", CPU),
        ("no device", "unavailable", NOTHING),
    ],
    "float32-matmul": [
        ("much", "failed", special(100 * ABOVE, matmul_type="f32")),
        ("little", "passed", special(100 * BELOW, matmul_type="f32")),
        ("bfloat16", "passed", special(90.0, matmul_type="bf16")),
        ("double precision", "passed", special(90.0, matmul_type="f64")),
        ("cpu", "not_applicable", CPU),
        ("no lines", "unavailable", tpu()),
    ],
    "padded-dimensions": [
        ("much", "failed", special(100 * ABOVE, padding=PADDED_FROM)),
        ("little time", "passed", special(100 * BELOW, padding=PADDED_FROM)),
        ("little padding", "passed", special(90.0, padding=PADDED_FROM - 0.01)),
        ("cpu", "not_applicable", CPU),
        ("no lines", "unavailable", tpu()),
    ],
    "layout-copies": [
        ("much", "failed", special(100 * ABOVE, "copy.1", layout_copy=True)),
        ("little", "passed", special(100 * BELOW, "copy.1", layout_copy=True)),
        ("cpu", "not_applicable", CPU),
        ("no device", "unavailable", NOTHING),
    ],
    "low-mxu-utilization": [
        ("low", "failed", tpu(mxu_share=0.29, offload_share=0.0, collective_share=0.0)),
        ("fine", "passed", tpu(mxu_share=0.30, offload_share=0.0, collective_share=0.0)),
        ("waits", "not_applicable", tpu(mxu_share=0.1, offload_share=0.51, collective_share=0.0)),
        ("cpu", "not_applicable", CPU),
        ("no peak", "unavailable", tpu()),
    ],
    "memory-bandwidth-bound": [
        ("bound", "failed", tpu(bandwidth_share=0.70)),
        ("not", "passed", tpu(bandwidth_share=0.69)),
        ("cpu", "not_applicable", CPU),
        ("no peak", "unavailable", tpu()),
    ],
    "straggler-host": [
        ("slow", "failed", {"steps": steps(), "report": {"hosts": two_hosts("host1", 6.0)}}),
        ("even", "passed", {"steps": steps(), "report": {"hosts": two_hosts("", 4.0)}}),
        ("one host", "not_applicable", {"steps": steps(), "report": {"hosts": one_host()}}),
        ("nothing in common", "unavailable", {"report": {"hosts": Hosts(two_hosts("", 0.0).hosts, clocks="none")}}),
    ],
    "barrier-skew": [
        ("late", "failed", barriers(5.0, 15.1, 5.0)),
        ("a little late", "passed", barriers(5.0, 14.9, 5.0)),
        ("all wait alike", "passed", barriers(40.0, 40.0)),
        ("no barriers", "unavailable", {**barriers(), "chips_per_host": 2}),
        ("one of two chips", "unavailable", {**barriers(5.0), "chips_per_host": 2}),
        ("one chip", "not_applicable", {**barriers(), "chips_per_host": 1}),
        ("cpu", "not_applicable", CPU),
        ("no devices", "unavailable", {"is_tpu": True}),
    ],
    "uneven-steps": [
        ("one in five", "failed", {"steps": [*steps(4), step(160, 4, **{"user:gc": 60.0})]}),
        ("noise", "passed", {"steps": [*steps(4), step(160, 4, tracing=60.0)]}),
        ("half of it named", "failed", {"steps": [*steps(4), step(160, 4, input_wait=30.0, tracing=30.0)]}),
        ("less named", "passed", {"steps": [*steps(4), step(160, 4, input_wait=29.0, tracing=31.0)]}),
        ("sampled", "failed", {"steps": [*steps(4), step(160, 4, **{"host:sleep": 60.0})], "stacks_if_sampled": [asleep(12.0)]}),
        ("the same behind the device", "passed", {"steps": [*steps(4), step(160, 4, **{"host:sleep": 60.0})], "stacks_if_sampled": [asleep(12.0, 30.0)]}),
        ("less behind the device", "failed", {"steps": [*steps(4), step(160, 4, **{"host:sleep": 60.0})], "stacks_if_sampled": [asleep(12.0, 29.0)]}),
        ("sampled for long", "failed", {"steps": [*steps(4, wall=33.0), step(54, 4, **{"host:sleep": 21.0})]}),
        ("sampled once", "passed", {"steps": [*steps(4, wall=33.0), step(52, 4, **{"host:sleep": 19.0})]}),
        ("one short copy", "passed", {"steps": [*steps(4, wall=10.0), step(18.9, 4, host_to_device=9.0)]}),
        ("one longer copy", "failed", {"steps": [*steps(4, wall=10.0), step(22.0, 4, host_to_device=11.5)]}),
        ("two short copies", "failed", {"steps": [*steps(6, wall=10.0), *(step(18.9, row, host_to_device=9.0) for row in (6, 7))]}),
        ("one short pause", "failed", {"steps": [*steps(4, wall=10.0), step(18.9, 4, **{"user:gc": 9.0})]}),
        ("tpuprof's own work", "passed", {"steps": [*steps(4), step(160, 4, **{"user:overhead": 60.0})]}),
        ("too little", "passed", {"steps": [*steps(9), step(200, 9, tracing=100.0)]}),
        ("within the usual", "passed", {"steps": [*steps(4), step(125, 4)]}),
        ("a checkpoint with its reads", "failed", {"steps": [*steps(4), step(160, 4, **{"user:checkpoint": 16.0, "device_to_host_sync": 24.0, "tracing": 20.0})]}),
        ("reads alone", "passed", {"steps": [*steps(4), step(160, 4, **{"host:io": 16.0, "device_to_host_sync": 24.0, "tracing": 20.0})]}),
        ("a sleep is no part of saving", "passed", {"steps": [*steps(4), step(160, 4, **{"user:checkpoint": 16.0, "host:sleep": 24.0, "tracing": 20.0})]}),
        ("waits for work", "passed", read_in_one(unfinished=90.0, own=0.0)),
        ("waits for more", "failed", read_in_one(unfinished=89.0, own=0.0)),
        ("waits for little of its own", "passed", read_in_one(unfinished=900.0, own=1400 * thresholds.UNEVEN_FROM_SHARE - 1)),
        ("an evaluation hands over what it reads", "failed", read_in_one(unfinished=900.0, own=1400 * thresholds.UNEVEN_FROM_SHARE + 1)),
        ("the same takes longer", "passed", {"steps": [*python(4, 60.0), *python(1, 120.0)], "cpus_shared": True}),
        ("it takes far longer", "failed", {"steps": [*python(4, 60.0), *python(1, 121.0)], "cpus_shared": True}),
        ("the CPUs are free", "failed", {"steps": [*python(4, 60.0), *python(1, 120.0)], "cpus_shared": False}),
        ("a compile", "passed", {"steps": [*steps(4), step(1000, 4, compile=900.0)]}),
        ("waits for the device", "passed", {"steps": [*steps(4), step(1000, 4, compute=900.0)]}),
        ("few steps", "not_applicable", {"steps": steps(thresholds.UNEVEN_MIN_STEPS - 1)}),
        ("no steps", "unavailable", NOTHING),
    ],
    "no-step-markers": [
        ("low", "failed", {"report": {"steps": summary("low", 4)}}),
        ("none", "failed", {"report": {"steps": summary("low", 0, "none")}}),
        ("inferred", "passed", {"report": {"steps": summary("medium")}}),
    ],
    "truncated-trace": [
        ("no graph ran", "passed", {**uncut(0.0), "missing": ["no device activity"]}),
        ("reads ran graphs", "failed", {**uncut(ABOVE, "item"), "missing": ["3 of 8 steps"], "off_device": 0}),
        ("something", "failed", {"missing": ["3 of 8 steps"], "off_device": 0}),
        ("runs ahead", "failed", {"missing": [AHEAD_OF_COMPILES], "off_device": 0, "compiles_return": "never"}),
        ("nothing of the device", "passed", {"missing": ["no device activity"], "off_device": 8}),
        ("nothing", "passed", {"missing": []}),
        ("not told", "unavailable", NOTHING),
    ],
    "device-bound": [
        ("busy", "passed", tpu(busy_share=0.9, offload_share=0.0, collective_share=0.0)),
        ("idles", "not_applicable", tpu(busy_share=0.89, offload_share=0.0, collective_share=0.0)),
        ("waits", "not_applicable", tpu(busy_share=0.95, offload_share=0.1, collective_share=0.0)),
        ("no steps", "unavailable", NOTHING),
    ],
}  # fmt: skip

ADVICE = {"torch-compile-candidate", "while-loop-candidate", "device-bound"}
EXCEPTIONS = {
    "failed": ADVICE,
    # Rules about every run there is.
    "not_applicable": {
        "debug-flags-on",
        "debug-tool-on",
        "aten-fallback",
        "recompiles-shape",
        "recompiles-constant",
        "recompiles-other",
        "slow-compile",
        "device-to-host-sync",
        "host-blocked",
        "input-starved",
        "hbm-pressure",
        "lost-donation",
        "float64-ops",
        "sort-bound",
        "memory-growth",
        "no-step-markers",
        "truncated-trace",
    },
    # How steps were found is always known.
    "unavailable": {"no-step-markers"},
}


@pytest.mark.parametrize(
    ("rule_id", "status", "signals"),
    [
        pytest.param(rule_id, status, signals, id=f"{rule_id}: {name}")
        for rule_id, cases in CASES.items()
        for name, status, signals in cases
    ],
)
def test_what_it_says(rule_id, status, signals):
    outcome = outcome_of(find_rule(rule_id), given(**signals))
    assert (outcome.status, outcome.reason if outcome.status == "error" else "") == (status, "")
    if status in ("not_applicable", "unavailable"):
        assert outcome.reason
    if status == "failed":
        assert outcome.evidence
        assert 0 <= outcome.share <= 1
        assert outcome.price is not None or outcome.reason


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_a_rule_declares_the_signals_that_it_reads(rule):
    asked = {}
    for _name, _status, signals in CASES[rule.id]:
        outcome_of(noting(rule, asked), given(**signals))
    assert sorted(asked[rule.id]) == sorted(rule.reads)


def test_what_a_signal_is_computed_from_is_not_asked_for():
    signals = given(steps=steps(wall=50.0))
    assert signals.typical_ms == 50.0
    assert (signals.noted.asked, signals.noted.read) == ({"typical_ms"}, {"typical_ms"})
    with signals.readings() as noted, pytest.raises(Unavailable):
        _ = signals.busy_share
    assert (noted.asked, noted.read) == ({"busy_share"}, set())


@pytest.mark.parametrize("status", ["failed", "passed", "not_applicable", "unavailable"])
def test_every_rule_is_tested_for_every_status(status):
    tested = {rule_id for rule_id, cases in CASES.items() if any(case[1] == status for case in cases)}
    assert {rule.id for rule in all_rules()} - tested == EXCEPTIONS.get(status, set())


@pytest.mark.parametrize(
    ("waited", "title"),
    [
        ((5.0, 16.0, 15.2), "/device:TPU:0 comes last: another chip waits 11.0 ms per step longer for it"),
        ((5.0, 16.0, 5.0), "/device:TPU:1 waits 11.0 ms per step longer than the chips that come last"),
    ],
)
def test_only_a_chip_that_is_late_alone_is_named(waited, title):
    assert outcome_of(find_rule("barrier-skew"), given(**barriers(*waited))).title == title


@pytest.mark.parametrize(("at_line", "named"), [(8.0, True), (5.0, True), (4.9, False)])
def test_uneven_steps_name_the_line_that_half_of_the_cause_is_at(at_line, named):
    """Sampled in three places; the other two have the rest, and no function holds all."""
    others = [
        replace(asleep((10.0 - at_line) / 2), source=source, frames=[f"{name} ({source})"])
        for name, source in (("log", "log.py:1"), ("wait", "wait.py:2"))
    ]
    slow = [*steps(4), step(160, 4, **{"host:sleep": 60.0})]
    outcome = outcome_of(
        find_rule("uneven-steps"), given(steps=slow, stacks_if_sampled=[asleep(at_line), *others])
    )
    assert ("at train.py:9 (time.sleep(x))" in outcome.title) == named
    assert (outcome.evidence[0].source == "train.py:9") == named


@pytest.mark.parametrize(
    ("cause", "usual", "named"),
    [
        ("user:checkpoint", 0.0, True),
        ("device_to_host_sync", 0.0, True),
        # Slow steps hold 60 ms of 80. A line with 62 % has half of what they hold, though all of the rest were there.
        ("device_to_host_sync", 5.0, True),
        # They hold 60 ms of 84, and it may have less.
        ("device_to_host_sync", 6.0, False),
    ],
)
def test_uneven_steps_name_the_line_of_any_cause_that_slow_steps_hold(cause, usual, named):
    at_line, beside = (
        replace(asleep(ms), part=cause, source=source, user_call=call, frames=[f"train ({source})"])
        for ms, source, call in ((6.3, "train.py:9", "save()"), (3.7, "train.py:5", "loss.item()"))
    )
    slow = [
        *(step(100, row, **({cause: usual} if usual else {})) for row in range(4)),
        step(160, 4, **{cause: 60.0}),
    ]
    outcome = outcome_of(find_rule("uneven-steps"), given(steps=slow, stacks_if_sampled=[at_line, beside]))
    assert ("at train.py:9 (save())" in outcome.title) == named


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("model(x).cpu()", "beside calls that give the device work"),
        ("save()", "that gives the device no work"),
    ],
)
def test_uneven_steps_say_whether_the_line_also_gives_the_device_work(call, said):
    python = replace(asleep(6.3), part="host:python", source="train.py:9", user_call=call)
    hands_over = replace(python, part="dispatch", user_call="model(x).cpu()")
    slow = [*(step(100, row) for row in range(4)), step(160, 4, **{"host:python": 60.0})]
    signals = given(steps=slow, stacks_if_sampled=[python, hands_over])
    title = outcome_of(find_rule("uneven-steps"), signals).title
    assert f"because the host runs code {said} at train.py:9 ({call})" in title


@pytest.mark.parametrize(
    ("wall", "said"),
    [
        (126.0, "the usual step 100 ms; 1 more step is slow for another reason)"),
        (124.0, "the others 100 ms)"),
    ],
)
def test_uneven_steps_count_slow_steps_of_another_cause_that_take_longer(wall, said):
    """The last step idles longer, too; it takes longer only where its device works for as long as in the others."""
    rows = [step(100.0, row, compute=60.0) for row in range(8)]
    rows += [
        step(260.0, 8, compute=60.0, **{"user:gc": 160.0}),
        step(wall, 9, compute=wall - 90.0, tracing=50.0),
    ]
    outcome = outcome_of(find_rule("uneven-steps"), given(steps=rows))
    assert outcome.title.startswith(f"1 of 10 steps takes longer (260 ms, {said}, mostly for ")


@pytest.mark.parametrize(
    ("shared", "said"),
    [(169.0, "1 more step is slow for another reason"), (171.0, "1 more step has that and other work")],
)
def test_uneven_steps_do_not_say_that_a_slow_step_has_another_reason_where_it_has_this_one_too(shared, said):
    """Two steps logged histograms, and one of them waited for its reads for as long: "slow for another reason"."""
    rows = [step(100.0, row, compute=60.0) for row in range(8)]
    rows += [
        step(440.0, 8, compute=60.0, **{"user:log": 340.0}),
        step(430.0, 9, compute=60.0, device_to_host_sync=180.0, **{"user:log": shared}),
    ]
    outcome = outcome_of(find_rule("uneven-steps"), given(steps=rows))
    assert said in outcome.title


def test_fusing_ops_of_jax_saves_from_their_dispatch_to_their_work_as_well():
    facts = {**dispatched(ABOVE), "framework": "jax", "one_op_programs_share": 0.5}
    price = outcome_of(find_rule("eager-dispatch"), given(**facts)).price
    assert (price.least.host, price.least.device) == ({"dispatch": 0.0}, {})
    assert (price.most.host, price.most.device) == ({"dispatch": 0.0}, {"compute": 0.5})


@pytest.mark.parametrize(
    ("facts", "low", "high"),
    [
        ({}, 0.2, 0.5),
        ({"short": 0.5}, 0.2, 0.35),
        ({"bound": "sync"}, 0.0, 0.5),
        ({"cpus_taken": True}, 0.0, 0.5),
        ({"device": "TPU v5 Lite", "cpus_taken": True}, 0.2, 0.2),
    ],
)
def test_a_short_step_is_priced_from_its_calls_to_its_short_ops(facts, low, high):
    outcome = outcome_of(find_rule("short-steps"), given(**short_calls(**facts)))
    savings = outcome.price.savings
    assert (savings.low, savings.high) == pytest.approx((low, high))
    assert "A step is one short program (1.00 ms)" in outcome.title


@pytest.mark.parametrize(("each", "share"), [(SHORT_OP_MS, 0.25), (SHORT_OP_MS * 1.01, 0.0)])
def test_which_ops_are_short(each, share):
    ops = [replace(op("add.1", 100 * each), occurrences=100), replace(op("dot.1", 300 * each), occurrences=1)]
    ops.append(replace(op("all-reduce", 0.1, kind="collective"), occurrences=100))
    assert given(report={"ops": ops}).short_ops_share == pytest.approx(share)
    assert given(report={"ops": []}).short_ops_share == 0


def test_which_programs_are_one_op():
    """A step function of three ops, a sum, and a product with the copy that XLA adds."""
    ops = [
        op(name, ms, program="jit_step(1)") for name, ms in (("dot.1", 5.0), ("dot.2", 3.0), ("add.1", 2.0))
    ]
    ops += [op("add", 4.0, program="jit_add(2)"), op("multiply", 5.0, program="jit_multiply(3)")]
    ops += [
        op("copy", 1.0, program="jit_multiply(3)"),
        op("all-reduce", 9.0, kind="collective", program="jit_psum(4)"),
    ]
    assert given(report={"ops": ops}).one_op_programs_share == pytest.approx(0.5)
    assert given(report={"ops": []}).one_op_programs_share == 0


def test_graph_breaks_of_torch_xla_have_their_line_and_no_price():
    outcome = outcome_of(find_rule("graph-breaks"), given(**in_parts(ABOVE, 8.0, 8.0)))
    assert (outcome.price, outcome.reason) == (
        None,
        "it cannot be priced: what one function would take is unknown",
    )
    assert (
        "breaks at train.py:20: calling all but one part of a pass (8 forward and 8 backward)"
        in outcome.title
    )
    two = outcome_of(find_rule("graph-breaks"), given(**in_parts(ABOVE, breaks=2)))
    assert (
        "breaks at 2 lines, first at train.py:20: calling all but one part of a pass (2 forward)" in two.title
    )


def test_graph_breaks_never_cost_more_than_the_step():
    """Passes on two threads may overlap."""
    facts = dispatched(compiled_regions=5.0, graph_breaks=4.0, **parts_of(0.9, 0.9))
    outcome = outcome_of(find_rule("graph-breaks"), given(**facts))
    assert outcome.share == 1.0 and "takes 100 % of the step" in outcome.title


def test_the_share_of_joins_is_of_programs_that_only_join():
    ops = [
        op("concatenate.3", 30.0, program="jit_concatenate(65)"),
        op("dot.1", 60.0, program="jit_update(8)"),
    ]
    ops.append(op("concatenate.9", 10.0, program="jit_update(8)"))
    assert given(report={"ops": ops}).joining_share == pytest.approx(0.3)
    assert given(report={"ops": []}).joining_share == 0
