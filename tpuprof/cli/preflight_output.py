"""What `tpuprof preflight` leaves behind: predicted runs, text or JSON, an exit status."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tpuprof.run_folder import PREFLIGHT_SCHEMA

if TYPE_CHECKING:
    from tpuprof.preflight.money import Cost, Work
    from tpuprof.preflight.run import Outcome
    from tpuprof.preflight.script import ScriptRun
    from tpuprof.preflight.search.engine import Found


def say(text: str) -> None:
    """A message, beside the answer."""
    typer.echo(f"tpuprof: {text}", err=True)


def exit_status(outcomes: list[Outcome], swept: bool) -> int:
    """1 where a program does not fit, 2 where it cannot be compiled, 3 after a crash, 4 without a verdict.

    In a sweep a value that does not fit is an answer: then 0 where some value fits each target.
    """
    by_target: dict[str, list[int]] = {}
    for outcome in outcomes:
        for each in outcome.iterations():
            by_target.setdefault(each.target, []).append(each.exit_status)
    if swept:
        return max((min(each) for each in by_target.values()), default=4)
    found = {status for each in by_target.values() for status in each}
    return next((status for status in (3, 2, 1, 4) if status in found), 0)


def write_runs(outcomes: list[Outcome], out: Path) -> list[str]:
    """Write a run folder for each steady prediction with a program.

    OUT/TARGET, or OUT/VARIANT/TARGET where there are several variants.
    """
    import re

    from tpuprof.preflight.run_writer import write_run

    written = []
    for outcome in outcomes:
        folder = out if len(outcomes) == 1 else out / re.sub(r"[^\w.=+-]+", "_", outcome.variant.label)
        for found in outcome.steady():
            if found.schedule is not None:
                run = outcome.variant.run
                command = [run.script, *run.arguments]
                name = found.compiled.target.name.replace(":", "-")
                written.append(str(write_run(folder / name, found, outcome.trace_of(found), command)))
    return written


def print_outcomes(
    outcomes: list[Outcome],
    folders: list[str],
    as_json: bool,
    swept: bool,
    money: tuple[dict[str, float], Work] | None,
) -> None:
    """Print what came of each variant; `money` is prices by chip and what a step trains, where asked for."""
    from tpuprof.preflight.money import cost_notes, costs

    rows = costs(outcomes, *money) if money else []
    notes = cost_notes(rows, money[0]) if money else []
    if as_json:
        _print_json(_report(outcomes, folders, swept, (rows, notes) if money else None))
        return
    _print_tables(outcomes, swept, (rows, notes) if money else None)
    for folder in folders:
        say(f"predicted run written to {folder}")


def _report(
    outcomes: list[Outcome], folders: list[str], swept: bool, money: tuple[list[Cost], list[str]] | None
) -> dict[str, Any]:
    from tpuprof.preflight.money import cost_dicts
    from tpuprof.preflight.render import largest_fitting, sweep_notes
    from tpuprof.preflight.run import outcome_dict

    report: dict[str, Any] = {
        "schema": PREFLIGHT_SCHEMA,
        "variants": [outcome_dict(each) for each in outcomes],
        "runs": folders,
    }
    if money:
        report["costs"], report["cost_notes"] = cost_dicts(money[0]), money[1]
    if swept:
        report["largest_fitting"] = largest_fitting(outcomes)
        report["sweep_notes"] = sweep_notes(outcomes)
    return report


def _print_tables(outcomes: list[Outcome], swept: bool, money: tuple[list[Cost], list[str]] | None) -> None:
    from tpuprof.cli.terminal import console
    from tpuprof.preflight.render import render, render_comparison, render_costs, render_sweep

    screen = console()
    if swept:
        render_sweep(outcomes, screen)
    else:
        for outcome in outcomes:
            render(outcome, screen)
        if len(outcomes) > 1:
            screen.print()
            render_comparison(outcomes, screen)
    if money:
        render_costs(*money, screen)


def print_search(found: list[Found], run: ScriptRun, folders: list[str], as_json: bool) -> None:
    """Print what a search found on each slice."""
    from tpuprof.cli.terminal import console
    from tpuprof.preflight.run import outcome_dict
    from tpuprof.preflight.search.command import outcomes_of
    from tpuprof.preflight.search.render import render_search, search_dict

    if as_json:
        searches = [search_dict(each, run) for each in found]
        variants = [outcome_dict(each) for each in outcomes_of(found)]
        _print_json({"schema": PREFLIGHT_SCHEMA, "searches": searches, "variants": variants, "runs": folders})
        return
    for each in found:
        render_search(each, run, console())
    for folder in folders:
        say(f"predicted run written to {folder}")


def _print_json(report: dict[str, Any]) -> None:
    import json

    typer.echo(json.dumps(report, indent=1, allow_nan=False))
