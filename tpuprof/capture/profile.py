"""`tpuprof.profile`: captures a few steady steps of the training loop it is put around."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

from tpuprof.capture import run_writer
from tpuprof.capture.backend import choose_backend
from tpuprof.capture.recorder import Recorder
from tpuprof.capture.recording import PATIENCE_STEPS, STEADY_STEPS, Plan
from tpuprof.errors import Code, TpuprofError
from tpuprof.instrument.state import import_xlac, note_failure
from tpuprof.run_folder import USUAL_WARMUP

Params = ParamSpec("Params")
Result = TypeVar("Result")


class profile:  # noqa: N801  # used like a function
    """Capture a few steady steps into a run folder, as a context manager or a decorator of a train loop.

        with tpuprof.profile("runs/first", warmup=3, steps=8) as capture:
            for batch in loader:
                train(batch)
                capture.step()

    At least `warmup` steps pass first, and more until `steady` steps in a row have compiled nothing (or
    `patience` steps have passed: then it captures all the same and notes why). As a decorator, steps come
    from `tpuprof.step`, else from the loop's graph cuts. Set it up before the first step: programs compiled
    earlier carry no annotations.

    On entering it raises `TpuprofError` for a bad argument, a missing torch_xla (`missing-extra`) or a
    capture of that `name` that is there already (`output-exists`; `force` replaces it); once training
    runs, it raises nothing.
    """

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        *,
        warmup: int = USUAL_WARMUP,
        steps: int = 8,
        steady: int = STEADY_STEPS,
        patience: int = PATIENCE_STEPS,
        name: str | None = None,
        force: bool = False,
        hlo_debug: bool = True,
        source_lines: bool = False,
    ) -> None:
        if steps < 1 or min(warmup, steady, patience) < 0:
            raise TpuprofError(
                Code.USAGE, "profile() needs steps >= 1 and no negative number.", "Correct the call."
            )
        self._run = Path(run_dir)
        self._plan = Plan(warmup, steps, steady, patience)
        self._name = name
        self._force = force
        self._hlo_debug = hlo_debug
        self._source_lines = source_lines
        self._steps_from_cuts = False
        self._recorder: Recorder | None = None

    def __enter__(self) -> profile:
        run_writer.refuse_overwrite(self._run, self._name, force=self._force)
        extension = import_xlac()
        self._recorder = Recorder(
            self._run,
            self._plan,
            choose_backend(),
            extension,
            name=self._name,
            steps_from_cuts=self._steps_from_cuts,
            hlo_debug=self._hlo_debug,
            source_lines=self._source_lines,
        )
        try:
            self._recorder.open()
        except Exception as error:
            note_failure("setting the capture up", error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._recorder is not None:
            self._recorder.close()

    def step(self) -> None:
        """Say that a step has ended. Raises nothing."""
        if self._recorder is not None:
            self._recorder.boundary()

    def __call__(self, function: Callable[Params, Result]) -> Callable[Params, Result]:
        """Decorate a function that holds a train loop: each call is captured."""

        @functools.wraps(function)
        def captured(*args: Params.args, **kwargs: Params.kwargs) -> Result:
            again = profile(
                self._run,
                warmup=self._plan.warmup,
                steps=self._plan.steps,
                steady=self._plan.steady,
                patience=self._plan.patience,
                name=self._name,
                force=self._force,
                hlo_debug=self._hlo_debug,
                source_lines=self._source_lines,
            )
            again._steps_from_cuts = True
            with again:
                return function(*args, **kwargs)

        return captured
