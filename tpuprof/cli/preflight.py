"""`tpuprof preflight`: the real TPU compiler's word on a training script, before the TPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tpuprof.preflight.compiler import CompileOptions
    from tpuprof.preflight.money import Work
    from tpuprof.preflight.run import Outcome, Variant
    from tpuprof.preflight.targets import Target

_GIB = 1 << 30


# Long by its options, each declared here; the body is short.
def preflight(
    script: Annotated[
        str | None,
        typer.Argument(
            help="The training script, its arguments after `--`; or a program: StableHLO, HLO, an XLA dump, a capture.",
            show_default=False,
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments of the script.", show_default=False)
    ] = None,
    module: Annotated[
        str | None, typer.Option("--module", "-m", help="A module in place of a script, as with `python -m`.")
    ] = None,
    tpu: Annotated[
        list[str] | None,
        typer.Option(
            "--tpu", help="Slice to compile for, as v5e-4; repeatable.", show_default="v5e-4, v5p-8, v6e-4"
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the predicted runs, one a target.")
    ] = Path("runs/preflight"),
    env: Annotated[
        list[str] | None,
        typer.Option("--env", help="NAME=VALUE for the script and the compiler; repeatable."),
    ] = None,
    compare: Annotated[str | None, typer.Option(help="A second script to compare with.")] = None,
    compare_args: Annotated[
        str | None, typer.Option(help="Arguments of the second variant, in one quoted text.")
    ] = None,
    compare_env: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the second variant; repeatable.")
    ] = None,
    sweep: Annotated[
        str | None, typer.Option(help="NAME=VALUE,VALUE...: find the largest value that fits.")
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE,VALUE... of the script, with compiler flags; or auto for flags alone: find the fastest.",
            show_default=False,
        ),
    ] = None,
    search_compiles: Annotated[
        int, typer.Option(min=2, help="Compiles that a search may take for each slice; cached ones are free.")
    ] = 24,
    price: Annotated[
        list[str] | None,
        typer.Option(
            help="CHIP=USD[,...] per chip and hour, as v5e=1.2: compare slices by money; repeatable."
        ),
    ] = None,
    samples: Annotated[
        float | None, typer.Option(min=0.0, help="Samples that one step trains, on all devices.")
    ] = None,
    tokens: Annotated[
        float | None, typer.Option(min=0.0, help="Tokens that one step trains, on all devices.")
    ] = None,
    all_graphs: Annotated[
        bool, typer.Option("--all-graphs", help="Compile every graph, not the steady step alone.")
    ] = False,
    real_weights: Annotated[
        bool, typer.Option("--real-weights", help="Make the model's weights for real while tracing.")
    ] = False,
    network: Annotated[
        bool,
        typer.Option("--network", help="Let the script connect to other machines (to download a model)."),
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, help="Compiles at once; each uses all cores for part of its time.")
    ] = 1,
    time_limit: Annotated[float, typer.Option(help="Seconds a compile may take.")] = 1800.0,
    script_time_limit: Annotated[
        float, typer.Option(help="Seconds the script may take to reach its steps.")
    ] = 900.0,
    memory_limit: Annotated[float, typer.Option(help="GiB of memory a compile may take.")] = 16.0,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Compile again what was compiled before.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Compile a script's step for TPU slices without a TPU: does it fit, how long does it take, what does it send.

    Example: `tpuprof preflight train.py --tpu v5e-4 -- --batch 8`. The script's Python runs on this machine until
    its step is known, and ends there; its device work does not run. Files it writes go to memory and vanish, and it
    cannot reach other machines. Where the system allows no such barrier, writes are refused.
    """
    from tpuprof.cli.process import unwind_on_signals
    from tpuprof.preflight.compiler import CompileOptions, default_cache
    from tpuprof.preflight.given import preflight_programs
    from tpuprof.preflight.money import Work, parse_prices
    from tpuprof.preflight.program_files import find_programs
    from tpuprof.preflight.run import Variant, parse_targets
    from tpuprof.preflight.run import preflight as run_preflight
    from tpuprof.preflight.run import sweep as run_sweep
    from tpuprof.preflight.script import ScriptRun
    from tpuprof.preflight.targets import DEFAULT_TARGETS

    unwind_on_signals()
    prices = parse_prices(price or [])
    options = CompileOptions(
        time_limit_s=time_limit, memory_limit=int(memory_limit * _GIB), workers=workers,
        cache=None if no_cache else default_cache(),
    )  # fmt: skip
    given = [each for each in (module, script, *(arguments or ())) if each is not None]
    base = Variant(
        module or Path(_first(given)).name,
        ScriptRun(
            _first(given), given[1:], _pairs(env), lazy=not real_weights, network=network, module=module is not None,
            time_limit_s=script_time_limit,
        ),
    )  # fmt: skip
    programs = find_programs(Path(given[0])) if not module else None
    compared = bool(compare or compare_args is not None or compare_env)
    _check_search(search, tpu, programs is not None or bool(sweep) or compared)
    if programs is not None:
        _refuse_for_programs(sweep is not None, compared)
        options.environment = _pairs(env)
    targets = parse_targets(list(tpu or DEFAULT_TARGETS), options)
    if search:
        _search(base, search, targets, options, search_compiles, samples, out, as_json)
        return
    if programs is not None:
        outcomes = [preflight_programs(programs, targets, options, all_graphs, _say)]
    elif sweep:
        outcomes = run_sweep(base, sweep, targets, options, _say)
    else:
        variants = [base]
        if compared:
            variants.append(_second(base, compare, compare_args, _pairs(compare_env)))
        outcomes = [run_preflight(each, targets, options, all_graphs, _say) for each in variants]
    folders = _write_runs(outcomes, out)
    money = (prices, Work(samples, tokens)) if price or samples or tokens else None
    _print(outcomes, folders, as_json, sweep is not None, money)
    status = _exit_status(outcomes, sweep is not None)
    if status:
        raise typer.Exit(status)


