"""A proof as it is kept with the run: what was predicted, what was measured, and what follows."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tpuprof.errors import writing
from tpuprof.prove.experiment import SURPRISING, Experiment, Outcome, is_surprising
from tpuprof.prove.prediction import Prediction
from tpuprof.prove.program import Program
from tpuprof.prove.timing import BY_CLOCK, BY_METRIC, Timed
from tpuprof.run_folder import PROOF_SCHEMA, PROOFS
from tpuprof.units import format_ms, format_share, times, with_minus

# What a time is of, by what it was read from; of steps otherwise.
_PER = {BY_CLOCK: " from start to end", BY_METRIC: ""}
_NOT_A_NAME = re.compile(r"[^a-z0-9-]+")


def proof_of(
    tried: Experiment, rule: str, programs: tuple[Program, Program], predicted: Prediction | None,
    *, finding_after: str = "",
) -> dict[str, Any]:  # fmt: skip
    """The proof as JSON-ready values. `predicted` is what the rule expects of each step, None where it says nothing.

    `finding_after` is the rule's status in a capture of the program after the fix, empty without one.
    """
    saving = tried.saving
    read_from = tried.before[0].read_from if tried.before else ""
    losses = tried.losses
    return {
        "schema": PROOF_SCHEMA,
        "rule": rule,
        "outcome": tried.outcome.value,
        "sentence": sentence(tried, predicted),
        "reason": tried.reason,
        "read_from": read_from,
        "pairs": len(tried.after),
        "before_ms": tried.before_ms,
        "after_ms": tried.after_ms,
        "saving_ms": saving.mean if saving else None,
        "saving_low_ms": saving.low if saving else None,
        "saving_high_ms": saving.high if saving else None,
        "predicted_low_ms": predicted.low_ms if predicted else None,
        "predicted_high_ms": predicted.high_ms if predicted else None,
        "predicted_step_ms": predicted.step_ms if predicted else None,
        "predicted_per": "step" if predicted else "",
        # JSON has no nan: the reason says where a loss is not finite.
        "losses": [each if math.isfinite(each) else None for each in losses] if losses else None,
        "finding_after": finding_after,
        "before_command": programs[0].given,
        "after_command": programs[1].given,
        "before_revision": programs[0].revision,
        "runs_before_ms": [each.ms for each in tried.before],
        "runs_after_ms": [each.ms for each in tried.after],
        "runs_uncounted": [{"program": name, "ms": each.ms} for name, each in tried.uncounted],
        "steps_before": _steps(tried.before),
        "steps_after": _steps(tried.after),
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def sentence(tried: Experiment, predicted: Prediction | None) -> str:
    """What came of it, in one sentence."""
    word = tried.outcome.value.capitalize()
    saving = tried.saving
    if saving is None or tried.before_ms is None:
        return f"{word}: {tried.reason or 'there are too few runs'}."
    whole = f"{format_ms(tried.before_ms)}{_PER.get(tried.before[0].read_from, ' per step')}"
    bounds = f"(between {with_minus(saving.low, format_ms)} and {with_minus(saving.high, format_ms)})"
    expected = f"; predicted: {predicted.text()}" if predicted else ""
    if tried.outcome is Outcome.CONFIRMED:
        share = format_share(min(saving.mean / tried.before_ms, 1.0))
        notes = _notes(tried, predicted)
        return (
            f"{word}: the fix saves {format_ms(saving.mean)} of {whole}, {share} {bounds}{expected}{notes}."
        )
    mean = with_minus(saving.mean, format_ms)
    return f"{word}: {tried.reason}; measured: {mean} of {whole} {bounds}{expected}."


def _notes(tried: Experiment, predicted: Prediction | None) -> str:
    """What limits a confirmed saving."""
    doubt = (
        f", and more than {times(SURPRISING)} that is saved: check that both programs do the same work"
        if is_surprising(tried, predicted)
        else ""
    )
    losses = "" if tried.losses else "; losses were not compared: none was found in the output, see --loss"
    return f"{doubt}{losses}"


def _steps(runs: list[Timed]) -> list[int | None] | None:
    """How many steps each run's time is the mean of, None for a run, or for all, whose time was not read from steps."""
    return [each.steps for each in runs] if any(each.steps for each in runs) else None


def write_proof(run: Path, proof: dict[str, Any]) -> Path:
    """Keep a proof with the run, under a name of its own. Raises `TpuprofError` (`output-failed`)."""
    folder = run / PROOFS
    name = _NOT_A_NAME.sub("-", (proof["rule"] or "fix").lower()).strip("-") or "fix"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        number = 1
        while (folder / f"{name}-{number}.json").exists():
            number += 1
        path = folder / f"{name}-{number}.json"
        path.write_text(json.dumps(proof, indent=1, allow_nan=False) + "\n", "utf-8")
    return path
