"""Watches a job with six planted faults, ends it by SIGTERM, resumes it, and judges what was found.

    python scenarios/watch/run.py [--minutes MINUTES] [FOLDER]

Prints one line per fault and the account of time beside a stopwatch, and writes `result.json`. Ends with status 1 if a
fault was missed. Without MINUTES it takes two minutes, on a busy machine eight. Needs the `xla` extra.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from plan import Plan, plan

from tpuprof.goodput.jobs import as_dict, goodput_of
from tpuprof.ledger.reader import Ledger, read_folder
from tpuprof.watch.analysis import read_verdict

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Kind and part of what is to be found.
EXPECTED = {
    "recompile": ("recompile", "compile"),
    "stall": ("input_stall", "input_wait"),
    "slow storage": ("slow_save", "checkpoint_save"),
    "leak": ("memory_growth", "host"),
    "hang": ("hang", ""),
}


def start(folder: Path, minutes: float) -> subprocess.Popen[bytes]:
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
    return subprocess.Popen([*command, str(HERE / "train.py"), str(folder), str(minutes)], env=environment)


def steps_of(folder: Path) -> tuple[int, int]:
    """Steps and process id of the newest attempt; (0, 0) before it has any."""
    if not (folder / "runs" / "ledgers").is_dir():
        return 0, 0
    ledger = read_folder(folder / "runs")[-1]
    return ledger.steps, int(ledger.meta.get("pid", 0))


def preempt(folder: Path, process: subprocess.Popen[bytes], at: int) -> None:
    """Send SIGTERM to the trainer when it has made so many steps."""
    while process.poll() is None:
        time.sleep(3)
        steps, trainer = steps_of(folder)
        if steps >= at:
            os.kill(trainer, signal.SIGTERM)
            break
    process.wait()


def found_of(folder: Path, ledgers: list[Ledger], planned: Plan) -> dict[str, dict[str, Any]]:
    """The first anomaly of each expected kind, and whether its name, part and step are right."""
    events = [each for ledger in ledgers for each in ledger.events if each["kind"] == "anomaly"]
    verdicts = [read_verdict(each) for each in sorted((folder / "runs" / "captures").glob("*"))]
    result: dict[str, dict[str, Any]] = {}
    for fault, (kind, part) in EXPECTED.items():
        late = 900 if fault == "leak" else 5
        mine = [
            e
            for e in events
            if e["what"] == kind and planned.faults[fault] - 3 <= e["step"] <= planned.faults[fault] + late
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


def main() -> int:
    """Run, judge, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--minutes", type=float, default=0.0)
    options = parser.parse_args()
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="tpuprof-watch-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    planned = plan(options.minutes)
    preempt(folder, start(folder, options.minutes), planned.preemption)
    time.sleep(8)
    start(folder, options.minutes).wait()
    ledgers = read_folder(folder / "runs")
    result = found_of(folder, ledgers, planned)
    result["hang"]["at"] = [
        each.get("at", "") for ledger in ledgers for each in ledger.events if each["kind"] == "stacks"
    ]
    (job,) = as_dict(goodput_of(folder / "runs"))["jobs"]
    result["preemption and resume"] = {
        "found": [each["ended"] for each in job["attempts"]] == ["signal SIGTERM", "exit"]
        and 0 < job["wasted_steps"] < 100,
        "wasted_steps": job["wasted_steps"],
        "idle_seconds": job["seconds"]["infrastructure_recovery_from_disruption"],
    }
    result["goodput"] = account_of(folder, job)
    (folder / "result.json").write_text(json.dumps(result, indent=1))
    for name, facts in result.items():
        print(f"{name:24} {json.dumps(facts)}")
    return int(not all(facts.get("found", True) for facts in result.values()))


def account_of(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """The account of the job's time beside a stopwatch that the trainer ran itself."""
    watch = [json.loads(line) for line in (folder / "stopwatch.jsonl").read_text().splitlines()]
    stopwatch = watch[-1]["at"] - (watch[0]["at"] - watch[0]["age"])
    return {
        "goodput": job["goodput"],
        "steps": job["last_step"] or job["kept_steps"],
        "wall_seconds": job["wall_seconds"],
        "sum_seconds": sum(job["seconds"].values()),
        "stopwatch_seconds": stopwatch,
        "off_share": abs(job["wall_seconds"] - stopwatch) / stopwatch,
        "seconds": job["seconds"],
    }


if __name__ == "__main__":
    sys.exit(main())