def _first(given: list[str]) -> str:
    from tpuprof.errors import Code, TpuprofError

    if not given:
        raise TpuprofError(
            Code.USAGE, "No script is given.", "tpuprof preflight train.py, or -m package.module."
        )
    return given[0]


def _refuse_for_programs(sweep: bool, compare: bool) -> None:
    from tpuprof.errors import Code, TpuprofError

    if sweep or compare:
        raise TpuprofError(
            Code.USAGE, f"{'--sweep' if sweep else '--compare'} is for scripts; a program has no settings.",
            "Preflight each program by itself, then `tpuprof diff` the runs.",
        )  # fmt: skip


def _check_search(search: list[str] | None, tpu: list[str] | None, other: bool) -> None:
    from tpuprof.errors import Code, TpuprofError

    if search and other:
        raise TpuprofError(
            Code.USAGE,
            "--search is for one script, without --sweep and --compare.",
            "Run them one after the other.",
        )
    if search and not tpu:
        raise TpuprofError(Code.USAGE, "--search needs a slice.", "For example --tpu v5e-4.")


def _search(
    base: Variant,
    items: list[str],
    targets: list[Target],
    options: CompileOptions,
    budget: int,
    samples: float | None,
    out: Path,
    as_json: bool,
) -> None:
    """Search, print the answer, and exit: 1 where nothing fits a slice, 130 after Ctrl-C."""
    import json

    from tpuprof.cli.terminal import console
    from tpuprof.preflight.run import outcome_dict
    from tpuprof.preflight.search.command import outcomes_of, search_slices
    from tpuprof.preflight.search.render import render_search, search_dict
    from tpuprof.run_folder import PREFLIGHT_SCHEMA

    found = search_slices(base, items, targets, options, budget, samples, out, _say)
    outcomes = outcomes_of(found)
    folders = _write_runs(outcomes, out)
    if as_json:
        searches = [search_dict(each, base.run) for each in found]
        variants = [outcome_dict(each) for each in outcomes]
        report = {"schema": PREFLIGHT_SCHEMA, "searches": searches, "variants": variants, "runs": folders}
        typer.echo(json.dumps(report, indent=1, allow_nan=False))
    else:
        for each in found:
            render_search(each, base.run, console())
        for folder in folders:
            _say(f"predicted run written to {folder}")
    if any(each.interrupted for each in found):
        raise typer.Exit(130)
    if any(not each.front for each in found):
        raise typer.Exit(1)


def _exit_status(outcomes: list[Outcome], swept: bool) -> int:
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


def _second(base: Variant, script: str | None, arguments: str | None, env: dict[str, str]) -> Variant:
    import shlex
    from dataclasses import replace

    from tpuprof.preflight.run import Variant

    run = replace(base.run, environment={**base.run.environment, **env})
    if script:
        run = replace(run, script=script, module=False)
    if arguments is not None:
        run = replace(run, arguments=shlex.split(arguments))
    changed = [
        Path(script).name if script else "",
        arguments or "",
        *(f"{key}={value}" for key, value in env.items()),
    ]
    return Variant(" ".join(each for each in changed if each) or "without arguments", run)


def _pairs(items: list[str] | None) -> dict[str, str]:
    from tpuprof.errors import Code, TpuprofError

    pairs = {}
    for item in items or ():
        name, mark, value = item.partition("=")
        if not mark or not name:
            raise TpuprofError(
                Code.USAGE, f"{item!r} is not NAME=VALUE.", "For example --env XLA_FLAGS=--xla_..."
            )
        pairs[name] = value
    return pairs


def _write_runs(outcomes: list[Outcome], out: Path) -> list[str]:
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


def _print(
    outcomes: list[Outcome],
    folders: list[str],
    as_json: bool,
    swept: bool,
    money: tuple[dict[str, float], Work] | None,
) -> None:
    from tpuprof.preflight.money import cost_dicts, cost_notes, costs
    from tpuprof.preflight.render import (
        largest_fitting,
        render,
        render_comparison,
        render_costs,
        render_sweep,
        sweep_notes,
    )
    from tpuprof.preflight.run import outcome_dict
    from tpuprof.run_folder import PREFLIGHT_SCHEMA

    rows = costs(outcomes, *money) if money else []
    notes = cost_notes(rows, money[0]) if money else []
    if as_json:
        import json

        report: dict[str, object] = {
            "schema": PREFLIGHT_SCHEMA,
            "variants": [outcome_dict(each) for each in outcomes],
            "runs": folders,
        }
        if money:
            report["costs"], report["cost_notes"] = cost_dicts(rows), notes
        if swept:
            report["largest_fitting"] = largest_fitting(outcomes)
            report["sweep_notes"] = sweep_notes(outcomes)
        typer.echo(json.dumps(report, indent=1, allow_nan=False))
        return
    from tpuprof.cli.terminal import console

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
        render_costs(rows, notes, screen)
    for folder in folders:
        _say(f"predicted run written to {folder}")


def _say(text: str) -> None:
    typer.echo(f"tpuprof: {text}", err=True)
