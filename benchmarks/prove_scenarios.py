"""Proves each scenario's fix with `tpuprof prove`, and five pairs that change nothing.

    python benchmarks/prove_scenarios.py [NAME ...] [--budget 30m]

A scenario's fix must be confirmed. A pair of the same program must be refuted or undecided. Proofs are kept below
artifacts/prove/. Exit status: 0 if all is so, 1 if not.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS, RESULTS = ROOT / "scenarios", ROOT / "artifacts" / "prove"
# Cured scripts that are proved against themselves, from different causes.
NOTHING_CHANGED = ("host_sync", "graph_cuts", "input_starved", "fallback", "debug_flags")


def main() -> int:
    """Prove what is asked, print one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--budget", default="30m")
    parser.add_argument("--no-capture", action="store_true")
    options = parser.parse_args()
    more = ["--budget", options.budget, *(["--no-capture"] if options.no_capture else [])]
    good = True
    for name, rule, measure in _scenarios(options.names):
        found = prove(name, rule, "faulty", "cured", [*more, "--measure", measure])
        good &= found["outcome"] == "confirmed"
        print(f"{name}: {found['sentence']}", flush=True)
    for name in NOTHING_CHANGED if not options.names else ():
        found = prove(f"{name}_unchanged", "", "cured", "cured", [*more, "--no-capture"], of=name)
        good &= found["outcome"] in ("refuted", "undecided")
        print(f"{name}, nothing changed: {found['sentence']}", flush=True)
    return 0 if good else 1


def prove(name: str, rule: str, before: str, after: str, options: list[str], of: str = "") -> dict[str, str]:
    """The proof of one pair of a scenario's scripts."""
    folder, run = SCENARIOS / (of or name), RESULTS / name
    for old in (run, run.with_name(f"{name}-after")):
        shutil.rmtree(old, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "tpuprof",
        "prove",
        *([rule] if rule else []),
        *options,
        "-o",
        str(run),
        "--json",
    ]
    command += [
        "--before",
        f"{sys.executable} {folder / before}.py",
        "--after",
        f"{sys.executable} {folder / after}.py",
    ]
    done = subprocess.run(
        command, cwd=SCENARIOS, env=_environment(), stdout=subprocess.PIPE, text=True, check=False
    )
    return dict(json.loads(done.stdout)) if done.stdout else {"outcome": "failed", "sentence": "it failed"}


def _scenarios(names: list[str]) -> list[tuple[str, str, str]]:
    """(name, rule, measure) of the scenarios that have a fix whose saving shows on this device."""
    found = []
    for path in sorted(SCENARIOS.glob("*/scenario.toml")):
        plan = tomllib.loads(path.read_text("utf-8"))
        wanted = path.parent.name in names if names else plan["rule"] and not plan.get("unmeasured")
        if wanted:
            measure = "total" if plan.get("measure") == "start" else "step"
            found.append((path.parent.name, plan["rule"], measure))
    return found


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": f"{SCENARIOS}{os.pathsep}{ROOT}"}


if __name__ == "__main__":
    sys.exit(main())
