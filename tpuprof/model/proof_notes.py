"""What came of fixes that were tried: read from `prove/*.json` of the run folder, as `tpuprof prove` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpuprof.json_notes import read_json
from tpuprof.model.telemetry import note_damage
from tpuprof.records import record
from tpuprof.run_folder import PROOF_SCHEMA, PROOFS

# More proofs of one run than this are not read (files): a folder of something else.
_MOST = 200


@record(frozen=True)
class Proof:
    """One fix that was tried. Times in ms; None where it was not measured or not predicted.

    `outcome` is confirmed, refuted or undecided, `read_from` says what times were read from, `pairs` how many pairs of
    runs there were.
    """

    rule: str
    outcome: str
    sentence: str
    read_from: str
    pairs: int
    before_ms: float | None
    after_ms: float | None
    saving_ms: float | None
    saving_low_ms: float | None
    saving_high_ms: float | None
    predicted_low_ms: float | None
    predicted_high_ms: float | None
    finding_after: str
    made_at: str
    predicted_step_ms: float | None = None


def read_proofs(run_folder: Path | None, damaged: list[str] | None = None) -> list[Proof]:
    """Every proof kept with a run, the oldest first; files that are none are passed over, and `damaged` ones told."""
    if run_folder is None or not (run_folder / PROOFS).is_dir():
        return []
    found = [_read(path, damaged) for path in sorted((run_folder / PROOFS).glob("*.json"))[:_MOST]]
    return sorted((each for each in found if each is not None), key=lambda each: (each.made_at, each.rule))


def _read(path: Path, damaged: list[str] | None) -> Proof | None:
    try:
        told = read_json(path)
        if told["schema"] != PROOF_SCHEMA:
            return None
        texts = {name: str(told[name]) for name in ("rule", "outcome", "sentence", "read_from", "made_at")}
        numbers = {name: _number(told, name) for name in _NUMBERS}
        later = str(told.get("finding_after", ""))
        return Proof(**texts, **numbers, pairs=int(told["pairs"]), finding_after=later)  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, TypeError):
        note_damage(damaged, path, "it cannot be read")
        return None


_NUMBERS = (
    "before_ms",
    "after_ms",
    "saving_ms",
    "saving_low_ms",
    "saving_high_ms",
    "predicted_low_ms",
    "predicted_high_ms",
    "predicted_step_ms",
)


def _number(told: dict[str, Any], name: str) -> float | None:
    value = told.get(name)
    return float(value) if isinstance(value, (int, float)) else None
