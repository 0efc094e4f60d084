"""`tpuprof query`: SQL over the tables of a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tpuprof.cli.options import Trace
from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from tpuprof.tables.query import Answer

# A terminal shows this many rows; `--json` and `--csv` give all (rows).
SHOWN = 100

Sql = Annotated[
    str,
    typer.Argument(help='One SELECT, as "SELECT op, sum(self_ps) FROM op_events GROUP BY op".'),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print all rows as a JSON array.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print all rows as CSV with a header.")]
Limit = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=f"Rows to print at most; a table shows {SHOWN} unless this says more.",
        show_default=False,
    ),
]
TimeLimit = Annotated[float, typer.Option(min=0.1, help="Seconds that the query may take.")]


def query(
    path: Trace,
    sql: Sql = "SHOW TABLES",
    as_json: AsJson = False,
    as_csv: Csv = False,
    limit: Limit = None,
    time_limit: TimeLimit = 60.0,
) -> None:
    """Ask the tables of a run in SQL. SHOW TABLES and DESCRIBE TABLE list what there is.

    The query reads no file and no network, and changes nothing.
    """
    from tpuprof.cli.opening import here
    from tpuprof.tables.opened import read_in_processes
    from tpuprof.tables.query import MAX_ROWS

    if as_json and as_csv:
        raise TpuprofError(Code.USAGE, "--json and --csv exclude each other.", "Remove one of them.")
    most = limit or (MAX_ROWS if as_json or as_csv else SHOWN)
    with read_in_processes(here(path)) as run:
        answer = run.query(sql, most=most, time_limit_s=time_limit)
    if as_json:
        from tpuprof.tables.values import as_json as text

        sys.stdout.write(text(answer))
    elif as_csv:
        from tpuprof.tables.values import as_csv as text

        sys.stdout.write(text(answer))
    else:
        _show(answer)
    if answer.cut:
        typer.echo(f"tpuprof: there are more rows than these {most:,}; --limit gives more", err=True)


def _show(answer: Answer) -> None:
    from rich.table import Table

    from tpuprof.cli.terminal import console
    from tpuprof.render.text import escape
    from tpuprof.tables.values import is_number, shown

    table = Table(box=None, pad_edge=False)
    cells = [[shown(value) for value in row] for row in answer.rows]
    for at, (name, kind) in enumerate(zip(answer.columns, answer.types, strict=True)):
        right = is_number(kind)
        # A number over two lines would be read as two.
        width = max((len(row[at]) for row in cells), default=1) if right else 1
        table.add_column(escape(name), overflow="fold", justify="right" if right else "left", min_width=width)
    for row in cells:
        table.add_row(*map(escape, row))
    printed = console()
    # A terminal breaks lines that are too long itself, and no number is lost.
    printed.print(table, width=max(printed.width, printed.measure(table).minimum), crop=False)
