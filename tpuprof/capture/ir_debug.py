"""Has torch_xla put scopes and source lines into the programs it compiles, without slowing the captured steps.

With IR debugging on, torch_xla collects Python frames at every op, which makes tracing about half as slow
again or worse. The metadata ends up in the compiled program and is no part of its hash. So debugging is on
while graphs are first compiled, and off while steps are captured: those reuse the programs and are traced
at their usual speed. A graph that is compiled during the capture itself has no metadata then.
"""

from __future__ import annotations

import os
from typing import Any

_VARIABLES = ("XLA_IR_DEBUG", "XLA_HLO_DEBUG")


class IrDebug:
    """Turns torch_xla's IR debugging on and off, and back to what the user had (`was_on`)."""

    def __init__(self, extension: Any) -> None:
        self._extension = extension
        self.was_on = bool(extension._get_ir_debug())

    def on(self) -> list[str]:
        """Turn it on; returns notes on what will be missing."""
        notes = []
        if self._compiled_already():
            notes.append(
                "graphs compiled before the capture was set up carry no scopes or source lines; "
                "set it up before the first step"
            )
        for name in _VARIABLES:
            os.environ.setdefault(name, "1")
        self._extension._set_ir_debug(True)
        return notes

    def off(self) -> None:
        """Turn it off for the captured steps, unless the user trains with it on: then it is what there is to see."""
        self._extension._set_ir_debug(self.was_on)

    def restore(self) -> None:
        """Leave it as the user had it."""
        self._extension._set_ir_debug(self.was_on)

    def _compiled_already(self) -> bool:
        return bool(self._extension._xla_counter_value("UncachedCompile")) and not self.was_on
