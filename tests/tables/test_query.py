"""A query reads the run's tables and nothing else; what it may not do has a code."""

import json
import os
import subprocess
import sys

import pytest

import tpuprof
from tests.tables.test_tables import trained
from tpuprof.errors import Code
from tpuprof.tables.values import as_csv, as_json

pytest.importorskip("duckdb")


@pytest.fixture
def run(tmp_path):
    trained().write(tmp_path / "a.xplane.pb")
    return tpuprof.open(tmp_path / "a.xplane.pb")


@pytest.mark.parametrize(
    "sql",
    [
        "COPY steps TO '{file}'",
        "COPY steps FROM '{file}'",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_blob('{file}')",
        "SELECT * FROM glob('{file}')",
        "SELECT (SELECT max(content) FROM read_text('{file}'))",
        "WITH x AS (SELECT * FROM sniff_csv('{file}')) SELECT * FROM x",
        "SELECT * FROM query('SELECT 1')",
        "DESCRIBE SELECT * FROM read_csv('{file}')",
        "SUMMARIZE '{file}'",
        "SELECT * FROM read_parquet('https://example.org/a.parquet')",
        "ATTACH '{file}' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "CALL pragma_version()",
        "CREATE TABLE mine AS SELECT 1",
        "INSERT INTO steps VALUES (1)",
        "DELETE FROM steps",
        "DROP VIEW steps",
        "EXPORT DATABASE '{file}'",
        "SELECT 1; SELECT 2",
        "SELECT * FROM duckdb_settings()",
        "",
    ],
)
def test_what_is_no_select_over_the_tables_is_refused(run, tmp_path, sql):
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(tpuprof.TpuprofError) as error:
        run.query(sql.format(file=file))
    assert error.value.code is Code.QUERY_REFUSED
    assert file.read_text() == "a,b\n1,2\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.xplane.pb", "secret.csv"]


def test_an_install_is_called_by_its_name(run):
    with pytest.raises(tpuprof.TpuprofError, match="it is INSTALL"):
        run.query("install httpfs")


def test_a_file_is_no_table(run, tmp_path):
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with pytest.raises(tpuprof.TpuprofError) as error:
        run.query(f"SELECT * FROM '{tmp_path / 'secret.csv'}'")
    assert error.value.code in (Code.QUERY_REFUSED, Code.QUERY_INVALID)


def test_variables_of_python_are_no_tables(run):
    secret = run.table("steps")
    assert len(secret) == 3
    with pytest.raises(tpuprof.TpuprofError, match="query-invalid"):
        run.query("SELECT * FROM secret")


def test_duckdb_itself_has_no_access(tmp_path):
    """The second wall, without the first: the connection that runs queries is closed in."""
    import duckdb

    from tpuprof.tables.query import _close_in

    connection = duckdb.connect(":memory:")
    _close_in(connection, 64)
    (tmp_path / "a.csv").write_text("a\n1\n")
    for sql in (
        f"SELECT * FROM read_csv('{tmp_path}/a.csv')",
        f"COPY (SELECT 1) TO '{tmp_path}/b.csv'",
        f"ATTACH '{tmp_path}/c.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
    ):
        with pytest.raises(duckdb.PermissionException):
            connection.execute(sql)
    with pytest.raises(duckdb.InvalidInputException):
        connection.execute("SET enable_external_access = true")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_mistake_is_named(run):
    with pytest.raises(tpuprof.TpuprofError, match=r"nothere.*query-invalid"):
        run.query("SELECT nothere FROM steps")
    with pytest.raises(tpuprof.TpuprofError, match="query-invalid"):
        run.query("SELECT FROM WHERE")
    deep = "SELECT " + "(" * 3000 + "1" + ")" * 3000
    with pytest.raises(tpuprof.TpuprofError, match="query-"):
        run.query(deep)


def test_a_query_without_end_is_ended(run):
    endless = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE a.range * b.range = 7"
    with pytest.raises(tpuprof.TpuprofError, match="query-too-long"):
        run.query(endless, time_limit_s=0.3)


