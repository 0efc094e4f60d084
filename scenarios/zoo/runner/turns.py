"""What tpuprof costs the steps that it does not capture: a bare and a captured run of one program that take turns.

Both processes live at the same time and one of them is stopped (SIGSTOP) while the other one runs. So the machine's
slow and fast minutes fall on both, and what other programs do meanwhile as well: two runs one after the other differ
by several percent for that reason alone.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from runner.execute import TIMEOUT_SECONDS, Start, bare_kept, fingerprint, read, start_bare, start_captured
from runner.keeper import captured_steps
from runner.overhead import behind
from runner.result import RESULTS, keep, told_of
from runner.truth import Truth

# How long one process runs before the other one does (s), within these bounds: ten steps, of which one is lost. Steps
# of 3 ms take half as long again for a second or two, and then not, in bare runs as well: short turns share that out.
TURN_STEPS, SHORTEST_TURN_S, LONGEST_TURN_S = 10, 0.2, 1.0
# Programs train for this long (s), by more steps than they have otherwise: ten turns behind the capture. Forty steps of
# 5 ms would lie in one turn, beside the writing of the capture.
TRAIN_FOR_S = 10.0
# Most steps of a program's lengthened run, as a multiple of its own number.
MOST_TIMES = 40
# The file of what was measured.
NAME = "cost"


@dataclass
class Cost:
    """Lengths of the steps behind the capture (s): one pair of bare and captured ones per pair of runs."""

    program: str
    pairs: list[tuple[list[float], list[float]]] = field(default_factory=list)


def measure(truth: Truth, pairs: int) -> Cost:
    """Run the program bare and captured, in turns, `pairs` times, and keep what came out."""
    cost = Cost(fingerprint(truth))
    for number in range(pairs):
        with tempfile.TemporaryDirectory() as scratch:
            run = Path(scratch) / "run"
            alone = bare_kept(truth, Path(scratch), RESULTS / truth.name / "bare.json", again=False)
            starts = [start_bare(truth, Path(scratch) / "bare"), start_captured(truth, Path(scratch), run)]
            for each in starts:
                lengthen(each.folder, truth, alone.seconds)
            turn_s = turn_of(alone.seconds)
            # Which one begins changes, so that neither always has the first turn.
            plain, watched = in_turns(starts, turn_s, first=number % 2)
            cost.pairs.append(_compared(run, plain, watched, turn_s))
    keep(truth, NAME, vars(cost))
    return cost


def kept(truth: Truth) -> Cost | None:
    """What was measured of the program as it is now."""
    told = told_of(truth, NAME)
    return Cost(**told) if told is not None else None


def longer(program: str, steps: int, times: int) -> str:
    """The text of a program that trains `times` as many steps; unchanged where its number of steps is not stated so."""
    return re.sub(
        rf"(range\((?:[^()\n]*\W)?|\w*steps=){steps}\b", lambda found: f"{found[1]}{steps * times}", program
    )


def larger(program: str, sized_by: str, times: int) -> str:
    """The text of a program whose data is `times` as large; unchanged where no text says how large it is."""
    enlarged = re.sub(r"\d+", lambda found: str(int(found[0]) * times), sized_by, count=1)
    return program.replace(sized_by, enlarged) if sized_by else program


def lengthen(
    folder: Path,
    truth: Truth,
    seconds: list[float],
    train_for: float = TRAIN_FOR_S,
    most_times: int = MOST_TIMES,
) -> None:
    """Let the copied program train for `train_for` seconds; `seconds` are the lengths of its steps as it is."""
    trains_for = statistics.median(seconds) * truth.steps if seconds else TRAIN_FOR_S
    times = min(math.ceil(train_for / trains_for), most_times)
    for path in folder.rglob("*.py"):
        text = longer(path.read_text("utf-8"), truth.steps, times)
        path.write_text(larger(text, truth.sized_by, times), "utf-8")


def turn_of(seconds: list[float]) -> float:
    """How long a turn is of a program whose steps take these times (s)."""
    wanted = TURN_STEPS * statistics.median(seconds) if seconds else LONGEST_TURN_S
    return min(max(wanted, SHORTEST_TURN_S), LONGEST_TURN_S)


def in_turns(starts: list[Start], turn_s: float, first: int) -> list[list[float]]:
    """Run processes, one at a time, until all have ended; the lengths of the steps of each (s)."""
    with tempfile.TemporaryDirectory() as place:
        outs = [Path(place) / str(number) for number in range(len(starts))]
        running = [started(start, out) for start, out in zip(starts, outs, strict=True)]
        deadline = time.monotonic() + len(starts) * TIMEOUT_SECONDS
        try:
            turn = first
            while any(each.poll() is None for each in running) and time.monotonic() < deadline:
                _run_for(running[turn % len(running)], turn_s)
                turn += 1
        finally:
            for each in running:
                signal_all(each, signal.SIGKILL)
                each.wait()
        return [read(0, out.read_text("utf-8", "replace"), "", 0.0).seconds for out in outs]


def started(start: Start, out: Path, messages: Path = Path(os.devnull)) -> subprocess.Popen[bytes]:
    """A process that is stopped at once and leads a session of its own; where its stdout and its stderr go."""
    with out.open("wb") as file, messages.open("wb") as errors:
        process = subprocess.Popen(
            start.command, cwd=start.folder, env=start.environment, stdout=file, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
    signal_all(process, signal.SIGSTOP)
    return process


def _run_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    signal_all(process, signal.SIGCONT)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        signal_all(process, signal.SIGSTOP)


def signal_all(process: subprocess.Popen[bytes], number: int) -> None:
    """Signal the process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _compared(
    run: Path, plain: list[float], watched: list[float], turn_s: float
) -> tuple[list[float], list[float]]:
    """Of each run, the steps behind the capture in which it was not stopped; empty where that is unknown."""
    first, count = captured_steps(run)
    if first < 0 or len(plain) != len(watched):
        return [], []
    return undisturbed(behind(plain, first, count), turn_s), undisturbed(
        behind(watched, first, count), turn_s
    )


def undisturbed(seconds: list[float], turn_s: float) -> list[float]:
    """Without the steps in which the process was stopped: they are longer by a whole turn."""
    if len(seconds) < 2:
        return seconds
    most = statistics.quantiles(seconds, n=4)[0] + turn_s / 2
    return [each for each in seconds if each < most]
