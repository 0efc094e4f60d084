"""`tpuprof.expect`: a test fails where training code recompiles, reads values back, falls back, or cuts graphs."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType
from typing import TYPE_CHECKING

from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from tpuprof.instrument.call_watch import CallWatch, Event, StepLog
    from tpuprof.instrument.frameworks.base import Framework

# The first step compiles because it is the first; the second often does, because only then does the optimizer
# have its state (pytorch/xla issue 2327). A third that compiles is a recompile (steps).
WARMUP_STEPS = 2
# The framework besides torch_xla that counts what is needed, by its name.
EAGER = "torch_tpu"
# Places shown of one expectation (places).
PLACES_SHOWN = 5


class ExpectationError(AssertionError):
    """An expectation did not hold. `problems` has one text an expectation, with causes and source lines."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(["tpuprof.expect:", *problems]))


class expect(ContextDecorator):  # noqa: N801  # used like a function
    """Expect of the training steps inside that they do no more of these than allowed; also a decorator.

        with tpuprof.expect(recompiles=0, device_to_host_syncs=0, aten_fallbacks=0, max_graphs_per_step=1):
            train_some_steps()

    `recompiles`: graphs compiled after warm-up. Warm-up is the first steps inside, until one compiles nothing,
    and at most `warmup_steps` (2; with 0 every compile counts). `device_to_host_syncs`: values read back (`.item()`,
    `bool()`, `print`, `.cpu()`), from the first step on. `aten_fallbacks`: ops that ran on the CPU because
    torch_xla has none. `max_graphs_per_step`: graphs run in any one step after warm-up. None is not looked at.

    A step ends where `tpuprof.step` says so, else at each `torch_xla.sync()`; only steps that ran a graph count.
    Only this thread is watched. Works on PJRT_DEVICE=CPU: what is counted here happens there as on TPU.

    With TorchTPU a step ends where `tpuprof.step` says so, else after each optimizer; a graph is a program, of an op,
    of deferred ops or of torch.compile. It waits for the device after each call of torch, unless ops are deferred:
    what compiled then counts for the read, or the end of the step, that came next. `aten_fallbacks` is not counted.

    Raises `ExpectationError` (an AssertionError) with causes and source lines; also where nothing could be
    counted, since no graph ran or no step came after warm-up. Raises `TpuprofError`: `usage` without any
    expectation, or where the program trains with JAX; `missing-extra` without torch_xla. What the
    code inside raises passes through.
    """

    def __init__(
        self,
        *,
        recompiles: int | None = None,
        device_to_host_syncs: int | None = None,
        aten_fallbacks: int | None = None,
        max_graphs_per_step: int | None = None,
        warmup_steps: int = WARMUP_STEPS,
    ) -> None:
        limits = (recompiles, device_to_host_syncs, aten_fallbacks, max_graphs_per_step)
        if (
            all(each is None for each in limits)
            or min(each for each in (*limits, warmup_steps) if each is not None) < 0
        ):
            raise TpuprofError(
                Code.USAGE,
                "expect() needs at least one expectation, and none below zero.",
                "Write for example: tpuprof.expect(recompiles=0).",
            )
        self.recompiles = recompiles
        self.device_to_host_syncs = device_to_host_syncs
        self.aten_fallbacks = aten_fallbacks
        self.max_graphs_per_step = max_graphs_per_step
        self.warmup_steps = warmup_steps
        self._watch: CallWatch | None = None

    def __enter__(self) -> expect:
        from tpuprof.instrument.call_watch import CallWatch
        from tpuprof.instrument.state import STATE, import_xlac

        extension = import_xlac()
        if extension is None:
            raise TpuprofError(
                Code.MISSING_EXTRA,
                "expect() needs torch_xla, which is not installed.",
                'Install it with: pip install "tpuprof[xla]".',
            )
        if STATE.framework is not None:
            self._watch = self._of(STATE.framework)
        else:
            self._watch = CallWatch(extension)
        self._watch.start()
        return self

    def _of(self, framework: Framework) -> CallWatch:
        """The watch of a framework other than torch_xla; refuses what that does not count."""
        from tpuprof.instrument.eager_call_watch import EagerCallWatch

        if framework.name != EAGER:
            raise TpuprofError(
                Code.USAGE,
                f"expect() counts with torch_xla's counters, and this program trains with {framework.name}, "
                "which has none: nothing could be counted.",
                "Capture the program (tpuprof capture), and hold its report to a budget with tpuprof check.",
            )
        if self.aten_fallbacks is not None:
            raise TpuprofError(
                Code.USAGE,
                "expect(aten_fallbacks=...) counts with torch_xla's counters: TorchTPU does not count ops that ran on "
                "the CPU.",
                "Leave aten_fallbacks out.",
            )
        return EagerCallWatch(framework)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        watch, self._watch = self._watch, None
        if watch is None:
            return
        watch.stop()
        if value is not None:
            return
        problems = self._problems(watch)
        if problems:
            raise ExpectationError(problems)

    def _problems(self, watch: CallWatch) -> list[str]:
        if not watch.steps:
            return [
                "no graph ran inside, so nothing could be counted: is the model on the XLA device, and is a graph cut?"
            ]
        late = _after_warmup(watch.steps, self.warmup_steps)
        numbers = {step.number for step in late}
        needs_steps = self.recompiles is not None or self.max_graphs_per_step is not None
        if needs_steps and not late:
            return [
                f"all {len(watch.steps)} step(s) inside were warm-up (they compiled), so recompiles and graphs "
                "per step is unknown: run more steps, or warm up outside and pass warmup_steps=0"
            ]
        problems = [
            *_too_many(
                "recompiles",
                self.recompiles,
                [e for e in watch.events if e.kind == "compile" and e.step in numbers],
            ),
            *_too_many(
                "device_to_host_syncs",
                self.device_to_host_syncs,
                [e for e in watch.events if e.kind == "read"],
            ),
            *_too_many(
                "aten_fallbacks", self.aten_fallbacks, [e for e in watch.events if e.kind == "fallback"]
            ),
        ]
        return problems + self._too_many_graphs(late)

    def _too_many_graphs(self, late: list[StepLog]) -> list[str]:
        limit = self.max_graphs_per_step
        over = [step for step in late if limit is not None and step.graphs > limit]
        if not over:
            return []
        worst = max(over, key=lambda step: step.graphs)
        lines = [
            f"max_graphs_per_step: expected at most {limit}, found {worst.graphs} in step {worst.number}"
        ]
        lines += [f"    graph run by {_place(line, what)}" for line, what in worst.cuts[:PLACES_SHOWN]]
        return ["\n".join(lines)]


def _after_warmup(steps: list[StepLog], most: int) -> list[StepLog]:
    """The steps without the first that compiled, of which at most `most` are warm-up."""
    warm = 0
    while warm < min(most, len(steps)) and steps[warm].compiles:
        warm += 1
    return steps[warm:]


def _too_many(name: str, limit: int | None, events: list[Event]) -> list[str]:
    count = sum(each.count for each in events)
    if limit is None or count <= limit:
        return []
    lines = [f"{name}: expected at most {limit}, found {count}"]
    places: dict[tuple[str, str], list[Event]] = {}
    for each in events:
        places.setdefault((each.line, each.detail), []).append(each)
    for (line, detail), found in list(places.items())[:PLACES_SHOWN]:
        times = sum(each.count for each in found)
        steps = sorted({each.step for each in found})
        when = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
        lines.append(f"    {_place(line, detail)} ({when}{f', {times} times' if times > 1 else ''})")
    if len(places) > PLACES_SHOWN:
        lines.append(f"    and {len(places) - PLACES_SHOWN} more places")
    return ["\n".join(lines)]


def _place(line: str, what: str) -> str:
    return f"{line}: {what}"
