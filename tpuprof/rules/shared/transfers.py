"""What the rules on copies and collectives share: their evidence, and their part of all exposed time."""

from __future__ import annotations

from tpuprof.model.device.collective_role import GRADIENT_REDUCE, GRADIENT_SCATTER, PARAMETER_GATHER
from tpuprof.report.schema import Evidence, TransferRow
from tpuprof.units import format_ms

# Transfers listed as evidence (rows).
SHOWN = 8
# Why a rule passes where little of what it looks at is communication.
MOSTLY_LATE = (
    "most of the waits are for chips or hosts that come later: barrier-skew and straggler-host say whether it is "
    "always the same one"
)
_ROLES = {
    PARAMETER_GATHER: "gathers",
    GRADIENT_SCATTER: "scatters the gradient of",
    GRADIENT_REDUCE: "sums the gradient of",
}


def transfer_evidence(rows: list[TransferRow]) -> list[Evidence]:
    """The transfers that are most exposed, with rate and bytes where the trace tells them."""
    return [
        Evidence(_text(row), row.exposed_ms_per_step, "ms per step exposed", source=row.source)
        for row in rows[:SHOWN]
    ]


def exposed_share(rows: list[TransferRow], of: list[TransferRow]) -> float:
    """How much of the exposed time of all these transfers the rows make up (share)."""
    total = sum(row.exposed_ms_per_step for row in of)
    return sum(row.exposed_ms_per_step for row in rows) / total if total else 0.0


def late_evidence(share: float, late: float) -> list[Evidence]:
    """What of waits that take this share of the step is for a chip or host that comes last: `late` of them (shares)."""
    return (
        [Evidence("waits for the chip or host that comes last, in these", share * late, "share")]
        if late
        else []
    )


def exposed_ops(rows: list[TransferRow]) -> dict[tuple[str, str], float]:
    """By transfer its exposed time (ms per step), for prices: rules about the same transfers sell the same time.

    A transfer's row names no program, so these are never the same as an op of a program.
    """
    return {("", row.name): row.exposed_ms_per_step for row in rows}


def _text(row: TransferRow) -> str:
    parts = [f"{row.name} ({row.kind})", *_purpose(row)]
    if row.bytes:
        parts.append(f"{row.bytes:,} bytes")
    if row.gb_per_s is not None:
        parts.append(f"{row.gb_per_s:.1f} GB/s")
    if row.hidden_ms_per_step is not None:
        parts.append(f"{format_ms(row.hidden_ms_per_step)} per step behind compute")
    if row.waiting_ms_per_step:
        parts.append(f"{format_ms(row.waiting_ms_per_step)} behind other transfers")
    if row.ahead_ms is not None:
        parts.append(
            f"begun {format_ms(row.ahead_ms)} before its wait"
            if row.ahead_ms
            else "waited for as soon as begun"
        )
    return ", ".join(parts)


def _purpose(row: TransferRow) -> list[str]:
    """What a collective is for, as far as the program tells."""
    what = row.parameter or row.layer
    said = f"{_ROLES[row.role]} {what or 'a parameter'}" if row.role in _ROLES else what
    return [each for each in (said, row.direction) if each]
