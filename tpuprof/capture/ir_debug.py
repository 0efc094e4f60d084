"""Has torch_xla put scopes and source lines into the programs it compiles, without slowing the captured steps.

With IR debugging on, torch_xla collects Python frames at every op, which makes tracing about half as slow
again or worse. The metadata ends up in the compiled program and is not part of its hash. So debugging is on
while graphs are first compiled, and as the user has it while steps are captured: those reuse the programs and are
traced at their usual speed. A graph that is compiled during the capture itself has no metadata then: once a second one
of the captured steps has compiled, debugging is on for the rest of them.

In a long warm-up without compiles it rests.

Where the user trains with it on, it is turned off for every other steady step before the capture: what those steps
take less is what it costs.

The variables XLA_IR_DEBUG and XLA_HLO_DEBUG stay as they are: child processes inherit the environment, and torch_xla
adds the metadata wherever the switch in the process is on.
"""

from __future__ import annotations

from typing import Any

from tpuprof.capture.recording import Recording

# Steady steps before the capture where IR debugging is the user's: three with it and three without (steps).
COMPARED_STEPS = 6
# Steps without a compile after which IR debugging rests until the next one: in a long warm-up it made each step of
# 11 ms 25 % longer (benchmarks/capture_overhead.py). Programs that compile a graph every few steps keep it on: a graph
# that is compiled while it rests has no source lines (steps).
RESTS_AFTER = 8
SLOWER_TRACING = "captured with --source-lines: tracing was slower than usual in the captured steps"
EARLY_TRACING = (
    "source lines were collected because the captured steps compile: their tracing was slower than usual"
)


def notes_on_tracing(kept: Recording | None, *, source_lines: bool) -> list[str]:
    """Why tracing was slower in the captured steps than without tpuprof; empty where it was not."""
    if source_lines:
        return [SLOWER_TRACING]
    return [EARLY_TRACING] if kept is not None and kept.has_lines else []


class IrDebug:
    """Turns torch_xla's IR debugging on and off, and back to what the user had (`was_on`).

    `off_in` are the numbers of steps that were compared without it.
    """

    def __init__(self, extension: Any) -> None:
        self._extension = extension
        self.was_on = bool(extension._get_ir_debug())
        self.off_in: list[int] = []

    def steady_steps(self, wanted: int) -> int:
        """Steady steps to wait for: enough to compare some without the user's IR debugging, unless none are wanted."""
        return max(wanted, COMPARED_STEPS) if self.was_on and wanted else wanted

    def on(self) -> list[str]:
        """Turn it on; returns notes on what will be missing."""
        notes = []
        if self._compiled_already():
            notes.append(
                "graphs compiled before the capture was set up carry no scopes or source lines; "
                "set it up before the first step"
            )
        self._extension._set_ir_debug(True)
        return notes

    def before_step(self, step: int, quiet: int) -> None:
        """Before a waiting step that follows `quiet` steps without a compile.

        Where the user had it on, every other one goes without; else it rests once nothing seems left to compile.
        """
        if self.was_on:
            off = quiet % 2 == 1
            self._extension._set_ir_debug(not off)
            self.off_in += [step] if off else []
        else:
            self._extension._set_ir_debug(quiet < RESTS_AFTER)

    def captures(self, *, source_lines: bool) -> None:
        """Before the captured steps: as the user has it, so that they show what there is to see, or on."""
        self._extension._set_ir_debug(self.was_on or source_lines)

    def waits(self) -> None:
        """After a recording that is not the last one: on again, for graphs that are still to be compiled."""
        self._extension._set_ir_debug(True)

    def restore(self) -> None:
        """Leave it as the user had it."""
        self._extension._set_ir_debug(self.was_on)

    def _compiled_already(self) -> bool:
        return bool(self._extension._xla_counter_value("UncachedCompile")) and not self.was_on
