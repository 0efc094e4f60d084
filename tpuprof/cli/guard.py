"""Turns what a command raises into one line and an exit code.

Exit codes: 0 fine, 1 a budget or comparison failed, 2 unusable input or usage, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tpuprof.cli.process import end
from tpuprof.errors import TpuprofError

EXIT_UNUSABLE = 2
# What shells report of a program that Ctrl-C ended: 128 and the signal's number.
EXIT_INTERRUPTED = 130


def guarded(run: Callable[[], object]) -> None:
    """Run a command; ends the process where its exit code is not 0, and where the command asked to end at once."""
    debug = "--debug" in sys.argv or bool(os.environ.get("TPUPROF_DEBUG"))
    try:
        _run(run)
    except TpuprofError as error:
        if debug:
            raise
        print(f"tpuprof: {error}", file=sys.stderr)
        sys.exit(EXIT_UNUSABLE)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(run: Callable[[], object]) -> None:
    code: str | int | None = 0
    try:
        run()
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    end(code)
    if code:
        sys.exit(code)
