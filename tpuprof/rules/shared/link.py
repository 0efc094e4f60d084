"""What the link to host memory needs for a step's copies: the floor that no schedule of the same bytes gets below."""

from __future__ import annotations

from typing import NamedTuple

from tpuprof import parts as part
from tpuprof.chips import chip_of
from tpuprof.model.device.transfers import TO_DEVICE, TO_HOST
from tpuprof.records import record
from tpuprof.report.schema import Evidence, TransferRow
from tpuprof.rules.base import Price, counterfactual
from tpuprof.rules.thresholds import PRICED_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import GIGA, MS_PER_S, format_ms

# How much of what the link leaves to gain a schedule gains at least (share). A judgement: copies depend on what makes
# and needs their tensors, so that not all of them can begin when the link is free.
HIDDEN_AT_LEAST = 0.5
# Least time for a step's bytes, over the step's own, from which the step disproves the rate or the bytes (ratio). A
# step that the link fills is a few percent off, as its rate is that of other copies. A judgement.
BEATEN_FROM = 1.1
_WORDS = {TO_HOST: "to the host", TO_DEVICE: "to the device"}


@record(frozen=True)
class Way:
    """One direction of the link in one step: bytes, rate (GB/s), where the rate is from, and the time needed (ms)."""

    direction: str
    bytes: float
    rate: float
    source: str

    @property
    def ms(self) -> float:
        """Time the link needs for these bytes at this rate."""
        return self.bytes / (self.rate * GIGA) * MS_PER_S


@record(frozen=True)
class Floor:
    """The least time per step that the link needs (ms): both directions at once, or one after the other."""

    ways: list[Way]

    @property
    def both_ms(self) -> float:
        """Both directions at their full rate at once: the slower one decides."""
        return max(way.ms for way in self.ways)

    @property
    def turns_ms(self) -> float:
        """One direction at a time."""
        return sum(way.ms for way in self.ways)

    @property
    def measured(self) -> bool:
        """Whether each rate is one that this run showed with a copy alone on the link."""
        return all(way.source == _ALONE for way in self.ways)

    def evidence(self) -> list[Evidence]:
        """The floor in words, one fact per assumption."""
        each = " and ".join(
            f"{way.bytes / GIGA:.3g} GB {_WORDS[way.direction]} at {way.rate:.1f} GB/s ({way.source})"
            for way in self.ways
        )
        found = [Evidence(f"the link needs at least this per step: {each}", self.both_ms, "ms")]
        if len(self.ways) > 1:
            found[0] = Evidence(f"{found[0].text}, both directions at once", self.both_ms, "ms")
            found.append(
                Evidence("the same bytes, one direction after the other", self.turns_ms, "ms"),
            )
        return found


_ALONE = "the rate of a copy alone on the link"


def floor_of(signals: Signals) -> Floor | None:
    """The floor of one device's link; None where a direction has no bytes or no rate, or steps beat it."""
    steps = signals.step_count
    ways = [
        _way(direction, [row for row in signals.offload if row.kind == direction], steps, signals)
        for direction in (TO_HOST, TO_DEVICE)
        if any(row.kind == direction for row in signals.offload)
    ]
    known = [way for way in ways if way is not None]
    floor = Floor(known) if known and len(known) == len(ways) else None
    if floor is None or floor.both_ms > BEATEN_FROM * signals.step_ms:
        return None
    return floor


def _way(direction: str, rows: list[TransferRow], steps: int, signals: Signals) -> Way | None:
    if any(row.bytes is None for row in rows) or not steps:
        return None
    size = sum((row.bytes or 0) * row.occurrences for row in rows) / steps
    alone = max((row.gb_per_s_alone for row in rows if row.gb_per_s_alone is not None), default=None)
    if alone is not None:
        return Way(direction, size, alone, _ALONE)
    chip = chip_of(signals.device_type)
    stated = chip.host_bytes_per_s / GIGA if chip and chip.host_bytes_per_s else 0.0
    seen = max((row.gb_per_s for row in rows if row.gb_per_s is not None), default=0.0)
    if seen >= stated > 0.0 or (seen and not stated):
        return Way(direction, size, seen, "the fastest copy of this run; the link may do more")
    if chip and stated:
        return Way(direction, size, stated, f"{chip.name}'s link: {chip.host_source}")
    return None


def left_exposed(floor_ms: float, step_ms: float, exposed_ms: float) -> float:
    """Exposed time (ms per step) that stays when copies overlap with all else and the link needs `floor_ms`."""
    return min(max(floor_ms - (step_ms - exposed_ms), 0.0), exposed_ms)


def floor_sentence(floor: Floor) -> str:
    """The floor for a title."""
    return f"the link needs at least {format_ms(floor.both_ms)} per step for these bytes"


class Priced(NamedTuple):
    """The price of overlapping copies as well as the link allows, or why there is none."""

    price: Price | None
    reason: str
    confidence: str


def offload_price(signals: Signals, floor: Floor | None) -> Priced:
    """What overlapping the same bytes with all else in the step saves, given what the link needs for them."""
    if floor is None:
        return Priced(
            None,
            "it cannot be priced: the trace gives no bytes of the copies, or no rates that fit the step",
            "medium",
        )
    step, exposed = signals.step_ms, signals.offload_share * signals.step_ms
    most = left_exposed(floor.both_ms, step, exposed) / exposed
    turns = left_exposed(floor.turns_ms, step, exposed) / exposed
    least = 1.0 - HIDDEN_AT_LEAST * (1.0 - turns)
    if (2.0 - most - least) / 2 * exposed < PRICED_FROM_SHARE * step:
        return Priced(
            None,
            f"{floor_sentence(floor)}, and a step takes {format_ms(step)}: only fewer bytes make it shorter",
            "high" if floor.measured else "medium",
        )
    price = counterfactual(Change(device={part.OFFLOAD: most}), Change(device={part.OFFLOAD: least}))
    return Priced(price, "", "medium" if floor.measured else "low")
