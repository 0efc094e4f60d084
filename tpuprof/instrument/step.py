"""`tpuprof.step`: marks where a training step begins."""

from __future__ import annotations

from types import TracebackType

from tpuprof.instrument.state import STATE, note_failure


class step:  # noqa: N801  # used like a function
    """Mark that a training step begins; call it once per iteration, or put the step's code into it.

        for i, batch in enumerate(loader):
            tpuprof.step(i)

    Called, it ends the step before and begins this one, so steps lie end to end and nothing between them is
    lost. As a context manager it does the same and nothing more. It forces no sync and raises nothing.
    `number` is the step's number in reports; without one, steps are counted. `samples` is how many samples this
    process trains on in the step that begins (`samples=len(batch)`): reports then show samples per second, added up
    over processes. It must be a Python number; a tensor is left out, since reading it would wait for the device.
    """

    __slots__ = ()

    def __init__(self, number: int | None = None, *, samples: float | None = None) -> None:
        if STATE.listeners:
            _tell(number, samples if isinstance(samples, (int, float)) else None)

    def __enter__(self) -> step:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def _tell(number: int | None, samples: float | None) -> None:
    for listener in tuple(STATE.listeners):
        try:
            listener(number, samples)
        except Exception as error:
            note_failure("marking a step", error)
