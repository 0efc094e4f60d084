"""Records a few steps when something happened, within a budget, and has them analyzed by another process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.instrument.state import note_failure
from tpuprof.ledger.clock import Clock
from tpuprof.run_folder import ANOMALY_SCHEMA, CAPTURES
from tpuprof.watch.analysis import read_verdict, write_verdict
from tpuprof.watch.anomalies import Anomaly
from tpuprof.watch.options import WatchOptions

if TYPE_CHECKING:
    from tpuprof.capture.recorder import Recorder

# What goodput calls the time in which training waited for our own recording.
OWN_PHASE = "tpuprof_capture"
_HOUR = 3600.0
_PACKAGE = Path(__file__).resolve().parents[2]
# Variables that would make the analysis itself a captured program.
_NOT_PASSED_ON = ("TPUPROF_CAPTURE",)
_LOWEST_PRIORITY = 19


class Budget:
    """How many captures may still be made: so many per hour, and so many bytes in all."""

    def __init__(self, per_hour: int, most_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_hour, self._most_bytes = per_hour, most_bytes
        self._clock = clock
        self._times: list[float] = []

    def refusal(self, folder: Path) -> str:
        """Why no capture may be made now, empty where one may."""
        now = self._clock()
        self._times = [each for each in self._times if now - each < _HOUR]
        if len(self._times) >= self._per_hour:
            return f"there were {self._per_hour} captures within an hour"
        used = (
            sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) if folder.is_dir() else 0
        )
        if used >= self._most_bytes:
            return f"captures take {used / 2**20:.0f} MiB on the disk, which is the limit"
        return ""

    def spend(self) -> None:
        """A capture is made now."""
        self._times.append(self._clock())


class ShortCaptures:
    """`ask` comes from the watching thread, `boundary` from the thread that trains, `look` from the watching thread."""

    def __init__(self, options: WatchOptions, label: str, note: Callable[..., None], clock: Clock) -> None:
        self._options = options
        self._label = label
        self._note = note
        self._clock = clock
        self._folder = Path(options.folder) / CAPTURES
        self._budget = Budget(options.captures_per_hour, options.capture_bytes)
        self._wanted: Anomaly | None = None
        self._recorder: Recorder | None = None
        self._running: tuple[Anomaly, Path] | None = None
        self._analyses: list[tuple[subprocess.Popen[bytes], Anomaly, Path]] = []
        self._finished: list[tuple[Anomaly, Path]] = []

    @property
    def active(self) -> bool:
        """Whether steps are being recorded."""
        return self._recorder is not None

    def ask(self, anomaly: Anomaly, *, record: bool) -> Path | None:
        """Keep what is known of an anomaly, and record steps if the budget allows it; the anomaly's folder."""
        refusal = self._budget.refusal(self._folder)
        if refusal:
            self._note("capture_left_out", step=anomaly.step, what=anomaly.kind, why=refusal)
            return None
        where = self._folder / f"{self._label}-{anomaly.kind}-{anomaly.step}-{int(time.time())}"
        try:
            where.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._note("capture_left_out", step=anomaly.step, what=anomaly.kind, why=str(error))
            return None
        self._budget.spend()
        found = {"schema": ANOMALY_SCHEMA, "first": anomaly.message, "anomaly": anomaly.to_dict()}
        write_verdict(where, found)
        if record and self._options.capture and self._recorder is None and self._wanted is None:
            self._running = (anomaly, where)
            self._wanted = anomaly
        return where

    def boundary(self, number: int | None, extension: Any) -> bool:
        """A step boundary in the thread that trains; whether this step was touched by recording. Raises nothing."""
        if self._wanted is None and self._recorder is None:
            return False
        try:
            began = self._clock.now_ns()
            self._boundary(number, extension)
            self._note("span", began, name=OWN_PHASE, until_ns=self._clock.now_ns())
        except Exception as error:
            self._recorder = self._wanted = None
            self._note("capture_left_out", step=number, what="", why=f"{type(error).__name__}: {error}")
            note_failure("capturing an anomaly", error)
        return True

    def _boundary(self, number: int | None, extension: Any) -> None:
        from tpuprof.capture.controller import Phase

        if self._recorder is None:
            self._begin(extension)
            return
        self._recorder.marked_step(number)
        if self._recorder.controller.phase is Phase.DONE:
            self.stop()

    def _begin(self, extension: Any) -> None:
        from tpuprof.capture.backend import choose_backend
        from tpuprof.capture.recorder import Recorder
        from tpuprof.capture.recording import Plan
        from tpuprof.instrument.state import STATE

        self._wanted = None
        if extension is None or self._running is None:
            return
        plan = Plan(warmup=0, steps=self._options.capture_steps, steady=0, early=False)
        recorder = Recorder(
            self._running[1],
            plan,
            choose_backend(),
            extension,
            name="anomaly",
            steps_from_cuts=False,
            hlo_debug=False,
        )
        # Boundaries come from the steps that are watched already.
        recorder.open()
        if recorder.marked_step in STATE.listeners:
            STATE.listeners.remove(recorder.marked_step)
        self._recorder = recorder

    def stop(self) -> None:
        """End the recording that runs, if one does, and keep it."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()
            if self._running is not None:
                self._finished.append(self._running)
        self._running = None

    def look(self) -> None:
        """Start analyses of what was recorded, and collect those that are done. Raises nothing."""
        while self._finished:
            anomaly, where = self._finished.pop()
            try:
                self._analyses.append((analyze_beside(where), anomaly, where))
            except OSError as error:
                self._note("analysis_failed", step=anomaly.step, why=str(error))
        for analysis in [each for each in self._analyses if each[0].poll() is not None]:
            self._analyses.remove(analysis)
            self._collect(*analysis)

    def _collect(self, process: subprocess.Popen[bytes], anomaly: Anomaly, where: Path) -> None:
        found = read_verdict(where)
        if process.returncode or not found.get("capture"):
            why = found.get("why_no_capture", f"status {process.returncode}, see analysis.log")
            self._note("analysis_failed", step=anomaly.step, folder=where.name, why=why)
            return
        self._note(
            "verdict", step=anomaly.step, what=anomaly.kind, folder=where.name, sentence=found["capture"]
        )


def analyze_beside(where: Path) -> subprocess.Popen[bytes]:
    """Analyze a capture in a process of the lowest priority; the verdict goes beside it. Raises `OSError`."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), str(_PACKAGE))))
    nice = shutil.which("nice")
    command = [nice, "-n", str(_LOWEST_PRIORITY)] if nice else []
    with (where / "analysis.log").open("wb") as log:
        return subprocess.Popen(
            [*command, sys.executable, "-m", "tpuprof.watch.analysis", str(where)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
