"""`tpuprof prove`: runs a program before and after a fix in turn, and says whether the fix saves time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuprof.cli.options import AsJson, parse_duration
from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from tpuprof.prove.experiment import Plan
    from tpuprof.prove.prediction import Prediction
    from tpuprof.prove.program import Program
    from tpuprof.prove.timing import Reading
    from tpuprof.report.schema import Finding

EXIT_REFUTED, EXIT_UNDECIDED = 1, 4

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RULE] [-- COMMAND]",
        help="The finding that the fix is of (a rule's id), and the training command: python train.py ARGS",
        show_default=False,
    ),
]
Before = Annotated[str, typer.Option(help="The command before the fix, quoted.", show_default=False)]
After = Annotated[str, typer.Option(help="The command after the fix, quoted.", show_default=False)]
Base = Annotated[
    str,
    typer.Option(help="Git commit before the fix, for a command after `--`.", show_default="the last commit"),
]
Out = Annotated[
    Path, typer.Option("--out", "-o", help="Run folder of the program before the fix; captured if new.")
]
Budget = Annotated[str, typer.Option(help="Time for all runs, as 10m or 600s.")]
Blocks = Annotated[int, typer.Option(min=2, help="Blocks of four runs at most.")]
Warmup = Annotated[int, typer.Option(min=0, help="Steps of each run that are not timed.")]
Metric = Annotated[
    str,
    typer.Option(help="Pattern of the output whose first group is the time in ms.", show_default=False),
]
Measure = Annotated[str, typer.Option(help="step, or total for runs from start to end.")]
Loss = Annotated[
    str, typer.Option(help="Pattern of the output whose first group is the loss.", show_default=False)
]
Tolerance = Annotated[float, typer.Option(min=0.0, help="Share by which losses may differ.")]
Capture = Annotated[bool, typer.Option("--capture/--no-capture", help="Capture before and after as well.")]


def prove(
    words: Words = None,
    before: Before = "",
    after: After = "",
    base: Base = "",
    out: Out = Path("runs/prove"),
    budget: Budget = "10m",
    blocks: Blocks = 8,
    warmup: Warmup = 4,
    metric: Metric = "",
    measure: Measure = "step",
    loss: Loss = "",
    tolerance: Tolerance = 0.01,
    capture: Capture = True,
    as_json: AsJson = False,
) -> None:
    """Run a program before and after a fix in turn until the saving is known, and keep the answer with the run.

    A command after `--` is run as the last commit has it and as the files are now, or beside --before or --after.
    Status 0 if the saving is confirmed, 1 if it is refuted, 4 if that cannot be decided.
    """
    from tpuprof.cli.opening import is_url
    from tpuprof.cli.process import unwind_on_signals
    from tpuprof.prove.experiment import Plan
    from tpuprof.prove.sides import two_programs
    from tpuprof.prove.timing import Reading

    rule, command = _rule_and_command(words or [])
    if is_url(out):
        raise TpuprofError(Code.USAGE, f"{out}: prove needs a folder on this machine.", "Copy the run first.")
    if measure not in ("step", "total"):
        raise TpuprofError(Code.USAGE, f"--measure {measure}: unknown.", "Use step or total.")
    plan = Plan(blocks=blocks, budget_s=parse_duration(budget), tolerance=tolerance)
    reading = Reading(metric=metric, loss=loss, warmup=warmup, measure=measure)
    unwind_on_signals()
    with two_programs(command, before, after, base, Path.cwd()) as (first, second, differs):
        if differs:
            _say(differs)
        elif first == second:
            _say("both programs are the same command, so what is measured is chance")
        proof = _prove(rule, (first, second), out, plan, reading, capture=capture)
    typer.echo(_json(proof) if as_json else proof["sentence"])
    if proof["outcome"] != "confirmed":
        raise typer.Exit(EXIT_REFUTED if proof["outcome"] == "refuted" else EXIT_UNDECIDED)


def _json(proof: dict[str, Any]) -> str:
    import json

    return json.dumps(proof, indent=1, allow_nan=False)


def _prove(
    rule: str,
    programs: tuple[Program, Program],
    out: Path,
    plan: Plan,
    reading: Reading,
    *,
    capture: bool,
) -> dict[str, Any]:
    from tpuprof.prove.experiment import compare_with, experiment
    from tpuprof.prove.proof import proof_of, write_proof
    from tpuprof.prove.timing import timed

    finding = _finding(programs[0], out, rule, capture=capture)
    rule = rule or (finding.rule if finding else "")
    tried = experiment(*programs, lambda program, seconds: timed(program, seconds, reading), plan, say=_say)
    later = _finding(programs[1], _after(out), rule, capture=True) if rule and capture else None
    predicted = _predicted(finding) if reading.measure == "step" and not _whole(tried) else None
    compare_with(tried, predicted)
    proof = proof_of(tried, rule, programs, predicted, finding_after=later.status if later else "")
    _say(f"kept in {write_proof(out, proof)}")
    return proof


def _rule_and_command(words: list[str]) -> tuple[str, list[str]]:
    """The rule (may be empty) and the command. Raises `TpuprofError` (`usage`) where the first word is neither."""
    from tpuprof.rules.registry import find_rule

    if not words:
        return "", []
    if shutil.which(words[0]):
        # Click takes the `--` out, and no program is called like a rule.
        return "", words
    return find_rule(words[0]).id, words[1:]


def _after(out: Path) -> Path:
    """A new folder beside the run: what an earlier proof captured was another program, even of the same command."""
    base = Path(os.path.abspath(out))
    place, number = base.with_name(f"{base.name}-after"), 1
    while place.exists():
        number += 1
        place = base.with_name(f"{base.name}-after-{number}")
    return place


def _predicted(finding: Finding | None) -> Prediction | None:
    """What it saves of each step: a saving of each start, or of the whole capture, is none of it."""
    from tpuprof.prove.prediction import Prediction

    savings = finding.savings if finding is not None else None
    if savings is None or savings.per != "step":
        return None
    # What is left at most is what the least saving leaves.
    step = savings.step_high_ms + savings.low if savings.step_high_ms is not None else None
    return Prediction(savings.low, savings.high, step)


def _whole(tried: Any) -> bool:
    from tpuprof.prove.timing import BY_CLOCK

    return any(each.read_from == BY_CLOCK for each in tried.before)


def _finding(program: Program, run: Path, rule: str, *, capture: bool) -> Finding | None:
    """What a rule says of a run, or its first finding; the run is captured where it has no profile yet."""
    from tpuprof.cli.opening import open_report
    from tpuprof.render.content import failed_findings
    from tpuprof.run_folder import PLUGINS

    if not (run / PLUGINS).is_dir():
        if not capture:
            return None
        status, messages = _captured(program, run)
        if status or not (run / PLUGINS).is_dir():
            last = (messages.strip().splitlines() or ["no message"])[-1]
            _say(f"not captured, so its findings are unknown: {last}")
            return None
    report = open_report(run)
    if rule:
        return next((each for each in report.findings if each.rule == rule), None)
    return next(iter(failed_findings(report)), None)


def _captured(program: Program, run: Path) -> tuple[int, str]:
    """Capture a program: the exit status of `tpuprof capture`, and its messages."""
    words = [sys.executable, "-m", "tpuprof", "capture", "-o", os.path.abspath(run), "--", *program.words]
    with subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        cwd=program.folder,
        env=program.environment,
    ) as process:
        try:
            messages = process.communicate()[1]
        except BaseException:
            # It passes the signal on to the program; killed, it would leave the program behind.
            process.terminate()
            raise
    return process.returncode, messages


def _say(text: str) -> None:
    typer.echo(f"tpuprof: {text}", err=True)
