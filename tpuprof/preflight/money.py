"""What a predicted step costs on each slice, by prices that the user gives: none is built in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.run import Outcome
from tpuprof.preflight.targets import Target
from tpuprof.units import MS_PER_S

_SECONDS = 3600.0
NOTE = (
    "Predicted, and for the device alone: the host's time is not in it, and the whole slice is paid for. Prices are "
    "yours, in USD per chip and hour."
)


@dataclass(frozen=True)
class Work:
    """What one step of the script does on all devices together, as the user says; None where unsaid."""

    samples: float | None = None
    tokens: float | None = None


@dataclass(frozen=True)
class Cost:
    """One variant on one slice, all predicted. None is what has no prediction, no price or no stated work.

    `fits` is None without a verdict. `used` is how many of the slice's devices the program runs on.
    """

    variant: str
    target: str
    chips: int
    devices: int
    used: int
    fits: bool | None
    step_ms: float | None
    usd_per_hour: float | None
    steps_per_usd: float | None
    samples_per_s: float | None
    samples_per_usd: float | None
    tokens_per_s: float | None
    tokens_per_usd: float | None


def parse_prices(items: Iterable[str]) -> dict[str, float]:
    """`v5e=1.2,v5p=4.2` as USD per chip and hour by generation or slice; raises `TpuprofError` (USAGE)."""
    prices = {}
    for item in [part.strip() for each in items for part in each.split(",") if part.strip()]:
        name, equals, text = item.partition("=")
        try:
            value = float(text) if equals else math.nan
        except ValueError:
            value = math.nan
        if not name or not math.isfinite(value) or value <= 0:
            raise TpuprofError(
                Code.USAGE,
                f"--price {item!r} is not CHIP=USD.",
                "For example --price v5e=1.2,v6e=2.7 per chip-hour.",
            )
        prices[name.strip()] = value
    return prices


def price_of(target: Target, prices: dict[str, float]) -> float | None:
    """USD per chip and hour of a slice: its own price before its generation's."""
    return prices.get(target.name, prices.get(target.chip.name))


def costs(outcomes: list[Outcome], prices: dict[str, float], work: Work) -> list[Cost]:
    """Each variant on each slice, the most steps per dollar first; what does not fit or has no price comes last."""
    found = []
    for outcome in outcomes:
        for each in outcome.iterations():
            compiled = each.main.compiled
            found.append(_cost(outcome.variant.label, compiled.target, each, prices, work))
    return sorted(found, key=lambda row: (row.fits is not True, -(row.steps_per_usd or 0.0), row.target))


def _cost(label: str, target: Target, each: Any, prices: dict[str, float], work: Work) -> Cost:
    price = price_of(target, prices)
    hourly = price * target.chips if price is not None else None
    step_ms = each.step_ms if each.fits else None
    per_s = MS_PER_S / step_ms if step_ms else None
    per_usd = per_s * _SECONDS / hourly if per_s is not None and hourly else None

    def times(rate: float | None, amount: float | None) -> float | None:
        return rate * amount if rate is not None and amount is not None else None

    return Cost(
        label, target.name, target.chips, target.devices, each.main.compiled.graph.devices(target.devices), each.fits,
        each.step_ms, hourly, per_usd, times(per_s, work.samples), times(per_usd, work.samples),
        times(per_s, work.tokens), times(per_usd, work.tokens),
    )  # fmt: skip


def cost_notes(rows: list[Cost], prices: dict[str, float]) -> list[str]:
    """What the table comes to: the cheapest, the smallest slice that fits, and what is missing."""
    notes = []
    for label in dict.fromkeys(row.variant for row in rows):
        own = [row for row in rows if row.variant == label]
        fitting = [row for row in own if row.fits]
        priced = [row for row in fitting if row.steps_per_usd is not None]
        if len(priced) > 1:
            ratio = priced[0].steps_per_usd / priced[1].steps_per_usd  # type: ignore[operator]
            notes.append(
                f"{label}: {priced[0].target} gives most per dollar, {ratio:.2f}x of {priced[1].target}"
            )
        if fitting:
            least = min(fitting, key=lambda row: (row.chips, row.target))
            notes.append(
                f"{label}: the smallest slice here that fits is {least.target}, {least.chips} chip(s)"
            )
        elif own:
            notes.append(f"{label}: no slice here is known to fit")
        idle = [row for row in fitting if row.used < row.devices]
        if idle:
            names = ", ".join(f"{row.target} {row.used} of {row.devices}" for row in idle)
            notes.append(
                f"{label}: not all devices are used ({names}): compare slices of one device, or shard the model"
            )
    unpriced = sorted({row.target for row in rows if row.usd_per_hour is None})
    if unpriced and prices:
        notes.append(f"no price was given for {', '.join(unpriced)} (--price)")
    return notes


def cost_dicts(rows: list[Cost]) -> list[dict[str, Any]]:
    """Plain values for JSON."""
    return [{**asdict(row), "predicted": True} for row in rows]
