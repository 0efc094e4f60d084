"""Watches a piece of training code call by call: which line compiled, read back, fell back, and what had changed.

Meant for tests, not for training runs: torch's function mode hands every torch call of the thread to us, and
torch_xla's counters are read around each (about ten microseconds). The graphs traced stay the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tpuprof.instrument import sync_guard
from tpuprof.instrument.stack_frames import user_line
from tpuprof.instrument.state import STATE, counter
from tpuprof.instrument.wrapped_calls import Function, Replaced

_FALLBACKS = "aten::"
# `.item()` and `bool()`: counted as a fallback by torch_xla, and a read of a device value to everyone else.
_VALUE_READ = "aten::_local_scalar_dense"
# Functions of the extension, in addition to the graph cut, that run graphs or read values, called by name.
_EXTENSION_CALLS = ("_xla_sync_multi", "_xla_get_cpu_tensors", "_xla_warm_up_cache", "_run_cached_graph")
# Runs a graph of torch.compile, which the counters of graphs leave out.
_COMPILED_CALL = "_run_cached_graph"
# Calls remembered of one step, to tell what changed before a recompile (calls).
MAX_CALLS = 50_000
UNKNOWN_LINE = "an unknown line (not a torch call of this thread)"


@dataclass(frozen=True)
class Event:
    """Something that happened `count` times in one call: its kind, the user's line, the step, and what it was."""

    kind: str
    count: int
    line: str
    step: int
    detail: str


@dataclass(frozen=True)
class Call:
    """One torch call: its name, the user's line, what came out (`f32[4,8]`), and its plain numbers."""

    name: str
    line: str
    result: tuple[str, ...]
    numbers: tuple[str, ...]


