"""Shows on stderr that a command is at work, once it has taken longer than people wait without wondering."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Below this, something that appears and vanishes disturbs more than it tells (seconds).
SHOWN_AFTER = 1.0


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show `what` and the time it takes, while the body runs; only on a terminal, and not before a second is over."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=_show, args=(what, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _show(what: str, done: threading.Event) -> None:
    if done.wait(SHOWN_AFTER):
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(escape(what), total=None)
        done.wait()
