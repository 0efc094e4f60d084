"""Compiles of a start that the capture lies in: they came before its steps, in them, and for some time after them.

A buffer that is filled at a Python number compiles for each of its positions. A capture that waits only so long for
training to become steady then records steps of that start.
"""

from __future__ import annotations

from collections import Counter

from tpuprof.model.compile.recurrence import Returns
from tpuprof.records import record
from tpuprof.report.schema import CompileRow
from tpuprof.signals import Signals
from tpuprof.units import MS_PER_S


@record(frozen=True)
class FirstSteps:
    """`steps` of the first `of` steps of training compiled `graphs` graphs, for `seconds`, and then none did.

    `compiles` are those of captured steps whose cause most of them have. `later_ms` is what a step took after the last
    compile, None where that is unknown.
    """

    steps: int
    of: int
    graphs: int
    seconds: float
    compiles: list[CompileRow]
    later_ms: float | None


def first_steps(signals: Signals) -> FirstSteps | None:
    """The start that the captured steps are a part of; None where compiles go on, or nothing is known of later steps.

    Hosts compile at the same time: of several, it is the first one whose later steps are known.
    """
    if signals.compiles_return != Returns.NEVER.value or not signals.step_compiles:
        return None
    after, captured = signals.after_capture, len(signals.steps)
    if after is None or after.estimated:
        return None
    rows = [row for row in signals.step_compiles if row.host == signals.step_compiles[0].host]
    ended = [each for each in after.lines.values() if after.stopped(each, captured)]
    later = {step for each in ended for step in each.steps}
    before = [bool(each.compiles) for each in signals.records_if_noted if each.before and each.is_step]
    inside = {row.step for row in rows if row.step is not None}
    numbers = set(signals.steps.number.tolist())
    until = len(numbers) + max(later) + 1 if later else sum(each <= max(inside) for each in numbers)
    return FirstSteps(
        sum(before) + len(inside) + len(later),
        len(before) + until,
        signals.startup_compiles + len(rows) + sum(each.graphs for each in ended),
        signals.startup_compile_seconds
        + sum(row.duration_ms for row in rows) / MS_PER_S
        + sum(each.seconds for each in ended),
        _alike(rows),
        _later_ms(signals, max(later, default=-1)),
    )


def _alike(rows: list[CompileRow]) -> list[CompileRow]:
    """Compiles with the kind of cause that most of them have, those with a line first."""
    kind, _ = Counter(row.cause.kind for row in rows).most_common(1)[0]
    return sorted((row for row in rows if row.cause.kind == kind), key=lambda row: not row.cause.places)


def _later_ms(signals: Signals, last: int) -> float | None:
    after = signals.after_capture
    stages = [each for each in after.stages if each.first > last] if after is not None else []
    steps = sum(each.steps for each in stages)
    return sum(each.seconds for each in stages) / steps * MS_PER_S if steps else None
