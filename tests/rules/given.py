"""Signals given by hand: what is not given is unavailable, as in a run that cannot tell it."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from tpuprof.model.device.allocator import Allocated
from tpuprof.model.step_columns import StepColumns
from tpuprof.model.telemetry import StepRecord
from tpuprof.report.memory import BufferRow, Memory
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import (
    Cause,
    CompileRow,
    HostReadRow,
    LoopRow,
    OpRow,
    StepRow,
    StepSummary,
    TransferRow,
)
from tpuprof.report.sections import (
    CategoryRow,
    ChipWaitRow,
    CompilationCache,
    Compute,
    FallbackRow,
    HostRow,
    Hosts,
    HostStackRow,
    LateStepRow,
    Steadiness,
    Tracing,
)
from tpuprof.signals import Signals, Unavailable, signal_units
from tpuprof.signals.base import Signal


class GivenSignals(Signals):
    """Signals with values of a test's choosing; derived ones are computed from them as always."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def lacking(self, name):
        return ""

    def _share(self, name):
        raise Unavailable("not given")


# Signals that are computed from others, and so need not be given; all others raise.
_DERIVED = {
    "typical_steps", "typical_parts", "hosts", "device_type", "framework", "predicted", "command_if_noted", "after_capture", "long_later_steps", "compiles_outside_steps", "usual_step_ms", "noted_compile_limits",
    "records_if_noted", "loops_if_seen", "memory_if_known", "tracing", "input_pipelines", "steadiness", "phases", "typical_ms", "typical_device_idle_ms", "step_ms", "uncompiled_ms", "step_compiles",
    "is_cpu_plugin", "captured_records", "counters", "all_counters", "startup_compile_seconds", "startup_compiles", "startup_compile_source", "startup_longest_line_share", "startup_unlined_share", "start_graphs", "startup_short_compile_seconds", "fallbacks",
    "graphs_per_step", "falls_back", "python_reads", "python_reads_if_seen", "python_tools_if_noted", "variables", "features", "spmd", "torch_xla_version",
    "hbm_share", "op_ms", "slowest_host_steps", "even_rows", "idle_by_step", "gathered_whole", "part_sorts", "parameter_gathers", "beside_gathers_share", "one_op_programs_share", "joining_share", "short_ops_share", "ready_reads_ms", "unwaited_reads_ms", "optimizer_reads_ms", "compute_ms",
    "matmuls", "host_reads", "copied_for", "copied_at", "copying_ms", "compiles_return", "read_graphs", "computed_again_ms", "again_for_ops_ms", "step_source", "host_pace", "late_chip_share", "typical_tracing_ms", "sampled_host_ms", "sampled_late", "cpus_taken", "cpus_shared", "cpus_short", "cpus", "cpus_free_share", "stacks_if_sampled", "eager_ops", "device_at_most_ms", "unfinished_ms", "own_waits_ms", "scan_retraces", "preflight", "unrolled", "program_lines", "alike_inputs", "held_gradients", "unused_work", "unused_ops", "gradient_resets", "step_count", "idle_at_reads_ms", "compiling_looks_if_seen", "cut_may_wait", "graphs_for_reads_ms",
}  # fmt: skip


def _absent(name):
    def missing(_self):
        raise Unavailable(f"{name} is not given")

    return missing


for _name in signal_units():
    if _name not in _DERIVED:
        _replacement = Signal(_absent(_name))
        _replacement.__set_name__(GivenSignals, _name)
        setattr(GivenSignals, _name, _replacement)


