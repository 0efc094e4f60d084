"""Runs the scenarios: whether the planted fault is found first, the cured run is free of it, and the price right.

    python scenarios/run.py [NAME ...] [--pairs N] [--again] [--captures-only]

For each scenario the faulty and the cured script are captured and analyzed; then both are run in turn, `--pairs` times,
without any capture, and the difference of their own clocks is what the cure saves. Results are kept, one file a
scenario, so that a broken-off run goes on where it stopped; `--again` measures again. At the end a page per framework,
docs/scenarios*.md, is written where all scenarios of that framework are measured. A prediction is compared as a share
of the step, or of the start, of the very run that was captured: it and the runs without a capture are minutes apart,
other work may have the CPUs meanwhile, and steps take longer while they are captured. For the same reason the faulty
script is captured `--captures` times, in turn with the pairs, and the middle prediction counts. Scenarios of a
framework that cannot run here are skipped, and a line says so. Exit status: 0 if all that was asked holds, 1 if not,
also where no saving was measured well enough to judge a prediction by (`--captures-only` asks for the findings alone).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import places
from page import share_of, write_page

ROOT = HERE.parent
RESULTS = ROOT / "artifacts" / "scenarios"
TIMEOUT_SECONDS = 600
# What is shown of a script that failed (characters of its stderr's end).
ERROR_SHOWN = 1500
# Captured steps a prediction is made from, where scenario.toml asks for no other number.
CAPTURE_STEPS = 24
# 97.5 % quantiles of Student's t, by degrees of freedom: for 95 % confidence intervals of few pairs.
T_QUANTILES = {2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
# A saving counts as known when its interval is at most this share of it to either side.
KNOWN_WITHIN = 0.20
MEDIAN_ERROR_AT_MOST = 0.15
FACTOR_AT_MOST = 2.0


@dataclass
class Result:
    """What came out of one scenario; savings in ms per step, or in ms a start where `measure` is start."""

    name: str
    rule: str
    measure: str
    first: str = ""
    predicted: tuple[float, float] | None = None
    # Mean step, or start, of the capture that the prediction is of (ms).
    captured_ms: float | None = None
    # The same of each capture: low and high (ms), and the step or start that they are of (ms).
    predictions: list[list[float]] = field(default_factory=list)
    # Share of the time in which the captured scripts' threads could run that they waited for a CPU, by capture.
    cpu_wait: list[float] = field(default_factory=list)
    cured_failed: list[str] = field(default_factory=list)
    # Rules that are true of the cured script as well, and why: its scenario.toml says so.
    also: dict[str, str] = field(default_factory=dict)
    # Why the cure shows no saving on this device, from scenario.toml; such a pair is captured, and not timed.
    unmeasured: str = ""
    faulty: list[float] = field(default_factory=list)
    cured: list[float] = field(default_factory=list)
    machine: str = ""
    # The line that the finding names, and the line it must name (`faulty.py:18`), where scenario.toml asks for one.
    source: str = ""
    line: str = ""

    @property
    def saving(self) -> tuple[float, float] | None:
        """Mean saving of the pairs, as a share of the faulty script's step or start, and half of its 95 % interval.

        None before three pairs.
        """
        shares = [(bad - good) / bad for bad, good in zip(self.faulty, self.cured, strict=True)]
        if len(shares) < 3:
            return None
        half = T_QUANTILES[min(len(shares) - 1, 9)] * statistics.stdev(shares) / math.sqrt(len(shares))
        return statistics.fmean(shares), half

    @property
    def predicted_share(self) -> tuple[float, float] | None:
        """The prediction as a share of the step or start that it was made from, the median of all captures."""
        shares = [(low / whole, high / whole) for low, high, whole in self.predictions if whole]
        if not shares:
            return None
        return statistics.median(low for low, _ in shares), statistics.median(high for _, high in shares)

    @property
    def whole(self) -> bool:
        """Whether all was measured that the scenario asks for."""
        return not self.rule or bool(self.unmeasured) or self.saving is not None

    @property
    def known(self) -> bool:
        """Whether the measured saving is known well enough to compare a prediction with."""
        if self.unmeasured or self.saving is None:
            return False
        mean, half = self.saving
        return mean > 0 and half <= KNOWN_WITHIN * mean

    @property
    def error(self) -> float | None:
        """How far the middle of the predicted range is off, as a share of the measured saving."""
        if self.predicted_share is None or self.saving is None or not self.saving[0]:
            return None
        return sum(self.predicted_share) / 2 / self.saving[0] - 1

    @property
    def found(self) -> bool:
        """Whether the planted fault is first, and nothing fails in the cured run but what is known to be true of it."""
        named = not self.line or self.source.endswith(f"/{self.line}")
        return self.first == self.rule and named and set(self.cured_failed) <= set(self.also)


def main() -> int:
    """Run what is asked for; returns the exit status."""
    options = _options()
    names = options.names or [name for place in places.PLACES for name in place.names()]
    results = []
    for name in names:
        try:
            places.environment(places.place_of(name))
        except places.AbsentError as absent:
            print(f"{name:22} skipped: {absent}", flush=True)
            continue
        try:
            result = _measured(name, options)
        except subprocess.CalledProcessError as failed:
            # The scenarios after it still run; this one counts as not found.
            print(
                f"{name:22} FAILED with {failed.returncode}: {str(failed.stderr)[-ERROR_SHOWN:]}", flush=True
            )
            result = Result(name, _plan(name)["rule"], "step", cured_failed=["the script failed"])
        else:
            print(line(result), flush=True)
        results.append(result)
    for place in places.PLACES:
        _write_page(place)
    priced = [result for result in results if result.rule]
    if options.captures_only or not priced:
        return 0 if all(result.found for result in results) else 1
    if not any(result.known for result in priced):
        print(
            "no saving was measured well enough to judge a prediction by: run on a quiet machine", flush=True
        )
    return 0 if all(result.found for result in results) and accepted(priced) else 1


def _write_page(place: places.Place) -> None:
    """Write a framework's page where all its scenarios are measured; a page of some would replace a whole one."""
    kept = {name: _load(name) for name in place.names()}
    lacking = [name for name, found in kept.items() if found is None or not found.whole]
    if not lacking:
        write_page(place, [found for found in kept.values() if found], KNOWN_WITHIN)
    elif any(kept.values()):
        print(f"the page on {place.title} stays as it is: {', '.join(lacking)} not measured yet", flush=True)


