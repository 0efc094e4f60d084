"""Fixes that were tried in the runs below a folder: what was predicted for each, and what was measured."""

from __future__ import annotations

import math
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.model.proof_notes import Proof, read_proofs
from tpuprof.prove.experiment import Outcome
from tpuprof.prove.prediction import Prediction
from tpuprof.records import record
from tpuprof.run_folder import PROOFS
from tpuprof.shown_text import printable
from tpuprof.units import format_ms, format_share

if TYPE_CHECKING:
    from rich.console import Console

# Folders that are looked into (folders): a path such as `/` ends soon.
MOST_FOLDERS = 20_000


@record(frozen=True)
class Tried:
    """One proof, and the run that it is kept with, as a path relative to the folder that was asked for."""

    run: str
    proof: Proof

    @property
    def off(self) -> float | None:
        """How far the measured saving lies outside the predicted range, as a share of the measured one; 0 inside.

        The predicted share of the captured step is meant, of the step that was measured. None where nothing was
        predicted per step, or no saving was measured.
        """
        proof, predicted, measured = self.proof, self.predicted, self.proof.saving_ms
        if predicted is None or measured is None or measured <= 0 or proof.before_ms is None:
            return None
        low, high = predicted.expected(proof.before_ms)
        off = max(low - measured, measured - high, 0.0) / measured
        return off if math.isfinite(off) else None

    @property
    def predicted(self) -> Prediction | None:
        """What was predicted per step, None where nothing was."""
        low, high = self.proof.predicted_low_ms, self.proof.predicted_high_ms
        return None if low is None or high is None else Prediction(low, high, self.proof.predicted_step_ms)


def tried_below(folder: Path) -> list[Tried]:
    """All proofs of the runs below a folder, the oldest first. Reads no more than `MOST_FOLDERS` folders."""
    found = []
    for looked, (place, folders, _) in enumerate(os.walk(folder)):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        if PROOFS.name in folders:
            run = os.path.relpath(place, folder)
            name = folder.resolve().name if run == "." else run
            found += [Tried(name, each) for each in read_proofs(Path(place))]
        if looked >= MOST_FOLDERS:
            break
    return sorted(found, key=lambda each: (each.proof.made_at, each.run, each.proof.rule))


def as_rows(tried: list[Tried]) -> list[dict[str, Any]]:
    """What `tpuprof history --json` lists under `proofs`."""
    return [{"run": each.run, **vars(each.proof), "off": each.off} for each in tried]


def summary(tried: list[Tried]) -> str:
    """How many fixes were confirmed, and how far predictions of the confirmed ones were off."""
    counts = {each: sum(one.proof.outcome == each.value for one in tried) for each in Outcome}
    said = ", ".join(f"{count} {each.value}" for each, count in counts.items() if count)
    text = f"{len(tried)} {'fix was' if len(tried) == 1 else 'fixes were'} tried: {said}."
    if not counts[Outcome.CONFIRMED]:
        return text
    confirmed = (each.off for each in tried if each.proof.outcome == Outcome.CONFIRMED.value)
    off = [each for each in confirmed if each is not None]
    if not off:
        return f"{text} None of the confirmed ones had a predicted saving per step."
    inside = sum(each == 0 for each in off)
    return (
        f"{text} The measured saving is within the predicted range for {inside} of {len(off)} confirmed "
        f"{'fix' if len(off) == 1 else 'fixes'} with a predicted saving per step; it is outside it by "
        f"{100 * statistics.median(off):.0f} % in the median, {100 * max(off):.0f} % at most."
    )


def render(tried: list[Tried], console: Console) -> None:
    """Print each fix that was tried, and the summary."""
    from rich.table import Table

    console.print("Fixes that were tried", style="bold", markup=False)
    table = Table("run", "rule", "predicted", "measured", "outcome", box=None, pad_edge=False)
    for each in tried:
        proof = each.proof
        table.add_row(
            printable(each.run),
            printable(proof.rule or "no rule"),
            each.predicted.text() if each.predicted else "nothing per step",
            _measured(proof),
            printable(proof.outcome),
        )
    console.print(table)
    console.print(summary(tried), markup=False)


def _measured(proof: Proof) -> str:
    if proof.saving_ms is None or proof.before_ms is None or proof.before_ms <= 0:
        return "unknown"
    share = proof.saving_ms / proof.before_ms
    return f"{format_ms(proof.saving_ms)} of {format_ms(proof.before_ms)}" + (
        f" ({format_share(min(share, 1.0))})" if share > 0 else ""
    )