def given(**values):
    """Signals with these values. `run_info` is run.json; `report` takes fields of the report by name."""
    info = values.pop("run_info", None)
    if "ops" in values:
        values["ops"] = OpRows.of(values["ops"])
    if info is not None:
        values["info"] = info
    variants, predicted = values.pop("variants", []), values.pop("predicted", False)
    values["_run"] = SimpleNamespace(info=info or {}, hosts=[], preflight=variants, predicted=predicted)
    fields = {
        "environment": {}, "steps": SimpleNamespace(whole_capture=False), "memory": Memory(None, None, "", "not known"),
        "host_reads": [], "ops": [], "compiles": [], "fallbacks": [], "input": [], "host_stacks": [], "loops": [], "tracing": Tracing(),
        "tracing_hidden_ms_per_step": None, "hosts": Hosts(), "steadiness": Steadiness(), "phases": [], **values.pop("report", {}),
    }  # fmt: skip
    values["_report"] = SimpleNamespace(**fields)
    if "steps" in values:
        values["steps"] = in_columns(values["steps"])
    values.setdefault("sees_device", True)
    values.setdefault("idles_in_reads", False)
    values.setdefault("turns_at_most", 1.0)
    values.setdefault("idle_at_reads_ms", math.inf)
    return GivenSignals(**values)


def in_columns(rows):
    """Rows of steps as the columns that signals have them in."""
    hosts = list(dict.fromkeys(row.host for row in rows))
    names = dict.fromkeys(name for row in rows for name in row.breakdown_ms)
    return StepColumns(
        tuple(hosts),
        np.array([hosts.index(row.host) for row in rows], np.int64),
        np.array([row.index for row in rows], np.int64),
        np.array([row.start_ns for row in rows], np.int64),
        np.array([row.wall_ms for row in rows]),
        {name: np.array([row.breakdown_ms.get(name, 0.0) for row in rows]) for name in names},
    )


def step(wall=100.0, index=0, host="host0", **parts):
    return StepRow(index, host, index * 10**8, wall, parts, 0.0, "")


def steps(count=10, wall=100.0, **parts):
    return [step(wall, index, **parts) for index in range(count)]


def summary(confidence="high", count=10, method="step markers"):
    return StepSummary(count, method, confidence, None, None, "", [])


def record(captured=True, wall_ms=100.0, compiles=0, seconds=0.0, step=0, **counters):
    counters = {name.replace("__", "::"): value for name, value in counters.items()}
    return StepRecord(step, int(wall_ms * 1e6), captured, counters, compiles, seconds)


def compiled(kind, ms=100.0, step=1, file=None):
    return CompileRow(
        step, "host0", "hash", "graph(1)", 0, ms, Cause(kind, "what changed", file, 7 if file else None)
    )


def compiling(rows, *, count=10, framework="torch_xla"):
    """Signals of so many steps of 100 ms, nine tenths of which go to these compiles; none was seen outside of them."""
    return given(
        steps=steps(count=count, compile=90.0),
        step_ms=100.0,
        step_compiles=rows,
        compile_share=0.9,
        after_capture=None,
        records_if_noted=[],
        framework=framework,
        uncut_steps=0.0,
        explains_misses=False,
        tracing_hidden_ms=0.0,
        phases=[],
        cutting_reads=[],
    )


def transfer(kind="all-reduce", exposed=10.0, hidden=1.0, role=""):
    return TransferRow(
        f"{kind}.1", kind, 1024, 10, 1.0, None, exposed, hidden, "p", "train.py:3", "", role=role
    )


def op(
    name="fusion.1", ms=10.0, category="fusion", kind="compute", annotation="", program="graph(1)", **more
):
    return OpRow(name, category, kind, program, 10, ms, ms, None, None, "train.py:3", annotation, **more)


def computed(*ops, mfu=None):
    """Signals of these ops on a TPU that is always busy, with the sums that the compute section makes of them."""

    def total(chosen):
        return sum(each.self_ms for each in ops if chosen(each))

    compute = Compute(
        mfu, "", None, None, None,
        matmul_ms_per_step=total(lambda each: each.matmul_type),
        float32_matmul_ms_per_step=total(lambda each: each.matmul_type == "f32"),
        layout_copy_ms_per_step=total(lambda each: each.layout_copy),
        padded_ms_per_step=total(lambda each: (each.padding or 0) >= 1.25),
        categories=[CategoryRow("all", total(lambda each: True), 1.0)],
    )  # fmt: skip
    return {"is_tpu": True, "busy_share": 1.0, "ops": list(ops), "compute": compute, "hosts": []}


