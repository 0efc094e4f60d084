"""What rules take from a preflight: the compiler's answer for variants of the script, or the command that asks."""

from __future__ import annotations

from tpuprof.model.preflight_notes import Variant
from tpuprof.report.schema import Evidence
from tpuprof.signals import Signals
from tpuprof.units import format_bytes, format_ms


def variant_evidence(signals: Signals, change: str, variant: str) -> list[Evidence]:
    """What each variant needs on each slice; where nothing was compared, the command that compares with `variant`."""
    rows = [Evidence(f"predicted by the TPU compiler: {_text(each)}") for each in signals.preflight]
    if len({each.label for each in signals.preflight}) > 1:
        return rows
    command = f"tpuprof preflight {_script(signals)} --compare {variant}"
    return [
        *rows,
        Evidence(f"what {change} does to compile time, HBM and step on your slice is shown by `{command}`"),
    ]


def compile_seconds_evidence(signals: Signals) -> list[Evidence]:
    """How long the TPU compiler took for the step on each slice, where a preflight was run."""
    return [
        Evidence(
            f"the TPU compiler took for {each.label} on {each.target}, preflight", each.compile_seconds, "s"
        )
        for each in signals.preflight
        if each.compile_seconds is not None
    ]


def _script(signals: Signals) -> str:
    return next((each for each in signals.command_if_noted if each.endswith(".py")), "train.py")


def _text(each: Variant) -> str:
    facts = []
    if each.compile_seconds is not None:
        facts.append(f"compiles in {each.compile_seconds:.0f} s")
    if each.bytes is not None:
        facts.append(f"needs {format_bytes(each.bytes)} of HBM")
    if each.fits is False:
        facts.append("does not fit")
    if each.step_ms is not None:
        facts.append(f"{format_ms(each.step_ms)} per step")
    return f"{each.label} on {each.target} {', '.join(facts) or 'gave no program'}"
