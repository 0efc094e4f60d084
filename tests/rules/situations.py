"""Situations rules are put in: signals of a run in which one thing is as large or small as a test wants it."""

from dataclasses import replace

import numpy as np

from tests.rules.given import (
    accumulates,
    asleep,
    cache,
    compiled,
    computed,
    fallen,
    memory,
    op,
    read,
    record,
    step,
    steps,
    summary,
    transfer,
)
from tpuprof.model.compile.recurrence import AfterCapture, CompilingLine, Stage
from tpuprof.model.device.unused_gradients import UnusedWork
from tpuprof.model.held_gradients import GradientGroup, HeldGradients
from tpuprof.model.host.eager_dispatch import CompiledParts, EagerDispatch
from tpuprof.model.host.eager_mode import EagerOps
from tpuprof.model.host.reads import IMPLICIT_BACKWARD
from tpuprof.model.preflight_notes import Variant
from tpuprof.model.read_graphs import ReadGraphs
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import GraphCutRow, HostReadRow
from tpuprof.report.sections import Tracing
from tpuprof.rules import thresholds
from tpuprof.rules.tracing.optimizer_loop.rule import KNOWN_FROM_SAMPLES
from tpuprof.signals.telemetry import CompileLimit, GraphBreak
from tpuprof.units import PS_PER_MS

TENTH = thresholds.FAILS_FROM_SHARE
BELOW, ABOVE = TENTH - 0.01, TENTH + 0.01
NOTHING = {}


def traced(share, **more):
    return {
        "framework": "torch_xla", "bound": "tracing", "tracing_hidden_ms": 1.0,
        "steps": steps(tracing=100 * share), "step_compiles": [], **more,
    }  # fmt: skip


def recompiled(share, *kinds):
    return {
        "report": {"compiles": [compiled(kind) for kind in kinds]},
        "steps": steps(),
        "compile_share": share,
    }


def uncut(share, *reads, steps_without=8, kind="graph", method="optimizer steps"):
    rows = [GraphCutRow(call, "train.py:8", 1.0) for call in reads]
    situation = recompiled(share, kind)
    more = {"uncut_steps": steps_without, "cutting_reads": rows, "step_source": summary(method=method)}
    return {**situation, "framework": "torch_xla", **more}


def scan(traces, share, ms=None):
    marks = {"scan_trace": 1.0} if ms is not None else {"scan_run": 1.0}
    report = {"tracing": Tracing(scan_retraces_per_step=traces)}
    return {**traced(share), "report": report, "event_count": marks, "event_ms": {"scan_trace": ms}}


def info(**more):
    return {
        "environment": {},
        "versions": {"torch_xla": "2.9.0"},
        "features_loaded": [],
        "spmd": {"on": False},
        **more,
    }


def started(seconds, compilation_cache=None, **counters):
    start = record(captured=False, wall_ms=1000 * seconds, compiles=2, seconds=seconds, **counters)
    records = [start, record()]
    given = {"compilation_cache": compilation_cache or cache("off"), "records": records}
    return {**given, "steps": steps(), "loops": [], "compiles_return": ""}


def started_by_reads(seconds):
    """Signals of a start whose compiles are of no line, and of a step in which reads run as many graphs."""
    given = started(seconds)
    start, *steps_noted = given["records"]
    records = [replace(start, line_seconds={"": seconds}), *steps_noted]
    return {**given, "records": records, "cutting_reads": [GraphCutRow("item", "train.py:8", 2.0)]}


def goes_on(seconds, line, returns, compiling=5):
    """Signals of a start whose compiles so many of ten captured steps have; `line` compiled longest at the start."""
    rows = [
        replace(compiled("shape", step=number), frames=["main (train.py:8)"]) for number in range(compiling)
    ]
    facts = {"startup_compile_source": line, "compiles_return": returns}
    return {**started(seconds), "report": {"compiles": rows}, **facts}