def fallen(per_step, busy_share=0.5, op="aten::histc"):
    """Signals of a run in which an op falls back that often per step (None: torch_xla's text names it)."""
    rows = [FallbackRow(op, per_step, "train.py:9")]
    return {"report": {"fallbacks": rows, "host_reads": []}, "records": [record()], "busy_share": busy_share}


def cache(status, hits=0, misses=0):
    return CompilationCache(status, "/c", hits, misses, 0, f"{hits} hits, {misses} misses")


def barriers(*waited):
    """Chips of one host that wait so long (ms) per step in barriers."""
    rows = [
        ChipWaitRow("host0", f"/device:TPU:{chip}", 10, 0.0, 10 * ms, 0.0) for chip, ms in enumerate(waited)
    ]
    return {
        "is_tpu": True, "chips_per_host": len(waited), "steps": steps(), "step_count": 10,
        "report": {"hosts": replace(two_hosts("", 0.0), chip_waits=rows)},
    }  # fmt: skip


def two_hosts(straggler, lag):
    rows = [HostRow(name, 10, 100.0, None, None, None) for name in ("host0", "host1")]
    late = [LateStepRow(1, "host1", lag, "all-reduce.1", {"host0": lag, "host1": 0.0})]
    return Hosts(rows, "collectives", "", straggler, lag, late)


def one_host():
    return replace(two_hosts("", 0.0), hosts=two_hosts("", 0.0).hosts[:1])


def read(call="item", ms=50.0, source="train.py:9"):
    return HostReadRow(call, source, 10, ms)


def loop(count, kind="unrolled", ops=None):
    """A loop over so many layers; `ops` is the part of the program's ops that is theirs, None where no name tells."""
    return LoopRow("Block", kind, "graph(1)", "", count, 1, None, None, [], "model.py:5", "", ops, ops)


def memory(peak, capacity=1000, host=0, copied=0):
    """HBM of these bytes, with so many on the host, of which the peak holds `copied` as made by a copy."""
    buffers = [BufferRow("host_to_device.1", copied, "", "temporary", "", "")]
    return Memory(peak, capacity, "hlo", "", by_kind={"host": host} if host else {}, buffers=buffers)


def growing(series, free):
    """Memory of one device in use at the end of each step, with so much free at least (bytes)."""
    rows = tuple(series)
    return {"allocated": [("host0", Allocated(0, 10, max(rows), rows[-1], free, rows))]}


def undonated(size, capacity=2000, copied_ms=0.0):
    """HBM of 1,000 bytes, of which results take so many beside inputs of the same size; copies of those inputs."""
    copies = [op("copy.1", copied_ms, category="copy", self_ms_per_step=copied_ms)] if copied_ms else []
    return {
        "memory": replace(memory(1000, capacity), undonated_bytes=size),
        "input_copies": OpRows.of(copies),
        "step_ms": 100.0,
        "compute_ms": 100.0,
    }


def accumulates(batches):
    """HBM of a program that adds up the gradients of so many batches."""
    return replace(memory(1000), micro_batches=batches)


def asleep(exposed, hidden=0.0, part="host:sleep"):
    """Samples of a thread that sleeps so long (ms per step) at one line."""
    frames = ["train (train.py:9)"]
    return HostStackRow(
        part, frames, "time.sleep(x)", "train.py:9", "time.sleep(x)", exposed, hidden, samples=50
    )


def noting(rule, asked):
    """The rule, which adds the signals that its check asks for to `asked`, by its id."""

    def check(signals):
        try:
            return rule.check(signals)
        finally:
            asked.setdefault(rule.id, set()).update(signals.noted.asked)

    return replace(rule, check=check)
