"""Predictions and what became of them: numbers that are known, kept in run folders."""

import json

import pytest

from tests.cli.test_bad_input import tpuprof
from tpuprof.prove.track_record import summary, tried_below

PROOF = {
    "schema": "tpuprof.prove/1", "rule": "graph-cuts", "outcome": "confirmed", "sentence": "s", "read_from": "its steps",
    "pairs": 4, "before_ms": 10.0, "after_ms": 8.0, "saving_ms": 2.0, "saving_low_ms": 1.5, "saving_high_ms": 2.5,
    "predicted_low_ms": 1.0, "predicted_high_ms": 3.0, "finding_after": "passed", "made_at": "2026-01-01T00:00:00+00:00",
}  # fmt: skip


def keep(folder, name="a", **changed):
    (folder / "prove").mkdir(parents=True, exist_ok=True)
    (folder / "prove" / f"{name}.json").write_text(json.dumps({**PROOF, **changed}))


@pytest.mark.parametrize(
    ("predicted", "saving", "off"),
    [
        ((1, 3), 2.0, 0.0),
        ((1, 3), 4.0, 0.25),
        ((1, 3), 0.5, 1.0),
        ((None, None), 2.0, None),
        ((1, 3), -2.0, None),
    ],
)
def test_how_far_a_prediction_is_off(tmp_path, predicted, saving, off):
    low, high = predicted
    keep(tmp_path, predicted_low_ms=low, predicted_high_ms=high, saving_ms=saving)
    (tried,) = tried_below(tmp_path)
    assert tried.off == (pytest.approx(off) if off is not None else None)


def test_a_prediction_of_a_longer_captured_step_is_compared_by_share(tmp_path):
    """4 of 20 ms are 2 of the 10 ms that the program takes without a capture."""
    keep(tmp_path, predicted_low_ms=4.0, predicted_high_ms=4.0, predicted_step_ms=20.0)
    (tried,) = tried_below(tmp_path)
    assert tried.off == 0.0


def test_the_summary_counts_outcomes_and_distances(tmp_path):
    keep(tmp_path / "a" / "first")
    keep(tmp_path / "a" / "second", saving_ms=4.0, made_at="2026-01-02T00:00:00+00:00")
    keep(
        tmp_path / "a" / "second", "b", outcome="refuted", saving_ms=0.0, made_at="2026-01-03T00:00:00+00:00"
    )
    tried = tried_below(tmp_path)
    assert [each.run for each in tried] == ["a/first", "a/second", "a/second"]
    said = summary(tried)
    assert "3 fixes were tried: 2 confirmed, 1 refuted." in said
    assert "within the predicted range for 1 of 2 confirmed fixes" in said
    assert "outside it by 12 % in the median, 25 % at most" in said


def test_without_a_confirmed_fix_nothing_is_said_of_predictions(tmp_path):
    keep(tmp_path, outcome="undecided", saving_ms=None)
    assert summary(tried_below(tmp_path)) == "1 fix was tried: 1 undecided."


def test_a_saving_next_to_nothing_has_no_distance(tmp_path):
    keep(tmp_path, saving_ms=1e-300, predicted_low_ms=1e300, predicted_high_ms=1e300)
    assert tried_below(tmp_path)[0].off is None


def test_history_lists_proofs_of_runs_that_were_never_watched(tmp_path):
    keep(tmp_path / "run", rule="x\x1b[31m")
    done = tpuprof("history", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "1 fix was tried: 1 confirmed" in done.stdout
    assert "1.00 ms to 3.00 ms" in done.stdout and "2.00 ms" in done.stdout and "\x1b" not in done.stdout
    (row,) = json.loads(tpuprof("history", str(tmp_path), "--json").stdout)["proofs"]
    assert (row["run"], row["saving_ms"], row["off"]) == ("run", 2.0, 0.0)


def test_a_folder_without_ledger_and_proof_is_refused(tmp_path):
    done = tpuprof("history", str(tmp_path))
    assert done.returncode == 2
    assert "input-no-ledger" in done.stderr
