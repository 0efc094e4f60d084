"""Watches a process that `tpuprof watch` started, from its first import of a framework to its end."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from types import FrameType

from tpuprof.capture import crumbs
from tpuprof.capture.orders import Orders
from tpuprof.watch.options import WatchOptions
from tpuprof.watch.watcher import Watcher


class WatchSession:
    """Opened by the hook. Raises nothing."""

    def __init__(self, folder: str, framework: str = "torch_xla") -> None:
        self._folder = folder
        self._framework = framework
        self._watcher: Watcher | None = None

    def open(self) -> None:
        """Begin to watch."""
        try:
            from tpuprof.instrument.state import use_framework

            if self._framework != "torch_xla":
                use_framework(self._framework)
            self._watcher = watch_process(WatchOptions(**Orders.read(self._folder).watch))
        except Exception as error:
            crumbs.leave(self._folder, crumbs.FAILED, f"{type(error).__name__}: {error}")

    def trains(self) -> bool:
        """Whether something was compiled or a step was seen."""
        return self._watcher is not None and (
            self._watcher.collector.counters.compiles() > 0 or self._watcher.saw_steps
        )

    def discard(self) -> None:
        """Another framework is to be watched: the ledger so far says so. Raises nothing."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop("another framework was imported")


def watch_process(options: WatchOptions) -> Watcher:
    """Watch this process until it ends or `stop` is called; forked children are left alone."""
    watcher = Watcher(options)
    watcher.start()
    atexit.register(watcher.stop, "exit")
    os.register_at_fork(after_in_child=watcher.abandon)
    _stop_on_terminate(watcher)
    return watcher


def _stop_on_terminate(watcher: Watcher) -> None:
    """Write the end down when the process is asked to end, then let it end as it would have."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return  # the program has its own way to end, and atexit follows it

    def on_terminate(number: int, _frame: FrameType | None) -> None:
        watcher.stop("signal SIGTERM")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, on_terminate)

    def put_back() -> None:
        if signal.getsignal(signal.SIGTERM) is on_terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    os.register_at_fork(after_in_child=put_back)
