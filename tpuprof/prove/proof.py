"""A proof as it is kept with the run: what was predicted, what was measured, and what follows."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.prove.experiment import Experiment, Outcome
from tpuprof.prove.prediction import Prediction
from tpuprof.prove.program import Program
from tpuprof.run_folder import PROOF_SCHEMA, PROOFS
from tpuprof.units import format_ms, format_share

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
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def sentence(tried: Experiment, predicted: Prediction | None) -> str:
    """What came of it, in one sentence."""
    word = tried.outcome.value.capitalize()
    saving = tried.saving
    if saving is None or tried.before_ms is None:
        return f"{word}: {tried.reason or 'there are too few runs'}."
    share = f", {format_share(min(saving.mean / tried.before_ms, 1.0))}" if saving.mean > 0 else ""
    amount = (
        f"{_signed(saving.mean)} of {format_ms(tried.before_ms)}{share} "
        f"(between {_signed(saving.low)} and {_signed(saving.high)})"
    )
    expected = f"; predicted: {predicted.text()}" if predicted else ""
    if tried.outcome is Outcome.CONFIRMED:
        note = "" if tried.losses else "; losses were not compared, since none are printed"
        return f"{word}: the fix saves {amount}{expected}{note}."
    return f"{word}: {tried.reason}; the fix saves {amount}{expected}."


def write_proof(run: Path, proof: dict[str, Any]) -> Path:
    """Keep a proof with the run, under a name of its own. Raises `TpuprofError` (`output-failed`)."""
    folder = run / PROOFS
    name = _NOT_A_NAME.sub("-", (proof["rule"] or "fix").lower()).strip("-") or "fix"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = 1
        while (folder / f"{name}-{number}.json").exists():
            number += 1
        path = folder / f"{name}-{number}.json"
        path.write_text(json.dumps(proof, indent=1, allow_nan=False) + "\n", "utf-8")
    except OSError as error:
        raise TpuprofError(
            Code.OUTPUT_FAILED,
            f"{folder}: cannot be written ({error.strerror or error}).",
            "Choose another place.",
        ) from error
    return path


def _signed(ms: float) -> str:
    return format_ms(ms) if ms >= 0 else f"−{format_ms(-ms)}"
