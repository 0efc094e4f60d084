"""A debugging flag slows every step.

## What it detects

Variables that make torch_xla collect Python frames at every op, or analyze and print at every step: XLA_IR_DEBUG,
XLA_HLO_DEBUG, PT_XLA_DEBUG, PT_XLA_DEBUG_LEVEL, XLA_SAVE_TENSORS_FILE, XLA_DYNAMO_DEBUG.

## Why it costs time

Frames collected at every op make tracing about half as slow again or worse; dumping graphs writes each of them to
disk in every step.

## Evidence

The flags, and the wall time of steps with IR debugging on and off: tpuprof turns it off in some steps before those it
captures.

## How to fix

Unset the flags for production runs. tpuprof turns IR debugging on by itself while graphs are compiled.

## Limits and false positives

Only IR debugging is measured, in three steps with it and three without; the other flags have no price.

## References

- https://github.com/pytorch/xla/issues/8216
- https://docs.pytorch.org/xla/release/r2.9/learn/troubleshoot.html
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import STABLE, Outcome, Price, failed, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import format_share

IR_DEBUG = ("XLA_IR_DEBUG", "XLA_HLO_DEBUG")
OTHERS = ("PT_XLA_DEBUG", "PT_XLA_DEBUG_LEVEL", "XLA_SAVE_TENSORS_FILE", "XLA_DYNAMO_DEBUG")
_OFF = ("", "0", "false", "False")


@rule(
    status=STABLE,
    about="debugging flags",
    good="No debugging flag slows the steps",
    bad="A debugging flag slows every step",
    torch_only=True,
    reads=("records", "info", "variables"),
)
def check(signals: Signals) -> Outcome:
    """Fail where IR debugging costs enough of a step, or where another flag is on that cannot be priced."""
    by_user = (signals.info.get("capture") or {}).get("ir_debug_by_user")
    others = [name for name in OTHERS if signals.variables.get(name, "") not in _OFF]
    evidence = [Evidence(f"{name}={signals.variables[name]}") for name in others]
    if not by_user:
        return _unpriced(others, evidence) if others else passed()
    with_debug, without = _medians(signals)
    evidence += [
        Evidence("IR debugging was on before tpuprof touched it (XLA_IR_DEBUG)"),
        Evidence("median step with IR debugging on, before the capture", with_debug, "ms"),
        Evidence("median step with IR debugging off, before the capture", without, "ms"),
    ]
    if with_debug is None or without is None:
        return _unpriced(["XLA_IR_DEBUG", *others], evidence)
    saved = with_debug - without
    if saved / with_debug < FAILS_FROM_SHARE:
        return (
            _unpriced(others, evidence)
            if others
            else passed(evidence, reason="IR debugging is on but hardly costs")
        )
    savings = Savings(saved, saved, "measured")
    title = f"IR debugging takes {format_share(saved / with_debug)} of each step"
    return failed(saved / with_debug, evidence, title=title, price=Price(savings=savings), confidence="high")


def _unpriced(names: list[str], evidence: list[Evidence]) -> Outcome:
    title = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} on"
    return failed(0.0, evidence, title=title, reason="it cannot be priced: no step ran without it")


def _medians(signals: Signals) -> tuple[float | None, float | None]:
    """Median wall time (ms) of steps before the capture, with IR debugging and without; those that compile left out."""
    off_in = (signals.info.get("capture") or {}).get("ir_debug_off_in_steps") or []
    steady = [each for each in signals.records if not each.captured and not each.compiles]
    with_debug = [each.wall_ms for each in steady if each.step not in off_in]
    without = [each.wall_ms for each in steady if each.step in off_in]
    return _median(with_debug), _median(without)


def _median(walls: list[float]) -> float | None:
    import statistics

    return statistics.median(walls) if walls else None
