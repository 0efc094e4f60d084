"""Watches a piece of TorchTPU training call by call: which line compiled or read a value, and what had changed.

Meant for tests, like `call_watch`. TorchTPU looks its programs up in another thread, so after each call of torch the
watch waits until all programs are looked up. Where ops are deferred it does not, because that would end a fused
program: what was compiled then counts for the read, or the end of the step, that came next.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.call_watch import UNKNOWN_LINE, CallWatch, Counts, function_mode
from tpuprof.instrument.optimizer_steps import OptimizerHook
from tpuprof.instrument.stack_frames import user_line
from tpuprof.instrument.state import STATE
from tpuprof.own_events import READ_METHODS

_MOVES = "to"


class EagerCallWatch(CallWatch):
    """Follows this thread from `start` to `stop`. A step ends where `tpuprof.step` says so, else after an optimizer."""

    def __init__(self, framework: Any) -> None:
        self._reads = 0
        self._framework = framework
        self._optimizers = OptimizerHook(self._optimizer_called)
        super().__init__(framework)

    def start(self) -> None:
        """Begin to watch."""
        STATE.listeners.append(self._step_marked)
        self._optimizers.install()
        self._mode = function_mode(self)
        self._mode.__enter__()
        self._settle()
        self._seen = self._counts()

    def stop(self) -> None:
        """Stop watching and put everything back."""
        self._mode.__exit__(None, None, None)
        self._optimizers.remove()
        STATE.listeners.remove(self._step_marked)
        self._settle()
        self._note(UNKNOWN_LINE, "after the last call")
        self._end_step()

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one torch call of the user's and note what it did."""
        reads = self._on_device(args)
        return super().call(self._counted(function, reads=reads), args, kwargs)

    def _counted(self, function: Callable[..., Any], *, reads: bool) -> Callable[..., Any]:
        name = getattr(function, "__name__", str(function))

        def counted(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            moved = name == _MOVES and getattr(getattr(result, "device", None), "type", "") == "cpu"
            self._reads += reads and (name in READ_METHODS or moved)
            if not self._framework.defers_ops():
                self._settle()
            return result

        counted.__name__ = name
        return counted

    def _on_device(self, args: tuple[Any, ...]) -> bool:
        device = getattr(args[0], "device", None) if args else None
        return getattr(device, "type", "") in self._framework.devices

    def _settle(self) -> None:
        """Wait until what was called is looked up, compiled and run."""
        if self._framework.initialized():
            sys.modules["torch"].accelerator.synchronize()

    def _optimizer_called(self, _number: int, _name: str) -> None:
        if not self._marked:
            self._note(user_line(), "the optimizer")
            self._end_step()

    def _counts(self) -> Counts:
        return Counts(self._framework.compiles(), self._framework.lookups(), self._reads, {})
