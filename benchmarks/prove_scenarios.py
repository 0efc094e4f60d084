"""Proves each scenario's fix with `tpuprof prove`, and six "fixes" that change nothing.

    python benchmarks/prove_scenarios.py [NAME ...] [--budget 30m]
    python benchmarks/prove_scenarios.py host_sync_unchanged ...

A scenario's fix must be confirmed. NAME_unchanged is the faulty program before and after: its finding predicts a
saving, nothing was fixed, and that must be refuted. Proofs are kept below artifacts/prove/. Exit status: 0 if all is
so, 1 if not.
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
# Faulty scripts, of different causes, that are also proved against themselves: a fix that misses its cause.
UNCHANGED = "_unchanged"
NOTHING_CHANGED = ("host_sync", "graph_cuts", "input_starved", "fallback", "debug_flags", "recompiles_shape")


def main() -> int:
    """Prove what is asked, print one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--budget", default="30m")
    parser.add_argument("--no-capture", action="store_true")
    options = parser.parse_args()
    more = ["--budget", options.budget, *(["--no-capture"] if options.no_capture else [])]
    good = True
    scenarios = _scenarios()
    unchanged = {f"{name}{UNCHANGED}": scenarios[name] for name in NOTHING_CHANGED}
    for name in options.names or [*scenarios, *unchanged]:
        fixed = name in scenarios
        rule, measure = scenarios[name] if fixed else unchanged[name]
        found = prove(name, rule, "cured" if fixed else "faulty", [*more, "--measure", measure])
        good &= found["outcome"] == ("confirmed" if fixed else "refuted")
        print(f"{name}: {found['sentence']}", flush=True)
    return 0 if good else 1


def prove(name: str, rule: str, after: str, options: list[str]) -> dict[str, str]:
    """The proof of one pair of a scenario's scripts; before is the faulty one."""
    folder, run = SCENARIOS / name.removesuffix(UNCHANGED), RESULTS / name
    for old in (run, run.with_name(f"{name}-after")):
        shutil.rmtree(old, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "tpuprof",
        "prove",
        rule,
        *options,
        "-o",
        str(run),
        "--json",
    ]
    command += [
        "--before",
        f"{sys.executable} {folder / 'faulty'}.py",
        "--after",
        f"{sys.executable} {folder / after}.py",
    ]
    done = subprocess.run(
        command, cwd=SCENARIOS, env=_environment(), stdout=subprocess.PIPE, text=True, check=False
    )
    return dict(json.loads(done.stdout)) if done.stdout else {"outcome": "failed", "sentence": "it failed"}


def _scenarios() -> dict[str, tuple[str, str]]:
    """Rule and measure by name, of the scenarios that have a fix whose saving shows on this device."""
    found = {}
    for path in sorted(SCENARIOS.glob("*/scenario.toml")):
        plan = tomllib.loads(path.read_text("utf-8"))
        if plan["rule"] and not plan.get("unmeasured"):
            found[path.parent.name] = plan["rule"], "total" if plan.get("measure") == "start" else "step"
    return found


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": f"{SCENARIOS}{os.pathsep}{ROOT}"}


if __name__ == "__main__":
    sys.exit(main())