def _measured(name: str, options: argparse.Namespace) -> Result:
    result = _load(name) if not options.again else None
    result = result or capture(name)
    _save(result)
    timed = result.rule and not result.unmeasured and not options.captures_only
    while timed and len(result.faulty) < options.pairs:
        time_pair(result)
        _save(result)
        if len(result.predictions) < options.captures:
            with tempfile.TemporaryDirectory() as scratch:
                _predict(result, _captured(name, "faulty", _plan(name), Path(scratch)))
            _save(result)
    return result


def capture(name: str) -> Result:
    """Capture and analyze both scripts."""
    plan = _plan(name)
    result = Result(name, plan["rule"], plan.get("measure", "step"), machine=machine())
    _take_over(result, plan)
    with tempfile.TemporaryDirectory() as scratch:
        if (HERE / name / "faulty.py").is_file():
            captured = _captured(name, "faulty", plan, Path(scratch))
            findings = captured.failed
            result.first = findings[0]["rule"] if findings else ""
            sources = [row["source"] for row in findings[0]["evidence"] if row["source"]] if findings else []
            result.source = sources[0] if sources else ""
            _predict(result, captured)
        if result.measure == "start":
            # The first start fills the cache: it is the second that is cured.
            _time(name, "cured")
        result.cured_failed = [each["rule"] for each in _captured(name, "cured", plan, Path(scratch)).failed]
    return result


def _predict(result: Result, captured: Captured) -> None:
    """Note what a capture of the faulty script predicts; nothing where it does not price the fault."""
    if captured.cpu_wait is not None:
        result.cpu_wait.append(captured.cpu_wait)
    savings = next((each["savings"] for each in captured.failed if each["rule"] == result.rule), None)
    whole = captured.mean_ms if result.measure == "step" else captured.start_ms
    if not savings or not whole:
        return
    start = result.measure == "start" and savings["start_low_s"] is not None
    low, high = (savings["start_low_s"] * 1e3, savings["start_high_s"] * 1e3) if start else (
        savings["low"], savings["high"])  # fmt: skip
    result.predictions.append([low, high, whole])
    if result.predicted is None:
        result.predicted, result.captured_ms = (low, high), whole


def time_pair(result: Result) -> None:
    """Run the faulty and the cured script once each, without any capture."""
    bad, good = _time(result.name, "faulty"), _time(result.name, "cured")
    key, scale = ("step_ms", 1.0) if result.measure == "step" else ("start_s", 1e3)
    result.faulty.append(bad[key] * scale)
    result.cured.append(good[key] * scale)


@dataclass
class Captured:
    """A capture: failed findings in order, mean step and start (ms), and how long its threads waited for a CPU."""

    failed: list[dict[str, Any]]
    mean_ms: float | None
    start_ms: float | None
    cpu_wait: float | None