def in_the_start(seconds, *, kind="constant", later=4, quiet=40, returns="never", before=1.0):
    """Signals of three first steps: each compiles, as `later` of those that follow, each for so long."""
    frames = ["main (train.py:20)"]
    rows = [replace(compiled(kind, 1_000 * seconds, step, "moco.py"), frames=frames) for step in range(3)]
    line = CompilingLine(later, later, seconds * later, frames, list(range(later)))
    stages = [Stage(later, quiet, 0.02 * quiet)]
    lines = {frames[0]: line} if later else {}
    after = AfterCapture(later + quiet, later, later, line.seconds, 60.0, True, lines, stages=stages)
    facts = {**started(before), "steps": steps(count=3), "after_capture": after, "compiles_return": returns}
    return {**facts, "report": {"compiles": rows}}


def foreseen(seconds):
    """Signals of a predicted run whose step took the TPU compiler so long."""
    variant = Variant("this script", "v5e-4", seconds, None, None, None, None)
    return {"predicted": True, "variants": [variant], "steps": steps()}


def debug(with_ms, without_ms, by_user=True, **variables):
    times = (with_ms, without_ms) * 3
    records = [record(captured=False, wall_ms=each, step=number) for number, each in enumerate(times)]
    # Captured steps carry the profiler's work: they do not count.
    records.append(record(wall_ms=3 * with_ms, step=len(times)))
    run = info(
        environment=variables, capture={"ir_debug_by_user": by_user, "ir_debug_off_in_steps": [1, 3, 5]}
    )
    return {"run_info": run, "records": records}


def tools(*names):
    return {"python_tools": list(names)}


def cut(graphs, ms):
    return {
        "framework": "torch_xla", "records": [record(CachedCompile=graphs)], "event_ms": {"graph_cut": ms},
        "steps": steps(), "cutting_lines": [],
    }  # fmt: skip


def host_alone(blocked, waited):
    """Steps without a device plane: reads block that share of a step, and for `waited` of it nothing compiles."""
    return {
        **reads(1.0, 1.0, 100 * blocked),
        "steps": steps(device_to_host_sync=100 * waited),
        "sees_device": False,
    }


def eager(share):
    """Signals of eager mode in which the device waits that share of each step."""
    return {
        "framework": "torch_xla", "eager_ops": EagerOps(60.0, counted=True),
        "steps": steps(tracing=80 * share, dispatch=20 * share),
    }  # fmt: skip


def reads(in_steps, idle, blocked, call="item", bound="device", runtime=0.0):
    return {
        "bound": bound, "runtime_wait_ms": runtime,
        "steps": steps(), "reads_in_steps_share": in_steps, "busy_share": 1 - idle,
        "report": {"host_reads": [read(call, blocked)]},
    }  # fmt: skip


def read_in_one(unfinished, own):
    """The last of five steps waits 900 ms in a read, without a device plane: for work of all steps, and for its own."""
    return {
        "steps": [*steps(4), step(1000, 4, device_to_host_sync=900.0)], "sees_device": False,
        "unfinished_ms": unfinished, "own_waits_ms": np.array([0.0, 0.0, 0.0, 0.0, own]),
    }  # fmt: skip


def computed_again(ms):
    """Reads in two of ten steps that run graphs of their own, so long per step, and the step computes them again."""
    by_step = np.array([5 * ms, 5 * ms, *[0.0] * 8])
    graphs = ReadGraphs("item", "train.py:5", 2, 10, 10, by_step.astype(np.int64))
    return {**reads(0.2, 0.1, 2 * ms), "computed_again_ms": by_step, "read_graphs": [graphs]}


def compiled_for_reads(cut, reads_take, later=None):
    """Ten steps of 100 ms, in each of which a cut and a read compile for so long (ms); the read computes 11 ms again."""
    compiles = [compiled("constant", cut, step=each) for each in range(10)]
    compiles += [
        replace(compiled("constant", reads_take, step=each), in_read=True, frames=["item (train.py:5)"])
        for each in range(10)
    ]
    return {
        **computed_again(11.0),
        "steps": steps(compile=cut + reads_take),
        "step_compiles": compiles,
        "after_capture": later,
        "records_if_noted": [],
    }


