"""`tpuprof preflight`: the real TPU compiler's word on a training script, before the TPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tpuprof.cli import preflight_options as option
from tpuprof.cli.options import AsJson
from tpuprof.cli.preflight_output import exit_status, print_outcomes, print_search, say, write_runs
from tpuprof.errors import Code, TpuprofError
from tpuprof.records import record

if TYPE_CHECKING:
    from tpuprof.preflight.compiler import CompileOptions
    from tpuprof.preflight.places import Place
    from tpuprof.preflight.run import Outcome, Variant
    from tpuprof.preflight.targets import Target

_GIB = 1 << 30


@record(frozen=True)
class Asked:
    """What is asked of the script beside a preflight of its one variant; the options' help says more."""

    second: tuple[str | None, str | None, list[str] | None]
    sweep: str | None
    search: list[str] | None
    search_compiles: int
    price: list[str] | None
    samples: float | None
    tokens: float | None
    all_graphs: bool
    out: Path
    as_json: bool

    @property
    def compares(self) -> bool:
        """Whether there is a second variant."""
        script, arguments, env = self.second
        return bool(script or arguments is not None or env)


def preflight(
    script: option.Script = None,
    arguments: option.Arguments = None,
    module: option.Module = None,
    python: option.Python = None,
    tpu: option.Slices = None,
    out: option.Out = Path("runs/preflight"),
    env: option.Env = None,
    compare: option.Compare = None,
    compare_args: option.CompareArgs = None,
    compare_env: option.CompareEnv = None,
    sweep: option.Sweep = None,
    search: option.Search = None,
    search_compiles: option.SearchCompiles = 24,
    price: option.Price = None,
    samples: option.Samples = None,
    tokens: option.Tokens = None,
    all_graphs: option.AllGraphs = False,
    real_weights: option.RealWeights = False,
    network: option.Network = False,
    workers: option.Workers = 1,
    time_limit: option.TimeLimit = 1800.0,
    script_time_limit: option.ScriptTimeLimit = 900.0,
    memory_limit: option.MemoryLimit = 16.0,
    no_cache: option.NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Compile a script's step for TPU slices without a TPU: does it fit, how long does it take, what does it send.

    Example: `tpuprof preflight train.py --tpu v5e-4 -- --batch 8`. The script's Python runs on this machine until
    its step is known, and ends there; its device work does not run. Files it writes go to memory and vanish, and it
    cannot reach other machines. Where the system allows no such barrier, writes are refused.
    """
    asked = Asked(
        (compare, compare_args, compare_env), sweep, search, search_compiles, price, samples, tokens, all_graphs,
        out, as_json,
    )  # fmt: skip
    base = _variant(script, arguments, module, env, (not real_weights, network, script_time_limit))
    base.run.place = _place(base, python)
    _preflight(base, tpu, _compile_options(workers, time_limit, memory_limit, no_cache), asked)


def _variant(
    script: str | None,
    arguments: list[str] | None,
    module: str | None,
    env: list[str] | None,
    tracing: tuple[bool, bool, float],
) -> Variant:
    """The script as it is. `tracing` is whether weights are made up, whether it has a network, and its time (s)."""
    from tpuprof.preflight.run import Variant
    from tpuprof.preflight.script import ScriptRun

    given = [each for each in (module, script, *(arguments or ())) if each is not None]
    if not given:
        raise TpuprofError(
            Code.USAGE, "No script is given.", "tpuprof preflight train.py, or -m package.module."
        )
    lazy, network, time_limit_s = tracing
    run = ScriptRun(
        given[0], given[1:], _pairs(env), lazy=lazy, network=network, module=module is not None,
        time_limit_s=time_limit_s,
    )  # fmt: skip
    return Variant(module or Path(given[0]).name, run)


def _place(base: Variant, python: str | None) -> Place:
    """The Python that runs the script; a program needs none."""
    from tpuprof.preflight.places import Place, place_for

    path = Path(base.run.script)
    if not base.run.module and (path.suffix != ".py" or not path.is_file()):
        return Place()
    return place_for(base.run.script, base.run.module, python)


def _compile_options(workers: int, time_limit: float, memory_limit: float, no_cache: bool) -> CompileOptions:
    from tpuprof.preflight.compiler import CompileOptions, default_cache

    return CompileOptions(
        time_limit_s=time_limit, memory_limit=int(memory_limit * _GIB), workers=workers,
        cache=None if no_cache else default_cache(),
    )  # fmt: skip


def _preflight(base: Variant, tpu: list[str] | None, options: CompileOptions, asked: Asked) -> None:
    from dataclasses import replace

    from tpuprof.cli.process import unwind_on_signals
    from tpuprof.preflight.given import preflight_programs
    from tpuprof.preflight.money import Work, parse_prices
    from tpuprof.preflight.program_files import find_programs
    from tpuprof.preflight.run import parse_targets
    from tpuprof.preflight.targets import DEFAULT_TARGETS

    unwind_on_signals()
    prices = parse_prices(asked.price or [])
    programs = None if base.run.module else find_programs(Path(base.run.script))
    _check_search(asked, tpu, programs is not None)
    if programs is not None:
        _refuse_for_programs(asked)
        options.environment = base.run.environment
    asking = replace(options, environment={**options.environment, **base.run.place.compiler()})
    targets = parse_targets(list(tpu or DEFAULT_TARGETS), asking)
    if asked.search:
        _search(base, asked.search, targets, options, asked)
        return
    if programs is not None:
        outcomes = [preflight_programs(programs, targets, options, asked.all_graphs, say)]
    else:
        outcomes = _of_script(base, targets, options, asked)
    folders = write_runs(outcomes, asked.out)
    work = Work(asked.samples, asked.tokens)
    money = (prices, work) if asked.price or asked.samples or asked.tokens else None
    swept = asked.sweep is not None
    print_outcomes(outcomes, folders, asked.as_json, swept, money)
    status = exit_status(outcomes, swept)
    if status:
        raise typer.Exit(status)


def _of_script(base: Variant, targets: list[Target], options: CompileOptions, asked: Asked) -> list[Outcome]:
    from tpuprof.preflight.run import preflight as run_preflight
    from tpuprof.preflight.run import sweep

    if asked.sweep:
        return sweep(base, asked.sweep, targets, options, say)
    variants = [base, _second(base, *asked.second)] if asked.compares else [base]
    return [run_preflight(each, targets, options, asked.all_graphs, say) for each in variants]


def _refuse_for_programs(asked: Asked) -> None:
    if asked.sweep is not None or asked.compares:
        option = "--compare" if asked.sweep is None else "--sweep"
        raise TpuprofError(
            Code.USAGE, f"{option} is for scripts; a program has no settings.",
            "Preflight each program by itself, then `tpuprof diff` the runs.",
        )  # fmt: skip


def _check_search(asked: Asked, tpu: list[str] | None, programs: bool) -> None:
    if asked.search and (programs or asked.sweep or asked.compares):
        raise TpuprofError(
            Code.USAGE,
            "--search is for one script, without --sweep and --compare.",
            "Run them one after the other.",
        )
    if asked.search and not tpu:
        raise TpuprofError(Code.USAGE, "--search needs a slice.", "For example --tpu v5e-4.")


def _search(
    base: Variant, items: list[str], targets: list[Target], options: CompileOptions, asked: Asked
) -> None:
    """Search, print the answer, and exit: 1 where nothing fits a slice, 130 after Ctrl-C."""
    from tpuprof.preflight.search.command import outcomes_of, search_slices

    budget, samples = asked.search_compiles, asked.samples
    found = search_slices(base, items, targets, options, budget, samples, asked.out, say)
    print_search(found, base.run, write_runs(outcomes_of(found), asked.out), asked.as_json)
    if any(each.interrupted for each in found):
        raise typer.Exit(130)
    if any(not each.front for each in found):
        raise typer.Exit(1)


def _second(base: Variant, script: str | None, arguments: str | None, items: list[str] | None) -> Variant:
    import shlex
    from dataclasses import replace

    from tpuprof.preflight.places import place_for
    from tpuprof.preflight.run import Variant

    env = _pairs(items)
    run = replace(base.run, environment={**base.run.environment, **env})
    if script:
        # The second script may be for another framework than the first.
        given = base.run.place.python if base.run.place.found == "--python" else None
        run = replace(run, script=script, module=False, place=place_for(script, False, given))
    if arguments is not None:
        run = replace(run, arguments=shlex.split(arguments))
    changed = [
        Path(script).name if script else "",
        arguments or "",
        *(f"{key}={value}" for key, value in env.items()),
    ]
    return Variant(" ".join(each for each in changed if each) or "without arguments", run)


def _pairs(items: list[str] | None) -> dict[str, str]:
    pairs = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise TpuprofError(
                Code.USAGE, f"{item!r} is not NAME=VALUE.", "For example --env XLA_FLAGS=--xla_..."
            )
        pairs[name] = value
    return pairs
