"""Numbers as people read them; the only place that rounds for display.

Times inside tpuprof are integers: picoseconds (`ps`) in traces and columns, nanoseconds (`ns`) where a
wall clock gave them. Reports carry milliseconds as floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

PS_PER_NS = 1_000
PS_PER_US = 1_000_000
PS_PER_MS = 1_000_000_000
PS_PER_S = 1_000_000_000_000
NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
US_PER_S = 1_000_000
US_PER_MS = 1_000
MS_PER_S = 1_000
# What GB, GFLOP and TFLOP count.
MEGA, GIGA, TERA = 1e6, 1e9, 1e12

# Ratio of the ends of a range up to which one number is shown. A judgement: no price is more exact than a hundredth.
NEARLY_SAME = 1.01

_TIME_UNITS = ((1e3, "s", 1e-3), (1.0, "ms", 1.0), (1e-3, "µs", 1e3), (0.0, "ns", 1e6))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def ps_to_ms(ps: float) -> float:
    """Milliseconds of a count of picoseconds, exact to the float's precision."""
    return ps / PS_PER_MS


def format_ms(ms: float) -> str:
    """A duration in milliseconds with three significant digits and a fitting unit: `784 ms`, `1.42 s`."""
    if ms == 0:
        return "0 ms"
    for floor, unit, factor in _TIME_UNITS:
        if abs(ms) >= floor:
            return f"{_three_digits(ms * factor)} {unit}"
    raise AssertionError("unreachable: the last floor is zero")


def format_ms_range(low: float, high: float) -> str:
    """Durations from `low` to `high` (ms): `17.0 ms to 25.0 ms`, the longer one where both are nearly the same."""
    return (
        format_ms(high) if low <= high <= NEARLY_SAME * low else text_range(format_ms(low), format_ms(high))
    )


def text_range(low: str, high: str) -> str:
    """Two numbers as text, one of them where both read alike."""
    return high if low == high else f"{low} to {high}"


def with_minus(value: float, text: Callable[[float], str]) -> str:
    """A number as text that may be below zero, with a minus sign that is as wide as a plus sign."""
    return text(value) if value >= 0 else f"−{text(-value)}"


def format_share(share: float) -> str:
    """A share between 0 and 1 as a percentage; below one percent with one decimal, never `0 %` for a trace."""
    percent = share * 100
    if percent == 0:
        return "0 %"
    if percent < 0.1:
        return "<0.1 %"
    return f"{percent:.1f} %" if percent < 10 and round(percent) != round(percent, 1) else f"{percent:.0f} %"


def format_bytes(count: float) -> str:
    """A byte count in binary units with three significant digits: `5.00 GiB`."""
    value = float(count)
    for unit in _BYTE_UNITS:
        if abs(value) < 1024 or unit == _BYTE_UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{_three_digits(value)} {unit}"
        value /= 1024
    raise AssertionError("unreachable: the last unit always returns")


def _three_digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def counted(count: float, noun: str) -> str:
    """A count with its noun, in the plural unless it is one: `1 compile`, `3 compiles`, `2.5 graphs`."""
    # The format `g` alone would give six digits of millions.
    number = f"{count:.0f}" if float(count).is_integer() else f"{count:g}"
    return f"{number} {noun}" if count == 1 else f"{number} {noun}s"


def listed(names: Sequence[str], most: int, rest: str = "", total: int | None = None) -> str:
    """The first names of a list, and how many it leaves out: `a, b and 3 more`, or `a, b and 3 others` with a noun.

    `total` is how many there are where `names` are the first of them.
    """
    shown = names[:most]
    left = (len(names) if total is None else total) - len(shown)
    said = ", ".join(shown)
    return f"{said} and {counted(left, rest) if rest else f'{left} more'}" if left > 0 else said


def count_of(count: float, name: str) -> str:
    """How often something with a name is called: `1 x less`. "1 of less" reads as if a word were missing."""
    return f"{count:,.0f} x {name}"


def times(count: float) -> str:
    """How often, in words: `once`, `3 times`, `0.5 times`."""
    return "once" if count == 1 else f"{count:.3g} times"
