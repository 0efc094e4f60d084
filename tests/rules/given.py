"""Signals given by hand: what is not given is unavailable, as in a run that cannot tell it."""

from functools import cached_property
from types import SimpleNamespace

from tpuprof.model.matmuls import Matmul
from tpuprof.model.telemetry import StepRecord
from tpuprof.report.schema import (
    Cause,
    CompileRow,
    HostReadRow,
    LoopRow,
    Memory,
    OpRow,
    StepRow,
    StepSummary,
    TransferRow,
)
from tpuprof.signals import Signals, Unavailable


class GivenSignals(Signals):
    """Signals with values of a test's choosing; derived ones are computed from them as always."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def _share(self, name):
        raise Unavailable("not given")


# Signals that are computed from others, and so need not be given; all others raise.
_DERIVED = {
    "typical_steps", "typical_parts", "typical_ms", "typical_device_idle_ms", "step_ms", "step_compiles",
    "captured_records", "counters", "all_counters", "startup_compile_seconds", "startup_compiles", "fallbacks",
    "graphs_per_step", "falls_back", "python_reads", "variables", "features", "spmd", "torch_xla_version",
    "hbm_share", "op_ms", "slowest_host_steps", "even_rows", "idle_by_step", "parameter_gathers",
}  # fmt: skip


def _absent(name):
    def missing(_self):
        raise Unavailable(f"{name} is not given")

    return missing


for _name, _member in list(vars(Signals).items()):
    if isinstance(_member, cached_property) and _name not in _DERIVED:
        _replacement = cached_property(_absent(_name))
        _replacement.__set_name__(GivenSignals, _name)
        setattr(GivenSignals, _name, _replacement)


def given(**values):
    """Signals with these values. `run_info` is run.json; `report` takes fields of the report by name."""
    info = values.pop("run_info", None)
    if info is not None:
        values["info"] = info
    values["run"] = SimpleNamespace(info=info or {}, hosts=[])
    fields = {"host_reads": [], "compiles": [], **values.pop("report", {})}
    values["report"] = SimpleNamespace(**fields)
    return GivenSignals(**values)


def step(wall=100.0, index=0, host="host0", **parts):
    return StepRow(index, host, index * 10**8, wall, parts, 0.0, "")


def steps(count=10, wall=100.0, **parts):
    return [step(wall, index, **parts) for index in range(count)]


def summary(confidence="high", count=10, method="step markers"):
    return StepSummary(count, method, confidence, None, None, "", [])


def record(captured=True, wall_ms=100.0, compiles=0, seconds=0.0, **counters):
    counters = {name.replace("__", "::"): value for name, value in counters.items()}
    return StepRecord(0, int(wall_ms * 1e6), captured, counters, compiles, seconds)


def compiled(kind, ms=100.0, step=1, file=None):
    return CompileRow(
        step, "host0", "hash", "graph(1)", 0, ms, Cause(kind, "what changed", file, 7 if file else None)
    )


def transfer(kind="all-reduce", exposed=10.0, hidden=1.0):
    return TransferRow(f"{kind}.1", kind, 1024, 10, 1.0, None, exposed, hidden, "p", "train.py:3", "")


def op(name="fusion.1", ms=10.0, category="fusion", kind="compute", annotation=""):
    return OpRow(name, category, kind, "graph(1)", 10, ms, ms, None, None, "train.py:3", annotation)


def read(call="item", ms=50.0, source="train.py:9"):
    return HostReadRow(call, source, 10, ms)


def loop(count, kind="unrolled"):
    return LoopRow("Block", kind, "graph(1)", "", count, 1, None, None, [], "model.py:5", "")


def memory(peak, capacity=1000):
    return Memory(peak, capacity, "hlo", "")


def matmul(kind="f32", dims=(128, 128), ms=10.0):
    return Matmul("dot.1", ((kind, dims), (kind, dims), (kind, dims)), ms, "train.py:3")
