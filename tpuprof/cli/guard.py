"""Turns what a command raises into one line and an exit status.

Exit status: 0 fine, 1 a budget or comparison failed, 2 unusable input or usage, 3 a defect of tpuprof or a lack of
memory, 4 a comparison that cannot be judged, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tpuprof.cli.process import end
from tpuprof.cli.terminal import prepare_output
from tpuprof.errors import Code, TpuprofError

EXIT_UNUSABLE = 2
EXIT_INTERNAL = 3
# What shells report of a program that Ctrl-C ended: 128 and the signal's number.
EXIT_INTERRUPTED = 130
_DEBUG = "--debug"


def guarded(run: Callable[[], object]) -> None:
    """Run a command; ends the process where its exit status is not 0, and where the command asked to end at once."""
    debug = _take_debug() or bool(os.environ.get("TPUPROF_DEBUG"))
    try:
        prepare_output()
        _refuse_empty_arguments()
        _run(run)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: that is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        if debug:
            traceback.print_exc()
        known = tell(error)
        _leave(EXIT_INTERNAL if known.code in (Code.INTERNAL, Code.OUT_OF_MEMORY) else EXIT_UNUSABLE)


def tell(error: Exception) -> TpuprofError:
    """Say in one line on stderr what went wrong, and return the error that is shown."""
    known = error if isinstance(error, TpuprofError) else _unexpected(error)
    print(f"tpuprof: {_shown(known)}", file=sys.stderr)
    return known


def _shown(error: TpuprofError) -> str:
    """The error's line, in which the copy of a run at a URL has the URL's name."""
    mirror = sys.modules.get("tpuprof.storage.mirror")
    return mirror.with_urls(str(error)) if mirror else str(error)


def _take_debug() -> bool:
    """Whether --debug stands anywhere before a `--`; it is taken out, since only the first command knows it."""
    until = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    found = _DEBUG in sys.argv[1:until]
    sys.argv[1:until] = [each for each in sys.argv[1:until] if each != _DEBUG]
    return found


def _refuse_empty_arguments() -> None:
    until = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    if "" in sys.argv[1:until]:
        raise TpuprofError(
            Code.USAGE, "one of the arguments is empty.", "Check the command: a shell variable may be unset."
        )


def _unexpected(error: Exception) -> TpuprofError:
    """What is said of an exception that no code of ours foresaw."""
    if isinstance(error, MemoryError):
        return TpuprofError(
            Code.OUT_OF_MEMORY, "there is not enough memory for this.", "Use a machine with more memory."
        )
    if isinstance(error, OSError) and not isinstance(error.filename, (str, bytes, os.PathLike)):
        return TpuprofError(
            Code.OUTPUT_FAILED,
            f"the output cannot be written ({error.strerror or error}).",
            "Check its target.",
        )
    if isinstance(error, OSError):
        return TpuprofError(
            Code.UNREADABLE,
            f"{os.fsdecode(error.filename)}: {error.strerror or error}.",
            "Check the path and its permissions.",
        )
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    text = " ".join(str(error).split())
    return TpuprofError(
        Code.INTERNAL,
        f"this is a defect of tpuprof: {type(error).__name__}{place}: {text}.",
        "Please report it with the output of the same command and --debug.",
    )


def _leave(status: int) -> None:
    """End with this status, also where what is left in the buffers cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def _run(run: Callable[[], object]) -> None:
    code: str | int | None = 0
    try:
        run()
    except SystemExit as ended:
        # The command line's library has wrapped stdout if its reader has gone, and ends with 1.
        code = 0 if hasattr(sys.stdout, "wrapped") else ended.code
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.stdout.flush()
    end(code)
    if code:
        sys.exit(code)