@dataclass
class StepLog:
    """One step: graphs it ran, those of them compiled, (line, call) that ran each, and the calls that built them."""

    number: int
    graphs: int = 0
    compiles: int = 0
    cuts: list[tuple[str, str]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


@dataclass(frozen=True)
class Counts:
    """What the runtime has counted so far."""

    compiles: int
    graphs: int
    reads: int
    fallbacks: dict[str, int]


class CallWatch:
    """Follows this thread from `start` to `stop`; afterwards `events` and `steps` say what happened.

    A step ends where `tpuprof.step` says so, else at a graph cut. Steps that ran no graph are left out.
    """

    def __init__(self, extension: Any) -> None:
        self.events: list[Event] = []
        self.steps: list[StepLog] = []
        self._extension = extension
        self._log = StepLog(0)
        self._marked = False
        self._seen = self._counts()
        self._mode: Any = None
        self._replaced = Replaced()

    def start(self) -> None:
        """Begin to watch."""
        sync_guard.install()
        sync_guard.observe(self._before_cut, self._after_cut)
        STATE.listeners.append(self._step_marked)
        for name in _EXTENSION_CALLS:
            if hasattr(self._extension, name):
                self._replaced.replace(self._extension, name, partial(self._wrapped, name))
        self._mode = function_mode(self)
        self._mode.__enter__()
        self._seen = self._counts()

    def stop(self) -> None:
        """Stop watching and put everything back."""
        self._mode.__exit__(None, None, None)
        self._replaced.put_back()
        STATE.listeners.remove(self._step_marked)
        sync_guard.stop_observing(self._before_cut, self._after_cut)
        self._note(UNKNOWN_LINE, "after the last call")
        self._end_step()

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one torch call of the user's and note what it did."""
        self._note(UNKNOWN_LINE, "between calls")
        result = function(*args, **kwargs)
        name = getattr(function, "__name__", str(function))
        line = user_line()
        if name not in _QUIET and len(self._log.calls) < MAX_CALLS:
            self._log.calls.append(Call(name, line, _described(result), _numbers(args, kwargs)))
        self._note(line, name)
        return result

    def _wrapped(self, name: str, original: Function) -> Function:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self._note(UNKNOWN_LINE, "between calls")
            try:
                return original(*args, **kwargs)
            finally:
                if name == _COMPILED_CALL:
                    self._log.graphs += 1
                    self._log.cuts.append((user_line(), "a graph of torch.compile"))
                self._note(user_line(), name)

        return watched

    def _before_cut(self) -> None:
        self._note(UNKNOWN_LINE, "between calls")

    def _after_cut(self) -> None:
        self._note(user_line(), "graph cut")
        if not self._marked:
            self._end_step()

    def _step_marked(self, _: int | None, _samples: float | None = None) -> None:
        self._note(UNKNOWN_LINE, "between calls")
        self._marked = True
        self._end_step()

    def _end_step(self) -> None:
        if self._log.graphs:
            if self.steps:
                self.steps[-1].calls = []  # only the step before is ever compared with
            self.steps.append(self._log)
            self._log = StepLog(self._log.number + 1)

    def _note(self, line: str, what: str) -> None:
        """Take the counters' changes since the last look, as done at that line."""
        before, now = self._seen, self._counts()
        self._seen = now
        graphs = now.graphs - before.graphs
        self._log.graphs += graphs
        self._log.cuts += [(line, what)] * graphs
        compiles = now.compiles - before.compiles
        if compiles:
            self._log.compiles += compiles
            self._add("compile", compiles, line, f"{what}; {self._cause()}")
        if now.reads > before.reads:
            self._add("read", now.reads - before.reads, line, what)
        for name, count in now.fallbacks.items():
            if count > before.fallbacks.get(name, 0):
                self._add("fallback", count - before.fallbacks.get(name, 0), line, name)

    def _add(self, kind: str, count: int, line: str, detail: str) -> None:
        self.events.append(Event(kind, count, line, self._log.number, detail))

    def _cause(self) -> str:
        return what_changed(self.steps[-1].calls, self._log.calls) if self.steps else "the first graph"

    def _counts(self) -> Counts:
        extension = self._extension
        names = [name for name in extension._xla_counter_names() if name.startswith(_FALLBACKS)]
        reads = extension._xla_metric_data("TransferFromDeviceTime")
        compiles = counter(extension, "UncachedCompile")
        return Counts(
            compiles,
            compiles + counter(extension, "CachedCompile"),
            int(reads[0]) if reads else 0,
            {name: counter(extension, name) for name in names if name != _VALUE_READ},
        )


# Looking at a tensor traces nothing, and its calls would drown the others.
_QUIET = frozenset(
    {"__get__", "size", "dim", "numel", "is_floating_point", "is_complex", "__len__", "__hash__"}
)


def what_changed(before: list[Call], now: list[Call]) -> str:
    """What tells a step's torch calls from those of the step before: a shape or dtype, a call, else a number.

    Numbers come last: torch_xla bakes only some of them into the graph, so another difference explains more.
    """
    for old, new in zip(before, now, strict=False):
        if old.name != new.name:
            return f"graph: {new.name} at {new.line} where the step before ran {old.name} at {old.line}"
        if old.result != new.result:
            changed = next(
                (a, b) for a, b in zip((*old.result, ""), (*new.result, ""), strict=False) if a != b
            )
            kind = "dtype" if changed[0].partition("[")[2] == changed[1].partition("[")[2] else "shape"
            return f"{kind}: {changed[0] or 'nothing'} became {changed[1] or 'nothing'} in {new.name} at {new.line}"
    if len(before) != len(now):
        longer, word = (now, "more") if len(now) > len(before) else (before, "fewer")
        first = longer[min(len(before), len(now))]
        return f"graph: {abs(len(now) - len(before))} {word} calls, from {first.name} at {first.line} on"
    for old, new in zip(before, now, strict=True):
        for a, b in zip(old.numbers, new.numbers, strict=False):
            if a != b:
                return f"constant: {a} became {b} in {new.name} at {new.line}"
    return "unknown: the step made the same torch calls as the one before"


def function_mode(watch: CallWatch) -> Any:
    """A function mode of torch that hands each call to the watch."""
    from torch.compiler import is_dynamo_compiling
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):  # type: ignore[misc]  # torch is skipped by the checker
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            if is_dynamo_compiling():
                return func(*args, **(kwargs or {}))  # else torch.compile would trace the watch, too
            return watch.call(func, args, kwargs or {})

    return Mode()


_SHORT = {
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "float16": "f16",
    "int64": "s64",
    "int32": "s32",
}


def _described(result: Any) -> tuple[str, ...]:
    """Dtype and shape of each tensor a call gave back."""
    import torch

    found = []
    for each in result if isinstance(result, tuple | list) else (result,):
        if isinstance(each, torch.Tensor):
            dtype = str(each.dtype).removeprefix("torch.")
            found.append(f"{_SHORT.get(dtype, dtype)}[{','.join(map(str, each.shape))}]")
    return tuple(found)


def _numbers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    return tuple(repr(each) for each in (*args, *kwargs.values()) if isinstance(each, bool | int | float))
