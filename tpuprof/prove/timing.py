"""Runs a program once, without any recording, and reads what it took."""

from __future__ import annotations

import math
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tpuprof.capture import marker
from tpuprof.capture.command import with_bootstrap
from tpuprof.capture.launch import environment
from tpuprof.capture.orders import Orders
from tpuprof.child_group import end_group
from tpuprof.errors import Code, TpuprofError
from tpuprof.prove.program import Program
from tpuprof.prove.readings import LOSS, STEP_MS, WARMUP_STEPS, last_number, steps_of
from tpuprof.records import record
from tpuprof.units import MS_PER_S

_Program = TypeVar("_Program")
# What a run's time was read from, the surest first.
BY_METRIC, BY_PROGRAM, BY_STEPS, BY_CLOCK = (
    "the given pattern",
    "step_ms as printed",
    "its steps",
    "start to end",
)
# Last characters of a failed program's stderr in the message (count).
_TAIL = 300


class TooLongError(TpuprofError):
    """A run was ended since it took longer than it may."""


@record(frozen=True)
class Timed:
    """One run: time (ms) and what it was read from, its last loss where it prints one, and the whole time (s).

    `steps` is how many steps the time is the mean of, None where it was not read from steps.
    """

    ms: float
    read_from: str
    loss: float | None
    seconds: float
    steps: int | None = None


@record(frozen=True)
class Reading:
    """How runs are read: patterns of the output (empty: the usual ones), steps of the warm-up, and a measure.

    `measure` is step, or total for the whole time from start to end.
    """

    metric: str = ""
    loss: str = ""
    warmup: int = WARMUP_STEPS
    measure: str = "step"


# Runs a program for so many seconds at most.
Runner = Callable[[_Program, float], Timed]


def timed(program: Program, seconds: float, reading: Reading) -> Timed:
    """Run a program to its end. Raises `TpuprofError` (`prove-program-failed`) where it fails or takes too long."""
    with tempfile.TemporaryDirectory(prefix="tpuprof-prove-") as scratch:
        folder = Path(scratch)
        began = time.perf_counter()
        _run(program, seconds, folder)
        whole = time.perf_counter() - began
        output = (folder / "stdout").read_text("utf-8", "replace")
        ms, read_from, steps = _time(output, folder, whole, reading)
        return Timed(ms, read_from, last_number(reading.loss or LOSS, output), whole, steps)


def _time(output: str, folder: Path, whole: float, reading: Reading) -> tuple[float, str, int | None]:
    if reading.metric:
        found = _ms_in(output, reading.metric)
        if found is None:
            raise TpuprofError(
                Code.PROVE_FAILED,
                f"the output has no number above zero that matches {reading.metric!r}.",
                "Give a pattern whose first group is the step time in ms.",
            )
        return found, BY_METRIC, None
    if reading.measure == "step":
        printed = _ms_in(output, STEP_MS)
        if printed is not None:
            return printed, BY_PROGRAM, None
        steps = steps_of(folder, reading.warmup)
        if steps is not None:
            return steps.mean_ms, BY_STEPS, steps.count
    return whole * MS_PER_S, BY_CLOCK, None


def _ms_in(output: str, pattern: str) -> float | None:
    """The last time that matches; None where that is no time a run can take."""
    found = last_number(pattern, output)
    return found if found is not None and 0 < found < math.inf else None


def _run(program: Program, seconds: float, folder: Path) -> None:
    orders_in = marker.create()
    try:
        Orders(str(folder), "timed", warmup=0, steps=0, patience=0, hlo_debug=False).write(orders_in)
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            status = _waited(program, seconds, out, err, environment(orders_in, program.environment))
    finally:
        marker.remove(orders_in, keep=False)
    if status:
        words = (folder / "stderr").read_text("utf-8", "replace").strip()[-_TAIL:]
        raise TpuprofError(
            Code.PROVE_FAILED,
            f"{' '.join(program.given)}: the program ended with status {status}: {words or 'no message'}.",
            "Run it alone first.",
        )


def _waited(program: Program, seconds: float, out: object, err: object, variables: dict[str, str]) -> int:
    try:
        process = subprocess.Popen(
            with_bootstrap(program.words),
            env=variables,
            cwd=program.folder,
            stdout=out,
            stderr=err,
            start_new_session=True,  # type: ignore[call-overload]
        )
    except OSError as error:
        raise TpuprofError(
            Code.USAGE, f"{program.given[0]}: cannot be started ({error.strerror}).", "Check the command."
        ) from error
    try:
        return int(process.wait(seconds))
    except subprocess.TimeoutExpired:
        raise TooLongError(
            Code.PROVE_FAILED,
            f"{' '.join(program.given)}: it ran for more than {seconds:.0f} s, and was ended.",
            "Train for fewer steps, or give a larger --budget.",
        ) from None
    finally:
        if process.returncode is None:
            end_group(process)
