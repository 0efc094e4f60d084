"""`tpuprof prove`: runs a program before and after a fix in turn, and says whether the fix saves time."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from tpuprof.prove.experiment import Plan
    from tpuprof.prove.timing import Reading
    from tpuprof.report.schema import Finding

EXIT_REFUTED, EXIT_UNDECIDED = 1, 4


def prove(
    rule: Annotated[
        str | None, typer.Argument(help="The finding that the fix is of: a rule's id.", show_default=False)
    ] = None,
    before: Annotated[str, typer.Option(help="The command before the fix, quoted.", show_default=False)] = "",
    after: Annotated[str, typer.Option(help="The command after the fix, quoted.", show_default=False)] = "",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Run folder of the program before the fix; captured if new.")
    ] = Path("runs/prove"),
    budget: Annotated[str, typer.Option(help="Time for all runs, as 10m or 600s.")] = "10m",
    blocks: Annotated[int, typer.Option(min=2, help="Blocks of four runs at most.")] = 8,
    warmup: Annotated[int, typer.Option(min=0, help="Steps of each run that are not timed.")] = 4,
    metric: Annotated[
        str,
        typer.Option(help="Pattern of the output whose first group is the time in ms.", show_default=False),
    ] = "",
    measure: Annotated[str, typer.Option(help="step, or total for runs from start to end.")] = "step",
    loss: Annotated[
        str, typer.Option(help="Pattern of the output whose first group is the loss.", show_default=False)
    ] = "",
    tolerance: Annotated[float, typer.Option(min=0.0, help="Share by which losses may differ.")] = 0.01,
    capture: Annotated[
        bool, typer.Option("--capture/--no-capture", help="Capture before and after as well.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the proof as JSON.")] = False,
) -> None:
    """Run a program before and after a fix in turn until the saving is known, and keep the answer with the run.

    Status 0 if the saving is confirmed, 1 if it is refuted, 4 if that cannot be decided.
    """
    from tpuprof.cli.capture import parse_duration
    from tpuprof.prove.experiment import Plan
    from tpuprof.prove.timing import Reading

    if not before or not after:
        raise TpuprofError(
            Code.USAGE, "prove needs two commands.", 'Write --before "python a.py" --after "python b.py".'
        )
    if measure not in ("step", "total"):
        raise TpuprofError(Code.USAGE, f"--measure {measure}: unknown.", "Use step or total.")
    commands = shlex.split(before), shlex.split(after)
    plan = Plan(blocks=blocks, budget_s=parse_duration(budget), tolerance=tolerance)
    reading = Reading(metric=metric, loss=loss, warmup=warmup, measure=measure)
    proof = _prove(rule or "", commands, out, plan, reading, capture=capture)
    if as_json:
        import json

        typer.echo(json.dumps(proof, indent=1, allow_nan=False))
    else:
        typer.echo(proof["sentence"])
    if proof["outcome"] != "confirmed":
        raise typer.Exit(EXIT_REFUTED if proof["outcome"] == "refuted" else EXIT_UNDECIDED)


def _prove(
    rule: str,
    commands: tuple[list[str], list[str]],
    out: Path,
    plan: Plan,
    reading: Reading,
    *,
    capture: bool,
) -> dict[str, Any]:
    from functools import partial

    from tpuprof.prove.experiment import experiment
    from tpuprof.prove.proof import proof_of, write_proof
    from tpuprof.prove.timing import timed

    if rule:
        from tpuprof.rules.registry import find_rule

        find_rule(rule)
    finding = _finding(commands[0], out, rule, capture=capture)
    predicted, per = None, ""
    if finding is not None and finding.savings is not None:
        predicted, per = (finding.savings.low, finding.savings.high), finding.savings.per
    rule = rule or (finding.rule if finding else "")
    tried = experiment(*commands, partial(_timed, timed, reading), plan, say=_say)
    later = _finding(commands[1], out.with_name(out.name + "-after"), rule, capture=capture) if rule else None
    # A saving of each start, or of the whole capture, is not one of each step.
    compared = predicted if per == "step" and reading.measure == "step" and not _whole(tried) else None
    proof = proof_of(
        tried, rule, commands, compared, predicted_per=per, finding_after=later.status if later else ""
    )
    typer.echo(f"tpuprof: kept in {write_proof(out, proof)}", err=True)
    return proof


def _timed(timed: Any, reading: Reading, command: list[str], seconds: float) -> Any:
    return timed(command, seconds, reading)


def _whole(tried: Any) -> bool:
    from tpuprof.prove.timing import BY_CLOCK

    return any(each.read_from == BY_CLOCK for each in tried.before)


def _finding(command: list[str], run: Path, rule: str, *, capture: bool) -> Finding | None:
    """What a rule says of a run, or its first finding; the run is captured where it has no profile yet."""
    from tpuprof.cli.opening import open_report
    from tpuprof.render.content import failed_findings

    if not (run / "plugins").is_dir():
        if not capture:
            return None
        words = [sys.executable, "-m", "tpuprof", "capture", "-o", str(run), "--", *command]
        done = subprocess.run(
            words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        if done.returncode or not (run / "plugins").is_dir():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            typer.echo(f"tpuprof: not captured, so nothing is predicted: {last}", err=True)
            return None
    report = open_report(run)
    if rule:
        return next((each for each in report.findings if each.rule == rule), None)
    return next(iter(failed_findings(report)), None)


def _say(text: str) -> None:
    typer.echo(f"tpuprof: {text}", err=True)
