"""Records one process that imported a framework under `tpuprof capture`, from the import to the process's end."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tpuprof.capture import crumbs, environment
from tpuprof.capture.interrupt import keep_interrupt
from tpuprof.capture.orders import Orders
from tpuprof.capture.terminate import close_at_exit, close_on_terminate, forget
from tpuprof.instrument.state import STATE, import_xlac, pass_on, use_framework

if TYPE_CHECKING:
    from tpuprof.capture.recorder import Recorder
    from tpuprof.capture.together import Together


class Session:
    """Opens a recorder, closes it at exit or SIGTERM, and gives a forked process one of its own."""

    def __init__(self, folder: str, framework: str = "torch_xla") -> None:
        self._folder = folder
        self._framework = framework
        self._recorder: Recorder | None = None
        self._said = self._ending = False

    def open(self) -> None:
        """Listen for steps. Raises nothing."""
        try:
            self._recorder = self._open_recorder()
        except Exception as error:
            pass_on(error)
            crumbs.leave(self._folder, crumbs.FAILED, f"{type(error).__name__}: {error}")
            return
        atexit.register(self._at_exit)
        os.register_at_fork(after_in_child=self._forked)

    def _open_recorder(self) -> Recorder:
        from tpuprof.capture.backend import choose_backend
        from tpuprof.capture.recorder import Recorder

        orders = Orders.read(self._folder)
        other = self._framework != "torch_xla"
        extension = use_framework(self._framework if other else "") or import_xlac()
        if extension is None:
            raise ImportError("torch_xla's extension module cannot be loaded")
        recorder = Recorder(
            Path(orders.run),
            orders.plan,
            choose_backend(),
            extension,
            name=orders.name,
            steps_from_cuts=True,
            hlo_debug=orders.hlo_debug and not other,
            source_lines=orders.source_lines,
            together=_together(orders),
            report=self._reported,
            progress=self._came_to,
            listed_as=orders.listed_as,
            launched=orders.command,
        )
        recorder.open()
        if STATE.framework is not None:
            STATE.framework.when_compiled.append(self._compiled)
        return recorder

    def _compiled(self, _seconds: float) -> None:
        """A program was compiled, so this process trains: it may be recorded without a step."""
        if threading.current_thread() is threading.main_thread():
            STATE.framework.when_compiled.remove(self._compiled)
            close_on_terminate(self._close)

    def _reported(self, text: str) -> None:
        self._end_before_the_framework()
        say(text)

    def _end_before_the_framework(self) -> None:
        """Have our end come first of all that is registered so far: Python calls what was registered last first.

        TorchTPU registers the end of its runtime when that begins, after us. Who asks its counters afterwards, as a
        recording that goes on does, ends the process by SIGABRT.
        """
        if not self._ending:
            atexit.unregister(self._at_exit)
            atexit.register(self._at_exit)

    def _came_to(self, key: str, value: object) -> None:
        crumbs.leave(self._folder, key, value)
        if key == crumbs.RECORDING:
            self._end_before_the_framework()
        if key == crumbs.STEPS and value and not self._said:
            self._end_before_the_framework()
            # Only now is it known that this process trains: launchers and workers stay silent.
            self._said = True
            say("waiting for training to become steady")
            close_on_terminate(self._close)

    def trains(self) -> bool:
        """Whether something was compiled or a step was seen."""
        return self._recorder is not None and (self._recorder.compiles() or self._recorder.steps_seen()) > 0

    def discard(self) -> None:
        """Another framework is to be recorded: end this recorder, and keep nothing of it. Raises nothing."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.discard()

    def _close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()

    def _at_exit(self) -> None:
        self._ending = True
        close_at_exit(self._close)
        crumbs.leave(self._folder, crumbs.ENDED)
        keep_interrupt()

    def _forked(self) -> None:
        """In a forked process: leave the parent's recorder, and open one if the device is still untouched."""
        try:
            parents, self._recorder = self._recorder, None
            if parents is None:
                return
            parents.abandon()
            forget()
            crumbs.leave(self._folder, crumbs.STARTED, "forked")
            if not environment.device_in_use():
                self._said = False
                self._recorder = self._open_recorder()
        except Exception as error:
            pass_on(error)
            crumbs.leave(self._folder, crumbs.FAILED, f"{type(error).__name__}: {error}")


def say(text: str) -> None:
    """One line of progress on stderr, which the parent passes on."""
    print(f"tpuprof: {text}", file=sys.stderr, flush=True)


def _together(orders: Orders) -> Together | None:
    """What agrees with the other hosts on a step, None where there are none."""
    if orders.members == 1:
        return None
    from tpuprof.capture.board import Board, folder_of
    from tpuprof.capture.together import Together

    return Together(Board(folder_of(Path(orders.run), orders.name)), orders.member, orders.members)
