"""The switch all instrumentation looks at, and the one door to torch_xla's internals.

Nothing in here raises into training code: a failure switches instrumentation off and is remembered as a
note for the run folder.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class State:
    """`armed`: annotations push scopes and events. `notes`: what went wrong, for run.json.

    `framework` stands for torch_xla's extension where the program trains with TorchTPU or JAX.
    """

    __slots__ = ("armed", "framework", "listeners", "notes")

    def __init__(self) -> None:
        self.armed = False
        self.framework: Any = None
        self.notes: list[str] = []
        # Called with the number of the step that begins, or None for "the next one", and its samples where stated.
        self.listeners: list[Callable[[int | None, float | None], None]] = []


STATE = State()
# Frameworks besides torch_xla, in the order of preference, with the class in `frameworks` that stands for each.
OTHER_FRAMEWORKS = {"torch_tpu": "TorchTpu", "jax": "Jax"}


def xlac() -> Any | None:
    """torch_xla's extension module, or what stands for it; None without a framework. Never imports one on its own."""
    if STATE.framework is not None:
        return STATE.framework
    if "torch_xla" not in sys.modules:
        return None
    return getattr(sys.modules["torch_xla"], "_XLAC", None)


def import_xlac() -> Any | None:
    """The same for the framework that the program has imported; without one, torch_xla is imported if it can be."""
    if "torch_xla" in sys.modules:
        use_framework("")  # it may have been imported after another one was taken for what trains
    elif STATE.framework is None:
        use_framework(next((name for name in OTHER_FRAMEWORKS if name in sys.modules), ""))
    if STATE.framework is not None:
        return STATE.framework
    try:
        importlib.import_module("torch_xla")
    except Exception as error:  # a broken installation raises more than ImportError
        pass_on(error)
        return None
    return xlac()


def use_framework(name: str) -> Any | None:
    """Let TorchTPU or JAX stand for torch_xla's extension; an empty name goes back to torch_xla."""
    if STATE.framework is not None:
        STATE.framework.remove()
    STATE.framework = None
    if name:
        module = importlib.import_module(f"tpuprof.instrument.frameworks.{name}")
        STATE.framework = getattr(module, OTHER_FRAMEWORKS[name])()
        STATE.framework.install()
    return STATE.framework


def on_accelerator(device: str) -> bool:
    """Whether a tensor's device type is one that reads are watched on."""
    return device in (STATE.framework.devices if STATE.framework is not None else ("xla",))


def note_failure(where: str, error: BaseException) -> None:
    """Switch instrumentation off and remember why; training goes on."""
    pass_on(error)
    STATE.armed = False
    note = f"{where} failed and instrumentation was switched off: {type(error).__name__}: {error}"
    if note not in STATE.notes:
        STATE.notes.append(note)


def pass_on(error: BaseException) -> None:
    """Raise an error again that a signal handler of the program raised while our code ran: it is the program's.

    Whatever catches errors in code that runs in the program's main thread calls this or `note_failure` first.
    """
    if from_signal_handler(error):
        raise error


def from_signal_handler(error: BaseException) -> bool:
    """Whether a handler that the program set raised this: Python runs handlers between any two of our instructions."""
    frames, found = [], error.__traceback__
    while found is not None:
        frames.append(found.tb_frame)
        found = found.tb_next
    codes = {frame.f_code for frame in frames}
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    return any(_code(each) in codes for each in handlers) or any(map(_has_interrupted, frames, frames[1:]))


def _code(handler: Any) -> Any:
    """The code of a function, a method, a functools.partial or an object with `__call__`, None where it has none."""
    plain = getattr(handler, "func", handler)
    plain = getattr(plain, "__func__", plain)
    return getattr(plain, "__code__", None) or getattr(type(plain).__call__, "__code__", None)


def _has_interrupted(below: FrameType, frame: FrameType) -> bool:
    """Whether a frame got the one below it as an argument, as handlers do; one may have replaced itself since."""
    values = frame.f_locals.values()
    return any(
        each is below or (type(each) is tuple and any(part is below for part in each)) for each in values
    )


def counter(extension: Any, name: str) -> int:
    """The value of a torch_xla counter, 0 where it has not counted yet."""
    return int(extension._xla_counter_value(name) or 0)


def compile_ns(extension: Any) -> float:
    """How long torch_xla has compiled since the process began (ns); it counts a compile as that ends."""
    data = extension._xla_metric_data("CompileTime")
    return float(data[1]) if data else 0.0
