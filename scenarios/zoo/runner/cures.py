"""What the cures of a program save, by its own clock: this is how its truth is known. tpuprof has no part in it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from runner.execute import bare_quick, fingerprint
from runner.result import keep, told_of
from runner.truth import Cure, Truth

# The file of what was measured.
NAME = "cures"


def measure(truth: Truth) -> None:
    """Run the program without and with each cure, in turn, and keep what each saves (a share of a typical step)."""
    savings: list[float | None] = []
    with tempfile.TemporaryDirectory() as scratch:
        for cure in truth.cures:
            before = bare_quick(truth, Path(scratch)).step_ms
            after = bare_quick(truth, Path(scratch), cure).step_ms
            savings.append(1 - after / before if before and after is not None else None)
    keep(truth, NAME, {"program": _version(truth), "savings": savings})


def kept(truth: Truth) -> list[tuple[Cure, float | None]]:
    """The cures that were measured of the program as it is now, each with its saving; None where no clock was read."""
    told = told_of(truth, NAME, _version(truth))
    return list(zip(truth.cures, told["savings"], strict=True)) if told is not None else []


def confirmed(truth: Truth) -> bool | None:
    """Whether all cures save what the truth states; None where they were not measured."""
    measured = kept(truth)
    if not measured:
        return None
    return all(saving is not None and cure.holds(saving) for cure, saving in measured)


def text(truth: Truth) -> str:
    """What each cure saves, for people."""
    parts = []
    for cure, saving in kept(truth):
        held = "" if saving is not None and cure.holds(saving) else " (does not confirm the truth)"
        parts.append(
            f"{cure.what}: {saving:+.0%}{held}" if saving is not None else f"{cure.what}: not measured"
        )
    return "; ".join(parts)


def _version(truth: Truth) -> str:
    return fingerprint(truth) + repr([(cure.replace, cure.by) for cure in truth.cures])
