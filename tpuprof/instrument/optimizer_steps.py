"""Sees every call of a torch.optim optimizer, by torch's own hook: what is between two of them is a training step.

The hook covers optimizers however they are called: `xm.optimizer_step`, a GradScaler, Accelerate, Lightning, closures.
It does no device work, and nothing it raises reaches the program.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.optimizer_numbers import OptimizerNumbers
from tpuprof.instrument.state import note_failure, pass_on

# Called with a number for the optimizer, by first appearance, and with its class name.
Called = Callable[[int, str], None]


class OptimizerHook:
    """Tells `called` of each optimizer call, in the thread that makes it, from `install` to `remove`."""

    def __init__(self, called: Called) -> None:
        self._called: Called | None = called
        self._compiling: Callable[[], bool] = lambda: False
        # Whether any optimizer stepped.
        self.stepped = False
        # Whether a call needs nothing more than to be counted, which the function does itself.
        self.passes: Callable[[], bool] = lambda: False
        self._numbers = OptimizerNumbers()
        self._handle: Any = None
        # The optimizer that stepped last, and the gradients of its parameters at the last graph cut.
        self._last: Callable[[], Any] = lambda: None
        self._gradients: list[tuple[int, int]] = []

    def install(self) -> bool:
        """Put the hook in place; False where torch is not loaded or has none. Doing it twice is harmless."""
        module = sys.modules.get("torch.optim.optimizer")
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is None:
            return False
        if self._handle is None:
            self._compiling = sys.modules["torch"].compiler.is_dynamo_compiling
            self._handle = register(self._stepped)
        return True

    def remove(self) -> None:
        """Take the hook away."""
        handle, self._handle, self._called = self._handle, None, None
        if handle is not None:
            handle.remove()

    def may_train(self) -> bool:
        """Whether training may go on without an optimizer's call: since the last graph cut a backward pass ran.

        A trainer evaluates with gradients on, but for the forward pass. The first and the last parameter of the
        optimizer that stepped last tell: they have another gradient then. Where none stepped, gradients that are on do.
        """
        try:
            optimizer = self._last()
            if optimizer is None or not gradients_on():
                return gradients_on()
            groups = optimizer.param_groups
            ends = [*groups[0]["params"][:1], *groups[-1]["params"][-1:]]
            found = [(id(each.grad), each.grad._version) for each in ends if each.grad is not None]
            changed, self._gradients = bool(found) and found != self._gradients, found
            return changed
        except Exception as error:  # an odd optimizer: what counts is then that gradients are on
            pass_on(error)
            return True

    def _stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        # Under torch.compile this is traced: it must fold away, not break the program's graph.
        if self._compiling():
            return
        try:
            if self.passes() or self._called is None:
                return
            self.stepped = True
            number = self._numbers.of(optimizer)
            if self._last() is not optimizer:
                self._last = weakref.ref(optimizer)
            self._called(number, type(optimizer).__name__)
        except Exception as error:
            note_failure("following the optimizer", error)


def gradients_on() -> bool:
    """Whether this thread records gradients: an evaluation does not. True where torch is not loaded."""
    torch = sys.modules.get("torch")
    return torch is None or bool(torch.is_grad_enabled())
