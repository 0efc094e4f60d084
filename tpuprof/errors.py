"""The one exception type tpuprof raises for bad input, with its catalogue of stable codes.

A message says what happened and where; the hint says what to do next; the code in brackets is stable
across versions, so that scripts and bug tickets can refer to it while wording improves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Code(StrEnum):
    """Stable error codes. Values never change meaning; new ones are added at the end of a group."""

    # input files
    NOT_FOUND = "input-not-found"
    NO_TRACE = "input-no-trace"
    EMPTY_FILE = "input-empty"
    UNKNOWN_FORMAT = "input-unknown-format"
    TRUNCATED = "input-truncated"
    CORRUPT = "input-corrupt"
    TOO_LARGE = "input-too-large"
    TOO_NEW = "input-schema-too-new"
    NO_ACTIVITY = "input-no-activity"
    UNREADABLE = "input-unreadable"
    CHANGED = "input-changed"
    NO_LEDGER = "input-no-ledger"
    NO_PROGRAM = "input-no-program"
    TOO_MANY_FILES = "input-too-many-files"
    # capture
    CAPTURE_EMPTY = "capture-empty"
    CAPTURE_NO_STEPS = "capture-no-steps"
    CAPTURE_NO_DEVICE = "capture-no-device-activity"
    CAPTURE_DROPPED = "capture-events-dropped"
    CAPTURE_MISSING_HOST = "capture-missing-host"
    CAPTURE_TOO_LARGE = "capture-too-large"
    CAPTURE_NEVER_STEADY = "capture-never-steady"
    CAPTURE_CONNECT = "capture-cannot-connect"
    CAPTURE_FAILED = "capture-failed"
    CAPTURE_OFFLOAD_ON_CPU = "capture-host-offload-on-cpu"
    CAPTURE_PROGRAM_FAILED = "capture-program-failed"
    # preflight
    UNKNOWN_TARGET = "preflight-unknown-target"
    PREFLIGHT_SCRIPT = "preflight-script-failed"
    PREFLIGHT_NO_GRAPH = "preflight-no-graph"
    PREFLIGHT_COMPILE = "preflight-compile-failed"
    PREFLIGHT_PYTHON = "preflight-no-python"
    # stores behind a URL
    STORAGE_FORBIDDEN = "storage-forbidden"
    STORAGE_THROTTLED = "storage-throttled"
    STORAGE_TRUNCATED = "storage-truncated"
    STORAGE_UNREACHABLE = "storage-unreachable"
    # proofs
    PROVE_FAILED = "prove-program-failed"
    # budgets
    BUDGET = "budget-invalid"
    # queries
    QUERY_REFUSED = "query-refused"
    QUERY_INVALID = "query-invalid"
    QUERY_TOO_LONG = "query-too-long"
    QUERY_TOO_LARGE = "query-too-large"
    # servers
    PATH_OUTSIDE = "path-outside"
    # usage and environment
    USAGE = "usage"
    MISSING_EXTRA = "missing-extra"
    OUTPUT_EXISTS = "output-exists"
    OUTPUT_FAILED = "output-failed"
    # defects of tpuprof itself, and of the machine
    INTERNAL = "internal-error"
    OUT_OF_MEMORY = "out-of-memory"


class TpuprofError(Exception):
    """An error a user can act on; the command line prints it as one line and exits with status 2.

    `message` says what happened and where, `hint` what to do next.
    """

    def __init__(self, code: Code, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """One line: message, hint, and the stable code in brackets."""
        hint = f" {self.hint}" if self.hint else ""
        return f"{self.message}{hint} [{self.code.value}]"

    def __reduce__(self) -> tuple[type[TpuprofError], tuple[Code, str, str]]:
        """Pickle by constructor arguments, so that a process pool can hand the error back."""
        return type(self), (self.code, self.message, self.hint)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says of an output into a `TpuprofError` (`output-failed`)."""
    try:
        yield
    except OSError as error:
        raise TpuprofError(
            Code.OUTPUT_FAILED,
            f"{path}: cannot be written ({error.strerror or error}).",
            "Choose another place.",
        ) from error
