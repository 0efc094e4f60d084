"""What a fix saves, in words."""

from __future__ import annotations

from tpuprof.report.pod import HostPriceRow
from tpuprof.report.schema import Finding, Savings
from tpuprof.units import MS_PER_S, format_ms, format_ms_range

_PER = {"step": "per step", "start": "at each start", "capture": "of the whole capture"}


def saved_amount(saved: Savings | HostPriceRow) -> str:
    """`12 ms to 18 ms per step`, or `30 s at each start`."""
    low, high = saved.low, saved.high
    if saved.start_low_s is not None and saved.start_high_s is not None:
        low, high = saved.start_low_s * MS_PER_S, saved.start_high_s * MS_PER_S
    per = _PER.get(saved.per, f"per {saved.per}")
    if not low and high:
        return f"up to {format_ms(high)} {per}"
    return f"{format_ms_range(low, high)} {per}"


def tried(finding: Finding) -> list[str]:
    """What came of its fix, one sentence per time it was tried."""
    return [
        f"{each.sentence} ({each.pairs} pairs, read from {each.read_from})" if each.pairs else each.sentence
        for each in finding.proofs
    ]
