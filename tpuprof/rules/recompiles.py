"""What the rules on recompiles share: compiles inside the captured steps, chosen by the kind of their cause."""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.schema import CompileRow, Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, passed
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.signals.inputs import COMPILES_FROM_STEPS
from tpuprof.simulate.change import Change
from tpuprof.units import counted, format_share

# Compiles listed as evidence (rows).
SHOWN = 8


def check_kinds(signals: Signals, kinds: tuple[str, ...]) -> Outcome:
    """Fail where compiles with a cause of these kinds take enough of the step time.

    A compile whose own cause is not told (its program did not run before the capture ended) counts with the kind
    that most of the others have.
    """
    compiles = signals.step_compiles
    if not compiles:
        if len(signals.steps) < COMPILES_FROM_STEPS:
            raise Unavailable("one step tells nothing of compiles that return: capture more steps")
        return passed()
    chosen = _chosen(compiles, kinds)
    if not chosen:
        return passed(reason=f"compiles in the captured steps have other causes ({len(compiles)})")
    total = sum(row.duration_ms for row in compiles)
    part_of_all = sum(row.duration_ms for row in chosen) / total if total else 0.0
    share = signals.compile_share * part_of_all
    evidence = [_evidence(row) for row in chosen[:SHOWN]]
    if len(chosen) > SHOWN:
        evidence.append(Evidence("further compiles of this kind", len(chosen) - SHOWN, "compiles"))
    if share < FAILS_FROM_SHARE:
        return passed(evidence, reason="compiles take too little of the step time to matter")
    left = 1.0 - part_of_all
    return failed(
        share,
        evidence,
        title=f"{counted(len(chosen), 'compile')} in {counted(len(signals.steps), 'step')} "
        f"{'takes' if len(chosen) == 1 else 'take'} {format_share(share)} of the time",
        price=counterfactual(Change(host={part.COMPILE: left})),
        confidence="high" if all(row.cause.kind != "unknown" for row in chosen) else "medium",
    )


def _chosen(compiles: list[CompileRow], kinds: tuple[str, ...]) -> list[CompileRow]:
    told = [row.cause.kind for row in compiles if row.cause.kind != "unknown"]
    usual = max(told, key=told.count) if told else "unknown"
    return [row for row in compiles if (usual if row.cause.kind == "unknown" else row.cause.kind) in kinds]


def _evidence(row: CompileRow) -> Evidence:
    source = f"{row.cause.source_file}:{row.cause.source_line}" if row.cause.source_file else ""
    return Evidence(
        text=f"{row.cause.kind}: {row.cause.detail}",
        value=row.duration_ms,
        unit="ms",
        host=row.host,
        step=row.step,
        start_ns=row.start_ns,
        duration_ms=row.duration_ms,
        source=source,
    )