def _captured(name: str, kind: str, plan: dict[str, Any], scratch: Path) -> Captured:
    """Capture a script and analyze it."""
    run = scratch / kind
    command = [
        sys.executable,
        "-m",
        "tpuprof",
        "capture",
        "-o",
        str(run),
        "--warmup",
        str(plan.get("warmup", 3)),
    ]
    command += [
        "--steps",
        str(plan.get("capture_steps", CAPTURE_STEPS)),
        "--patience",
        str(plan.get("patience", 20)),
        *plan.get("capture_options", []),
    ]
    place = places.place_of(name)
    environment = places.environment(place)
    if plan.get("torch_trace"):
        (scratch / "trace").mkdir(exist_ok=True)
        environment["TORCH_TRACE"] = str(scratch / "trace")
    script = subprocess.run(
        [*command, "--", str(place.python()), str(HERE / name / f"{kind}.py")],
        check=True, timeout=TIMEOUT_SECONDS, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "analyze", str(run), "--json"],
        check=True, timeout=TIMEOUT_SECONDS, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    keep = os.environ.get("SCENARIO_KEEP")
    if keep:
        (Path(keep) / f"{name}.{kind}").mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", f"{run}/.", str(Path(keep) / f"{name}.{kind}")], check=True)
    report = json.loads(done.stdout)
    failed = [each for each in report["findings"] if each["status"] == "failed"]
    start_s = _facts(script.stdout).get("start_s")
    return Captured(
        failed,
        report["run_summary"]["mean_step_ms"],
        start_s * 1e3 if start_s is not None else None,
        report["environment"]["run"].get("capture", {}).get("cpu_wait_share"),
    )


def _time(name: str, kind: str) -> dict[str, float]:
    place = places.place_of(name)
    done = subprocess.run(
        [str(place.python()), str(HERE / name / f"{kind}.py")],
        check=True, timeout=TIMEOUT_SECONDS, env=places.environment(place), capture_output=True, text=True,
    )  # fmt: skip
    return _facts(done.stdout)


def _facts(printed: str) -> dict[str, float]:
    """What a script printed of itself; nothing where it printed none."""
    told = [row for row in printed.splitlines() if row.startswith("SCENARIO ")]
    facts: dict[str, float] = json.loads(told[-1].removeprefix("SCENARIO ")) if told else {}
    return facts


def _plan(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / name / "scenario.toml").read_text("utf-8"))


def _load(name: str) -> Result | None:
    path = _kept(name)
    if not path.is_file():
        return None
    result = Result(**json.loads(path.read_text("utf-8")))
    if result.predicted and result.captured_ms and not result.predictions:
        # Kept before several captures were made.
        result.predictions = [[*result.predicted, result.captured_ms]]
    _take_over(result, _plan(name))
    return result


def _kept(name: str) -> Path:
    return RESULTS / f"{name}.json"


def _take_over(result: Result, plan: dict[str, Any]) -> None:
    """What scenario.toml declares holds now, whenever the result was measured."""
    result.also, result.unmeasured = plan.get("also", {}), plan.get("unmeasured", "")
    result.line = plan.get("line", "")


def _save(result: Result) -> None:
    path = _kept(result.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(result), indent=1), "utf-8")


def machine() -> str:
    """Processor, number of cores, and system."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            row.partition(":")[2].strip() for row in info.read_text().splitlines() if "model name" in row
        ]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, {platform.system()}"


def accepted(results: list[Result]) -> bool:
    """Whether the predictions are near enough where the measured saving is known; no where none is."""
    known = [result for result in results if result.known]
    errors = [result.error for result in known if result.error is not None]
    # A finding that was not priced predicts nothing: that is a miss, not a pass.
    if not known or len(errors) < len(known):
        return False
    far = [error for error in errors if not 1 / FACTOR_AT_MOST <= 1 + error <= FACTOR_AT_MOST]
    return statistics.median(map(abs, errors)) <= MEDIAN_ERROR_AT_MOST and not far


def line(result: Result) -> str:
    """A scenario's result as one line."""
    verdict = (
        "ok"
        if result.found
        else f"WRONG: first {result.first or 'nothing'} at {result.source or 'no line'}, cured {result.cured_failed}"
    )
    return f"{result.name:22} {verdict:8} {_numbers(result)}"


def _numbers(result: Result) -> str:
    if not result.predicted or not result.predicted_share or not result.saving:
        return ""
    mean, half = result.saving
    off = f"{result.error:+.0%}" if result.error is not None else ""
    note = "" if result.known else " (measured too loosely to compare)"
    return (
        f"predicted {share_of(result.predicted_share)}, measured {mean:.0%} ± {half:.0%}, off by {off}{note}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="scenarios to run; all by default")
    parser.add_argument("--pairs", type=int, default=5, help="times each pair is run without a capture")
    parser.add_argument("--captures", type=int, default=3, help="times the faulty script is captured")
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    parser.add_argument("--captures-only", action="store_true", help="capture and analyze, time nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