def read_in_backward(per_step=91):
    """Such graphs, which reads run that autograd's thread makes, so many per step."""
    facts = computed_again(20.0)
    graphs = [replace(each, call=IMPLICIT_BACKWARD) for each in facts["read_graphs"]]
    (row,) = facts["report"]["host_reads"]
    row = replace(row, call=IMPLICIT_BACKWARD, occurrences=per_step * len(facts["steps"]))
    return {**facts, "read_graphs": graphs, "report": {"host_reads": [row]}}


def collectives(kind, share, fsdp=False):
    run = info(features_loaded=["fsdpv2"] if fsdp else [], spmd={"on": True})
    return {"run_info": run, "collectives": [transfer(kind)], "collective_share": share}


def flags(share, chip="v6e", framework="torch_xla", **variables):
    """Gathers that nothing runs beside and that take such a share, in a run with these variables."""
    given = collectives("all-gather", share)
    return {
        **given,
        "collectives": [transfer("all-gather", hidden=0.0)],
        "run_info": info(environment=variables),
        "is_tpu": True,
        "chip": chip,
        "framework": framework,
    }


def offloaded(share, exposed=10.0, hidden=1.0):
    return {
        "offload": [transfer("host_to_device", exposed, hidden)],
        "offload_share": share,
        "steps": steps(wall=20.0),
    }


def tpu(**more):
    return {**computed(op(), op("fusion.2", 90.0)), **more}


def special(ms, name="fusion.2", **facts):
    """Signals of a TPU that spends so many of 100 ms in one op with these facts."""
    return computed(op(ms=100 - ms), op(name, ms, **facts))


def again(ms, *, peak=100, capacity=1000, more=20):
    """Signals of a device that computes again for so many of 100 ms what takes `more` bytes."""
    rows = OpRows.of([op("dot.2", ms, self_ms_per_step=ms)])
    memory_of = {"memory_if_known": memory(peak, capacity), "stacks_if_sampled": []}
    return {**special(ms), "recomputed_ops": rows, "recomputed_bytes": more, **memory_of, "cpus_short": False}


def attention(ms):
    return special(ms, annotation="attention/softmax")


def parts_of(between, calls):
    """What lies between compiled functions, and what calling them costs, as shares of a step of 100 ms."""
    took = 100 * PS_PER_MS * calls
    return {"between_ps": 100 * PS_PER_MS * between, "parts_ps": took / 2, "calls_ps": took}


def in_parts(share, forward=2.0, backward=0.0, breaks=1):
    """torch_xla steps of 100 ms that call so many functions of torch.compile, which takes that share of a step."""
    return {
        "framework": "torch_xla",
        "steps": steps(),
        "eager_dispatch": None,
        "event_count": {"compiled_region": forward + backward},
        "compiled_parts": CompiledParts(forward, backward, 100 * PS_PER_MS * share),
        "noted_graph_breaks": [GraphBreak("train.py:20", "", "forward")] * breaks,
        "run_info": {"schema": "tpuprof.run/1"},
    }


def given_up(forward=0.0):
    """The same of steps that trace for half of their time, where torch.compile gave up on a function."""
    limit = CompileLimit("train.py:19", "model.seen == 24", "8")
    return {**in_parts(0.5, forward), "steps": steps(tracing=50.0), "noted_compile_limits": [limit]}


def flushed(count, cost=0.5):
    """Ten deferred steps of so many reads each (a step of 100 ms, that share of it for reads and dispatch)."""
    rows = [HostReadRow("item", "train.py:9", 10 * count, 1.0)] if count else []
    facts = dispatched(share=cost / 2)
    parts = {"dispatch": 100 * cost / 2, "device_to_host_sync": 100 * cost / 2}
    return {**facts, "steps": steps(**parts), "defers_ops": True, "report": {"host_reads": rows}}


def waits_behind_work(share):
    """A thread that waits for batches for that share of all steps, while the device idles in one of five."""
    late = [step(160.0, row, input_wait=100.0) if row % 5 == 4 else step(85.0, row) for row in range(20)]
    return {"steps": late, "stacks_if_sampled": [asleep(20.0, 100 * share - 20.0, part="input_wait")]}


