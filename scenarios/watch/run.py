"""Watches a job with six planted faults, ends it by SIGTERM, resumes it, and judges what was found.

    python scenarios/watch/run.py [FOLDER]

Prints one line per fault and the account of time beside a stopwatch, and writes `result.json`. Needs the `xla` extra.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tpuprof.goodput.jobs import as_dict, goodput_of
from tpuprof.ledger.reader import Ledger, read_folder
from tpuprof.watch.analysis import read_verdict

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Step at which the job is preempted, and its last.
PREEMPT_AT, LAST_STEP = 1330, 1500
EXPECTED = {
    "recompile": ("recompile", "compile"),
    "stall": ("input_stall", "input_wait"),
    "slow storage": ("slow_save", "checkpoint_save"),
    "leak": ("memory_growth", "host"),
    "hang": ("hang", ""),
}


def start(folder: Path) -> subprocess.Popen[bytes]:
    """One attempt."""
    options = ["--job", "faults", "--captures-per-hour", "20", "--hang-seconds", "10"]
    command = [
        sys.executable,
        "-m",
        "tpuprof",
        "watch",
        "-o",
        str(folder / "runs"),
        *options,
        "--",
        sys.executable,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([*command, str(HERE / "train.py"), str(folder), str(LAST_STEP)], env=environment)


def steps_of(folder: Path) -> tuple[int, int]:
    """Steps and process id of the newest attempt; (0, 0) before it has any."""
    if not (folder / "runs" / "ledgers").is_dir():
        return 0, 0
    ledger = read_folder(folder / "runs")[-1]
    return ledger.steps, int(ledger.meta.get("pid", 0))


def preempt(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the trainer when it has come far enough."""
    while process.poll() is None:
        time.sleep(3)
        steps, trainer = steps_of(folder)
        if steps >= PREEMPT_AT:
            os.kill(trainer, signal.SIGTERM)
            break
    process.wait()


def found_of(folder: Path, ledgers: list[Ledger]) -> dict[str, dict[str, Any]]:
    """The first anomaly of each expected kind, and whether its name, part and step are right."""
    planted = {"recompile": 175, "stall": 300, "slow storage": 450, "leak": 520, "hang": 1280}
    events = [each for ledger in ledgers for each in ledger.events if each["kind"] == "anomaly"]
    verdicts = [read_verdict(each) for each in sorted((folder / "runs" / "captures").glob("*"))]
    result: dict[str, dict[str, Any]] = {}
    for fault, (kind, part) in EXPECTED.items():
        late = 900 if fault == "leak" else 5
        mine = [
            e
            for e in events
            if e["what"] == kind and planted[fault] - 3 <= e["step"] <= planted[fault] + late
        ]
        kept = [each for each in verdicts if mine and each.get("anomaly", {}).get("step") == mine[0]["step"]]
        result[fault] = {
            "found": bool(mine) and mine[0]["part"] == part,
            "first": mine[0]["message"] if mine else None,
            "kept": bool(kept),
            "capture": kept[0].get("capture") if kept else None,
        }
    others = [e for e in events if not any(e["message"] == each["first"] for each in result.values())]
    result["other reports"] = {"count": len(others), "messages": [each["message"] for each in others]}
    return result


def main() -> None:
    """Run, judge, print."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="tpuprof-watch-"))
    folder.mkdir(parents=True, exist_ok=True)
    first = start(folder)
    preempt(folder, first)
    time.sleep(8)
    start(folder).wait()
    ledgers = read_folder(folder / "runs")
    result: dict[str, Any] = found_of(folder, ledgers)
    stacks = [each.get("at", "") for ledger in ledgers for each in ledger.events if each["kind"] == "stacks"]
    result["hang"]["at"] = stacks
    (job,) = as_dict(goodput_of(folder / "runs"))["jobs"]
    watch = [json.loads(line) for line in (folder / "stopwatch.jsonl").read_text().splitlines()]
    stopwatch = watch[-1]["at"] - (watch[0]["at"] - watch[0]["age"])
    result["preemption and resume"] = {
        "found": [each["ended"] for each in job["attempts"]] == ["signal SIGTERM", "exit"]
        and 0 < job["wasted_steps"] < 100,
        "wasted_steps": job["wasted_steps"],
        "idle_seconds": job["seconds"]["infrastructure_recovery_from_disruption"],
    }
    result["goodput"] = {
        "goodput": job["goodput"],
        "wall_seconds": job["wall_seconds"],
        "sum_seconds": sum(job["seconds"].values()),
        "stopwatch_seconds": stopwatch,
        "off_share": abs(job["wall_seconds"] - stopwatch) / stopwatch,
        "seconds": job["seconds"],
    }
    (folder / "result.json").write_text(json.dumps(result, indent=1))
    for name, facts in result.items():
        print(f"{name:24} {json.dumps(facts)}")


if __name__ == "__main__":
    main()
