"""SQL over the tables of a run: one SELECT, in a DuckDB that reaches no file, no network and no setting.

Three walls, each enough by itself for what it is for: only one SELECT is run; its table functions are on a list; and
DuckDB has external access off and its configuration locked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.records import record
from tpuprof.tables.build import build_table, empty_table, need
from tpuprof.tables.schema import BY_NAME

if TYPE_CHECKING:
    from tpuprof.tables.source import Source

# A query that sorts 10 million op events takes some 600 MB (DuckDB 2.0); the run's own tables come on top (MiB).
MEMORY_MB = 1024
# A join of op events with themselves never ends; group-bys of 10 million rows take about a second (s).
TIME_LIMIT_S = 60.0
# How long DuckDB has to end a query before it is asked again (s): it mostly does within a few milliseconds.
_INTERRUPT_AGAIN_S = 0.05
# Rows that a query gives at most: more is an export (rows).
MAX_ROWS = 1_000_000
# Functions that stand where a table does and make rows out of their arguments alone.
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
_SETTINGS = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "''",
    "enable_external_access": "false",
}
_REFUSED_HINT = "A query is one SELECT over the run's tables; see `tpuprof query --help` and docs/tables.md."


@record(frozen=True)
class Answer:
    """What a query gives: `columns`, their DuckDB `types`, and `rows` as tuples of Python values.

    `cut` is true where the query has more rows than were asked for.
    """

    columns: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]
    cut: bool = False

    def dicts(self) -> list[dict[str, Any]]:
        """Each row as a dictionary; a column whose name came before has a number behind it."""
        names = list(_distinct(self.columns))
        return [dict(zip(names, row, strict=True)) for row in self.rows]


def query(
    source: Source,
    sql: str,
    *,
    most: int = MAX_ROWS,
    time_limit_s: float = TIME_LIMIT_S,
    memory_mb: int = MEMORY_MB,
) -> Answer:
    """The first `most` rows of a SELECT over the tables of a run; tables that it does not name are not decoded.

    Raises `TpuprofError`: `query-refused`, `query-invalid`, `query-too-long`, `query-too-large`.
    """
    need("duckdb")
    import duckdb

    checker = duckdb.connect(":memory:")
    try:
        read, described = _checked(checker, sql)
    finally:
        checker.close()
    connection = duckdb.connect(":memory:")
    try:
        for name in read:
            connection.register(name, build_table(source, name))
        for name in described:
            connection.register(name, empty_table(name))
        _close_in(connection, memory_mb)
        return _run(connection, sql, most, time_limit_s)
    finally:
        connection.close()


def _checked(connection: Any, sql: str) -> tuple[set[str], set[str]]:
    """The tables whose rows a query reads, and those of which it asks no more than that they are there.

    Raises `TpuprofError` where it is not one harmless SELECT.
    """
    import duckdb

    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type.name != "SELECT":
            raise _refused(f"it is {_named(statements)}")
        asked = connection.execute("SELECT json_serialize_sql(?)", [statements[0].query])
        tree = json.loads(asked.fetchone()[0])
    except duckdb.Error as error:
        raise _invalid(error) from error
    except RecursionError as error:
        raise _refused("it is nested too deeply") from error
    if tree.get("error"):
        raise _refused("it cannot be checked")
    read: set[str] = set()
    described: set[str] = set()
    for node, only_described in _nodes(tree):
        kind = node.get("type")
        if kind == "TABLE_FUNCTION":
            _check_function(node)
        elif kind == "BASE_TABLE":
            (described if only_described else read).add(str(node["table_name"]).lower())
        elif kind == "SHOW_REF" and node.get("show_type") in ("SHOW_SPECIAL", "SHOW_UNQUALIFIED"):
            described.update(BY_NAME)
    return read & set(BY_NAME), (described - read) & set(BY_NAME)


def _named(statements: list[Any]) -> str:
    """What was asked instead of one SELECT. DuckDB calls an INSTALL a LOAD."""
    if len(statements) != 1:
        return f"{len(statements)} statements"
    words = statements[0].query.split()
    is_install = bool(words) and words[0].upper() == "INSTALL"
    return "INSTALL" if is_install else str(statements[0].type.name)


def _nodes(tree: Any) -> Iterator[tuple[dict[str, Any], bool]]:
    """Every node of a query's tree, and whether it is what a DESCRIBE asks the columns of."""
    waiting = [(tree, False)]
    while waiting:
        each, described = waiting.pop()
        if isinstance(each, dict):
            yield each, described
            described = described or (each.get("type") == "SHOW_REF" and each.get("show_type") == "DESCRIBE")
            waiting += [(value, described) for value in each.values()]
        elif isinstance(each, list):
            waiting += [(value, described) for value in each]


