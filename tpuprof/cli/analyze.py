"""`tpuprof analyze`: says what holds a captured run back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tpuprof.cli.entry import BASE_VARIABLE
from tpuprof.cli.options import AsJson

# What `--what-if` does not print: options that ask for it are refused, not ignored.
_NOT_OF_WHAT_IF = ("as_markdown", "all_ops", "hosts", "dask", "why", "base")

Profile = Annotated[
    Path,
    typer.Argument(help="A trace file, a run folder, a TensorBoard logdir, or HLO.", show_default=False),
]
AsMarkdown = Annotated[
    bool,
    typer.Option("--md", help="Print it as Markdown, nothing redacted; to send, see tpuprof report."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Analyze again, and keep nothing in the cache.")]
AllOps = Annotated[
    bool, typer.Option("--all-ops", help="List all ops, also those that take next to no time.")
]
Hosts = Annotated[
    int,
    typer.Option("--hosts", min=0, help="Analyze this many hosts of a pod, at even distances; 0 for all."),
]
Dask = Annotated[
    str,
    typer.Option(
        "--dask",
        help="Read the hosts on a Dask cluster: local, or a scheduler's address.",
        show_default=False,
    ),
]
Why = Annotated[
    bool,
    typer.Option("--why", help="Print each decision that led to the verdict, and what would change it."),
]
Base = Annotated[
    str,
    typer.Option(
        help="Print what changed since this run, too: a run, a saved report or a bundle.",
        envvar=BASE_VARIABLE,
        show_default=False,
    ),
]
WhatIf = Annotated[
    str,
    typer.Option(help="Print the step time with these rules' causes fixed: RULE[,RULE].", show_default=False),
]


def analyze(
    context: typer.Context,
    path: Profile,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    no_cache: NoCache = False,
    all_ops: AllOps = False,
    hosts: Hosts = 0,
    dask: Dask = "",
    why: Why = False,
    base: Base = "",
    what_if: WhatIf = "",
) -> None:
    """Say what holds a captured run back, and where each step's time went."""
    from tpuprof.cli.analysis import open_base, print_analysis, print_report
    from tpuprof.errors import Code, TpuprofError

    if as_json and as_markdown:
        raise TpuprofError(Code.USAGE, "--json and --md exclude each other.", "Remove one of them.")
    if what_if:
        _refuse_with_what_if(context)
        _what_if(path, what_if, as_json=as_json)
        return
    if hosts or dask:
        from tpuprof.cli.pods import pod_report

        report = pod_report(path, sample=hosts, dask=dask)
        against = open_base(base, use_cache=not no_cache)
        print_report(report, as_json=as_json, as_markdown=as_markdown, why=why, base=against)
        return
    print_analysis(
        path,
        as_json=as_json,
        as_markdown=as_markdown,
        use_cache=not no_cache,
        all_ops=all_ops,
        why=why,
        base=base,
    )


def _refuse_with_what_if(context: typer.Context) -> None:
    """Raise `TpuprofError` (`usage`) where the command line asks for more than a step time."""
    from tpuprof.errors import Code, TpuprofError

    flags = {each.name: each.opts[0] for each in context.command.params}
    given = [name for name in _NOT_OF_WHAT_IF if _on_command_line(context, name)]
    if given:
        raise TpuprofError(
            Code.USAGE,
            f"--what-if prints a step time alone, without {' and '.join(flags[name] for name in given)}.",
            "Leave out one of them, or run the command twice.",
        )


def _on_command_line(context: typer.Context, name: str) -> bool:
    """Whether an option was typed; a base run that a variable names is for reports, and refuses nothing."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _what_if(path: Path, rules: str, *, as_json: bool) -> None:
    from tpuprof.analysis.analyze import what_if_of
    from tpuprof.cli.opening import here
    from tpuprof.errors import Code, TpuprofError
    from tpuprof.units import format_ms, format_ms_range

    wanted = [each.strip() for each in rules.split(",") if each.strip()]
    if not wanted:
        raise TpuprofError(Code.USAGE, "--what-if names no rule.", "`tpuprof rules` lists them.")
    result = what_if_of(here(path), wanted)
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps(asdict(result), indent=1, allow_nan=False))
        return
    for note in result.skipped:
        typer.echo(f"tpuprof: left out {note}", err=True)
    fixed = " and ".join(result.rules) or "nothing"
    after = format_ms_range(result.low_ms, result.high_ms)
    typer.echo(f"{format_ms(result.measured_ms)} per step now; with {fixed} fixed: {after}")
