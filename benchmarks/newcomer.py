"""A newcomer's way from a first capture to a proved fix, on eight scenarios, each in five minutes at most.

    python benchmarks/newcomer.py [NAME ...] [--work FOLDER] [--minutes 5]

Commands are those that the quick start names: `tpuprof capture` of the faulty script; `tpuprof analyze`, whose first
finding must be the scenario's; the dashboard in Chromium, from its first screen to the finding's fix; `tpuprof prove`
with the cured script, in what is left of the time; and the dashboard again, which must show the proof beside the
finding. The time of all of it counts, the scripts' own included. Exit status: 0 if all were proved in time, 1 if not.
Needs the `dashboard` extra, Playwright and Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dashboard_responses import opened, served
from playwright.sync_api import Page, Playwright, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ROOT / "scenarios"
# Scenarios whose fix saves time in every step and shows on PJRT_DEVICE=CPU, of different causes.
NAMES = (
    "host_sync",
    "input_starved",
    "fallback",
    "graph_cuts",
    "slow_transform",
    "debug_flags",
    "nan_check",
    "recompiles_shape",
)
# Least time left for a proof that can decide anything (s), and what is kept for what comes after its budget (s): its
# last runs end, both scripts are captured once, and the dashboard is opened again.
LEAST_PROOF_S, LAST_LOOK_S = 30, 75


class Stuck(Exception):  # noqa: N818  # it is an outcome, not an error
    """A newcomer does not get on: its text says where."""


def main() -> int:
    """Go the whole way for each scenario; print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--work", type=Path, default=ROOT / "artifacts" / "newcomer")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options = parser.parse_args()
    good = True
    with sync_playwright() as playwright:
        for name in options.names or NAMES:
            began = time.monotonic()
            try:
                said = walk(
                    name, options.work / name, began + 60 * options.minutes, playwright, options.chromium
                )
            except (Stuck, subprocess.TimeoutExpired) as stuck:
                said, good = f"STUCK: {stuck}", False
            took = time.monotonic() - began
            good &= took <= 60 * options.minutes
            print(f"{name}: {took:.0f} s. {said}", flush=True)
    return 0 if good else 1


def walk(name: str, run: Path, until: float, playwright: Playwright, chromium: str) -> str:
    """From capture to proof; what the proof says. Raises `Stuck`, and `subprocess.TimeoutExpired` past the time."""
    shutil.rmtree(run, ignore_errors=True)
    rule = tomllib.loads((SCENARIOS / name / "scenario.toml").read_text("utf-8"))["rule"]
    before, after = (f"{sys.executable} {SCENARIOS / name / each}.py" for each in ("faulty", "cured"))
    tpuprof(["capture", "-o", str(run), "--", *before.split()], until)
    report = json.loads(tpuprof(["analyze", "--json", str(run)], until))
    failed = [each for each in report["findings"] if each["status"] == "failed"]
    if not failed or failed[0]["rule"] != rule:
        raise Stuck(f"the first finding is {failed[0]['rule'] if failed else 'none'}, not {rule}")
    title = failed[0]["title"]
    with looking(run, playwright, chromium) as (page, address):
        _find_the_fix(page, address, title)
    left = until - time.monotonic() - LAST_LOOK_S
    if left < LEAST_PROOF_S:
        raise Stuck(f"{left:.0f} s are left for the proof")
    pair = ["--before", before, "--after", after, "--budget", f"{left:.0f}s"]
    proof = json.loads(tpuprof(["prove", rule, *pair, "-o", str(run), "--json"], until, (0, 1, 4)))
    if proof["outcome"] != "confirmed":
        raise Stuck(f"{proof['outcome']}: {proof['sentence']}")
    with looking(run, playwright, chromium) as (page, address):
        page.goto(f"{address}?page=findings&open={rule}")
        page.get_by_text(proof["sentence"]).first.wait_for()
    return str(proof["sentence"])


def _find_the_fix(page: Page, address: str, title: str) -> None:
    """On the first screen, open what it says to try first, down to its fix."""
    page.goto(address)
    page.wait_for_selector("#verdict")
    page.get_by_role("button", name=title).first.click()
    page.get_by_role("heading", name="Fix", exact=True).first.wait_for()


@contextmanager
def looking(run: Path, playwright: Playwright, chromium: str) -> Iterator[tuple[Page, str]]:
    """The dashboard on a run, in a browser that was just started."""
    with served(run) as (address, _), opened(playwright, chromium) as page:
        yield page, address


def tpuprof(words: list[str], until: float, fine: tuple[int, ...] = (0,)) -> str:
    """What a command prints. Raises `Stuck` where it fails, `subprocess.TimeoutExpired` past the time."""
    done: Any = subprocess.run(
        [sys.executable, "-m", "tpuprof", *words],
        cwd=SCENARIOS,
        env={**os.environ, "PYTHONPATH": f"{SCENARIOS}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=max(until - time.monotonic(), 1),
    )
    if done.returncode not in fine:
        raise Stuck(f"tpuprof {words[0]} ends with {done.returncode}: {done.stderr.strip()[-300:]}")
    return str(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