def _check_function(node: dict[str, Any]) -> None:
    name = str(node.get("function", {}).get("function_name", "")).lower()
    if name not in TABLE_FUNCTIONS:
        raise _refused(f"{name or 'a function'} is not allowed")


def _close_in(connection: Any, memory_mb: int) -> None:
    """Take files, network and settings away from a connection."""
    connection.execute(f"SET memory_limit = '{int(memory_mb)}MiB'")
    for name, value in _SETTINGS.items():
        connection.execute(f"SET {name} = {value}")
    connection.execute("SET lock_configuration = true")


def _run(connection: Any, sql: str, most: int, time_limit_s: float) -> Answer:
    import duckdb

    try:
        return _in_time(connection, lambda: _fetched(connection, sql, most), time_limit_s)
    except duckdb.InterruptException as error:
        raise TpuprofError(
            Code.QUERY_TOO_LONG,
            f"the query took more than {time_limit_s:g} s and was ended.",
            "Ask for less: filter by step, op or host, or aggregate.",
        ) from error
    except duckdb.OutOfMemoryException as error:
        raise TpuprofError(
            Code.QUERY_TOO_LARGE,
            "the query needs more memory than is set aside.",
            "Filter or aggregate first.",
        ) from error
    except duckdb.PermissionException as error:
        raise _refused(_line(error)) from error
    except duckdb.Error as error:
        raise _invalid(error) from error


def _fetched(connection: Any, sql: str, most: int) -> Answer:
    cursor = connection.execute(sql)
    rows = cursor.fetchmany(most + 1)
    columns = [each[0] for each in cursor.description]
    types = [str(each[1]) for each in cursor.description]
    return Answer(columns, types, rows[:most], cut=len(rows) > most)


def _in_time(connection: Any, work: Callable[[], Answer], time_limit_s: float) -> Answer:
    """What the work gives, in a thread of its own, which DuckDB is asked to end at the limit or at Ctrl-C.

    In the main thread DuckDB looks for Ctrl-C between pieces of its work only, and one piece may be the whole query.
    """
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(work)
        try:
            wait([running], time_limit_s)
        finally:
            # An interrupt before DuckDB has begun has no effect: it is said again.
            while not running.done():
                connection.interrupt()
                wait([running], _INTERRUPT_AGAIN_S)
    return running.result()


def _refused(why: str) -> TpuprofError:
    return TpuprofError(Code.QUERY_REFUSED, f"the query is refused: {why}.", _REFUSED_HINT)


def _invalid(error: Exception) -> TpuprofError:
    return TpuprofError(
        Code.QUERY_INVALID,
        f"{_line(error)}.",
        "`SHOW TABLES` lists tables, `DESCRIBE TABLE` columns; docs/tables.md says what they mean.",
    )


def _line(error: Exception) -> str:
    """The first line of what DuckDB says, with its suggestion."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    columns = [line for line in lines[1:] if line.startswith("Candidate bindings")]
    return " ".join([*lines[:1], *columns[:1]]).rstrip(".!?")


def _distinct(names: list[str]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}_{seen[name]}"
