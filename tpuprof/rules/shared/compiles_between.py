"""Compiles between the training steps, in what comes again there: text that is generated every twentieth step, say.

They are in no step, so no finding on the steps has them.
"""

from __future__ import annotations

from collections import Counter

from tpuprof.model.compile.compiles import function_of
from tpuprof.model.compile.recurrence import RETURNS_FROM_STEPS
from tpuprof.report.between import BETWEEN_STEPS, coming_again, compiles_in
from tpuprof.report.schema import CompileRow
from tpuprof.rules.base import Outcome, failed
from tpuprof.rules.shared.compile_kinds import chosen_compiles, compile_evidence
from tpuprof.rules.shared.recompiles import SHOWN, with_calls
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import counted, format_ms, format_share


def between_of(signals: Signals, kinds: tuple[str, ...]) -> tuple[Outcome, list[CompileRow]] | None:
    """A finding on compiles of these kinds between the steps, and which they are; None where they take little.

    Of a function that compiles there for the first or second time it is unknown whether it does so again.
    """
    if not len(signals.steps):
        return None
    begin: dict[str, int] = {}
    for host, start in zip(signals.steps.host.tolist(), signals.steps.start_ns.tolist(), strict=True):
        name = signals.steps.hosts[host]
        begin[name] = min(begin.get(name, start), start)
    phases = coming_again(signals.phases, begin)
    chosen = chosen_compiles(compiles_in(signals.compiles_outside_steps, phases), kinds, signals.framework)
    often = Counter(function_of(row.program) for row in chosen)
    chosen = [row for row in chosen if often[function_of(row.program)] >= RETURNS_FROM_STEPS]
    took = sum(row.duration_ms for row in chosen)
    between = sum(phase.duration_ms for phase in phases)
    share = took / (float(signals.steps.wall_ms.sum()) + between)
    if share < FAILS_FROM_SHARE:
        return None
    chosen = sorted(chosen, key=lambda row: -row.duration_ms)
    outcome = failed(
        min(share, 1.0),
        with_calls(signals, chosen, [compile_evidence(row) for row in chosen[:SHOWN]]),
        title=f"{counted(len(chosen), 'compile')} {BETWEEN_STEPS} {'takes' if len(chosen) == 1 else 'take'} "
        f"{format_share(share)} of the time of both",
        reason=f"they take {format_ms(took)} of the {format_ms(between)} between the steps, and no step is shorter "
        "without them",
    )
    return outcome, chosen