def called_by_themselves(calling, computing):
    """Steps of JAX, those shares of them calling ops one by one and computing them."""
    return {
        **dispatched(calling),
        "framework": "jax",
        "steps": steps(dispatch=100 * calling, compute=100 * computing),
        "one_op_programs_share": 1.0,
    }


def dispatched(share=0.5, reads=0.0, **counts):
    """TorchTPU steps of 100 ms, that share of them calling ops one by one, and optimizers read for so long (ms)."""
    facts = {"ops": 40.0, "programs": 20.0, "optimizer_ps": 0.0, "optimizer_ops": 0.0, "optimizer_many": 0.0}
    facts |= {"compiled_regions": 0.0, "between_ps": 0.0, **counts}
    return {
        "framework": "torch_tpu",
        "steps": steps(dispatch=100.0 * share),
        "eager_dispatch": EagerDispatch(**facts),
        "optimizer_reads_ms": reads,
        "noted_graph_breaks": [],
        "noted_compile_limits": [],
        "defers_ops": False,
    }


def short_calls(
    dispatch=0.2, wall=thresholds.SHORT_STEP_UP_TO_MS, *, compute=0.3, short=1.0, device="CPU", **given
):
    """JAX steps that are one program, a dispatch and a computing of those shares; `short` of it in short ops."""
    return {
        **dispatched(programs=1.0, ops=1.0, called=(("decode", 1.0),), kinds=1),
        "framework": "jax",
        "steps": steps(wall=wall, dispatch=wall * dispatch, compute=wall * compute),
        "report": {"environment": {"device_type": device}},
        "short_ops_share": short,
        "bound": "dispatch",
        **given,
    }


def selects(per_step, busy_share=0.5):
    """Signals of a run that selects by a mask so often per step."""
    return fallen(per_step, busy_share, op="aten::nonzero")


def accumulated(batches, share=0.5, seconds=0.0, **more):
    """Signals of a run with so many micro-batches in one program, that share of tracing, and that long a start."""
    memory = accumulates(batches)
    return {**started(seconds), **traced(share), "memory": memory, "cutting_reads": [], **more}


def reading_in_each(batches, share=0.5, per_step=None):
    """The same, with a read that runs a graph in each micro-batch, or so often per step."""
    rows = [GraphCutRow("item", "train.py:8", batches if per_step is None else per_step)]
    return accumulated(batches, share, cutting_reads=rows)


def updates(
    exposed, samples=KNOWN_FROM_SAMPLES, call="step", file="/lib/torch/optim/adamw.py", tracing=0.0, inside=()
):
    """Signals of torch_xla steps of 100 ms that trace an optimizer for so long (ms) while the device idles."""
    stack = asleep(exposed, hidden=1.0, part="tracing")
    stack = replace(stack, frames=["<module> (train.py:9)", f"{call} ({file}:33)", *inside], samples=samples)
    return {
        "framework": "torch_xla", "bound": "tracing", "eager_dispatch": None, "host_stacks": [stack], "tracing_hidden_ms": 1.0,
        "steps": steps(tracing=tracing or exposed),
    }  # fmt: skip


def unused(share=ABOVE, least=None, framework="torch_xla", grew=8, changes=4, work=None, **more):
    """Gradients of a teacher that grew in 8 captured steps, of 4 before; the ops for them alone take so much (share)."""
    group = GradientGroup("teacher", (64, 48), 2, 24576, grew, grew, changes)
    sure, possible = (
        OpRows.of([op("dot.1", 100 * each, self_ms_per_step=100 * each)])
        for each in (share if least is None else least, share)
    )
    return {
        "is_tpu": True, "busy_share": 1.0, "hosts": [], "framework": framework, "device_type": "TPU v5 lite", "cpus_short": False,
        "held_gradients": HeldGradients((group,), 8, 5),
        "unused_work": UnusedWork(frozenset(), frozenset(), {(64, 48): 2}, 0, True) if work is None else work,
        "unused_ops": (sure, possible),
        "gradient_resets": None, "compute_ms": 100.0, **more,
    }  # fmt: skip
