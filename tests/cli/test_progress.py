"""Progress is shown for work that takes its time, on a terminal only."""

import sys
import threading

from tpuprof.cli import progress


class Terminal:
    """A stderr that says it is a terminal, and tells when something was written."""

    encoding = "utf-8"

    def __init__(self, is_terminal):
        self.text = ""
        self.is_terminal = is_terminal
        self.written = threading.Event()

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        self.text += text
        if "a long trace" in self.text:
            self.written.set()
        return len(text)

    def flush(self):
        pass


def use(monkeypatch, is_terminal, shown_after):
    # In the test itself: pytest puts its own stderr in place after fixtures have run.
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(progress, "SHOWN_AFTER", shown_after)
    terminal = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_long_work_is_shown(monkeypatch):
    stderr = use(monkeypatch, is_terminal=True, shown_after=0.0)
    with progress.working("a long trace"):
        assert stderr.written.wait(30)


def test_short_work_is_not(monkeypatch):
    stderr = use(monkeypatch, is_terminal=True, shown_after=1e6)
    with progress.working("a long trace"):
        pass
    assert stderr.text == ""


def test_nothing_is_written_where_no_one_looks(monkeypatch):
    stderr = use(monkeypatch, is_terminal=False, shown_after=0.0)
    with progress.working("a long trace"):
        pass
    assert stderr.text == ""
