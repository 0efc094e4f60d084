"""Kinds of anomalies, and the thresholds that decide. Each threshold has a unit, and a reason where it stands."""

from __future__ import annotations

from typing import Any

from tpuprof.records import record

SLOW_STEP = "slow_step"
SHIFT = "shift"
RECOMPILE = "recompile"
INPUT_STALL = "input_stall"
SLOW_SAVE = "slow_save"
MEMORY_GROWTH = "memory_growth"
BEHIND = "behind"
HANG = "hang"
KINDS = (SLOW_STEP, SHIFT, RECOMPILE, INPUT_STALL, SLOW_SAVE, MEMORY_GROWTH, BEHIND, HANG)


@record
class Settings:
    """When something counts as an anomaly.

    With these values normal or log-normal noise of up to 15 % raises at most one false alarm per 10,000 steps, and
    so does noise with heavy tails (Student's t with three degrees of freedom): `tests/watch/test_false_alarms.py`.
    """

    # Steps without a compile after which training is warm (steps).
    warm_steps: int = 20
    # Steps that the median and the spread are taken from (steps): a change of the model's work, a new epoch say, is
    # forgotten after as many.
    window: int = 256
    # A slow step takes this many times the median (ratio), and lies this many spreads above it.
    slow_ratio: float = 1.5
    slow_spreads: float = 8.0
    # Steps after a slow one that are looked at before it is named (steps): if all are slow, the level has shifted.
    confirm: int = 3
    # Where values above the median by four spreads are common, a slow step must exceed the third largest of them by
    # this (ratio) in as many steps: heavy tails raise the bar themselves.
    peak_ratio: float = 1.5
    peak_steps: int = 2000
    # Steps whose median is compared with the window's (steps), and the growth that counts (ratio): less than a tenth
    # is seldom worth a capture.
    shift_steps: int = 24
    shift_ratio: float = 1.1
    shift_errors: float = 8.0
    # A save is slow beyond this many times the median of saves (ratio) and this much longer (s).
    save_ratio: float = 3.0
    save_seconds: float = 1.0
    # Memory grows if its least value rose in each of eight blocks of so many steps, by this share and these bytes.
    memory_blocks: tuple[int, ...] = (64, 512, 4096)
    memory_share: float = 0.05
    memory_bytes: float = 64 * 2**20
    # A host is behind if its own work takes this many times the median of all hosts (ratio), this often in a row.
    behind_ratio: float = 1.2
    behind_checks: int = 3
    # No step for this many times the median (ratio), and for these seconds at least: a hang.
    hang_ratio: float = 10.0
    hang_seconds: float = 30.0
    # In a graph cut, which may compile, so many times as long (ratio).
    hang_in_cut: float = 4.0
    # After a report of a kind none follows for so many steps; the number doubles with each that comes soon after.
    pause: int = 200
    longest_pause: int = 50_000


@record
class Anomaly:
    """Something that happened at a step. `part` is what the extra time was spent in, where that is known.

    `message` is one sentence for people; `facts` are the numbers behind it.
    """

    kind: str
    step: int
    message: str
    part: str = ""
    facts: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The anomaly as one JSON object."""
        return {
            "kind": self.kind,
            "step": self.step,
            "message": self.message,
            "part": self.part,
            "facts": self.facts or {},
        }