def test_ctrl_c_ends_a_query_as_it_ends_other_commands(run, tmp_path):
    endless = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE a.range * b.range = 7"
    begun = (
        "import os, signal, threading; threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start(); "
    )
    arguments = ["tpuprof", "query", str(tmp_path / "a.xplane.pb"), endless, "--time-limit", "50"]
    code = f"import sys; sys.argv = {arguments!r}; {begun}from tpuprof.cli.entry import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_query_of_too_much_memory_is_ended():
    from pathlib import Path

    from tpuprof.tables.query import query
    from tpuprof.tables.source import Source

    with pytest.raises(tpuprof.TpuprofError, match="query-too-large"):
        query(Source([Path("unread")]), "SELECT list(range) FROM range(100000000)", memory_mb=50)


def test_rows_that_are_left_out_are_known(run):
    assert run.query("SELECT * FROM op_events", most=2).cut
    assert not run.query("SELECT * FROM op_events", most=6).cut


def test_json_and_csv_keep_every_value(run):
    answer = run.query(
        "SELECT 'a,\"b' AS text, 2::HUGEINT AS n, 'nan'::DOUBLE AS nan, NULL AS none, [1, 2] AS list, "
        "{'k': 1.5} AS s, DATE '2026-01-02' AS d, 1 AS n"
    )
    assert json.loads(as_json(answer)) == [
        {"text": 'a,"b', "n": 2, "nan": None, "none": None, "list": [1, 2], "s": {"k": 1.5}, "d": "2026-01-02", "n_2": 1}
    ]  # fmt: skip
    assert as_csv(answer).splitlines() == [
        "text,n,nan,none,list,s,d,n",
        '"a,""b",2,,,"[1, 2]","{""k"": 1.5}",2026-01-02,1',
    ]


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tpuprof", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_the_commands(run, tmp_path):
    path = tmp_path / "a.xplane.pb"
    done = command("query", path, "SELECT step, duration_ps / 1e9 AS ms FROM steps", "--json")
    assert json.loads(done.stdout) == [{"step": step, "ms": 1.0} for step in range(3)]
    refused = command("query", path, f"COPY steps TO '{tmp_path / 'out.csv'}'")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.rstrip().endswith("[query-refused]")
    assert not (tmp_path / "out.csv").exists()
    out = tmp_path / "tables"
    assert command("export", path, "-o", out, "--parquet", "-t", "steps").returncode == 0
    assert [each.name for each in out.iterdir()] == ["steps.parquet"]
    again = command("export", path, "-o", out, "--parquet", "-t", "steps")
    assert again.stderr.rstrip().endswith("[output-exists]")


def test_no_table_is_written_where_one_name_is_wrong(run, tmp_path):
    with pytest.raises(tpuprof.TpuprofError, match="nosuch: there is no such table"):
        run.export(tmp_path / "out", ["steps", "nosuch"])
    assert not (tmp_path / "out").exists()


def test_a_narrow_terminal_breaks_no_number(run, tmp_path):
    sql = "SELECT 'some long text' AS text, 123456789012345 AS a, 987654321098765 AS b, 111111111111111 AS c"
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "query", str(tmp_path / "a.xplane.pb"), sql],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "40"},
    )
    assert all(each in done.stdout for each in ("123456789012345", "987654321098765", "111111111111111"))


def test_exported_tables_read_back_the_same(run, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = run.export(tmp_path / "out")
    assert {path.stem for path in written} == set(run.tables)
    for path, rows in written.items():
        found = pq.read_table(path)
        assert len(found) == rows
        assert found.to_pylist() == run.table(path.stem).to_pylist()
        assert all(not pa.types.is_dictionary(field.type) for field in found.schema)
        assert found.schema.metadata[b"schema"] == b"tpuprof.tables/1"


def test_polars_and_pandas_read_it_in_one_line(run, tmp_path):
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    run.export(tmp_path, ["op_events"])
    total = run.query("SELECT sum(self_ps) FROM op_events").rows[0][0]
    assert polars.read_parquet(tmp_path / "op_events.parquet")["self_ps"].sum() == total
    assert pandas.read_parquet(tmp_path / "op_events.parquet")["self_ps"].sum() == total
    assert run.table("op_events").to_pandas()["self_ps"].sum() == total
    assert polars.from_arrow(run.table("op_events"))["self_ps"].sum() == total
