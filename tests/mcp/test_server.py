"""`tpuprof mcp` with a real client over stdio and over HTTP: ten tools, small answers, nothing outside the paths."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from tests.mcp.loops import finished

pytest.importorskip("mcp")
pytest.importorskip("duckdb")

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.report import reports
from tests.tables.test_tables import trained
from tpuprof.errors import Code, TpuprofError
from tpuprof.mcp.answers import MAX_CHARACTERS
from tpuprof.mcp.roots import Roots
from tpuprof.mcp.server import TOOLS
from tpuprof.mcp.tools import Tools


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    for name in ("first", "second"):
        trained(late=50 if name == "second" else 0).write(
            folder / name / "plugins" / "profile" / "s" / "h.xplane.pb"
        )
    trained().write(tmp_path / "outside.xplane.pb")
    (folder / "link").symlink_to(tmp_path / "outside.xplane.pb")
    return folder


def talk(paths, calls, environment=None):
    """What a client over stdio hears: the tools, and each call's text, with `!` before an error."""

    async def session():
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "tpuprof", "mcp", *map(str, paths)],
            env={**os.environ, **(environment or {})},
        )
        async with Client(stdio_client(server)) as client:
            tools = (await client.list_tools()).tools
            heard = []
            for name, arguments in calls:
                found = await client.call_tool(name, arguments)
                text = "".join(part.text for part in found.content)
                heard.append(("!" if found.is_error else "") + text)
            return tools, heard

    return finished(session, 120)


def test_a_client_over_stdio(runs, tmp_path):
    calls = [
        ("verdict", {}),
        ("verdict", {"run": "first"}),
        ("findings", {"run": "first", "status": "all"}),
        ("steps", {"run": "first"}),
        ("ops", {"run": "first"}),
        ("compiles", {"run": "first"}),
        ("query", {"run": "first", "sql": "SELECT count(*) FROM op_events"}),
        ("diff", {"base": "first", "candidate": "second"}),
        ("preflight", {"run": "first"}),
        ("rules", {"rule": "host-sync-in-step"}),
        ("query", {"run": "first", "sql": "SELECT * FROM read_text('/etc/passwd')"}),
        ("verdict", {"run": "../outside.xplane.pb"}),
        ("verdict", {"run": "/etc/passwd"}),
        ("verdict", {"run": "link"}),
        ("verdict", {"run": "nothing"}),
    ]
    before = sorted(path for path in tmp_path.rglob("*"))
    tools, heard = talk([runs], calls)
    assert {tool.name for tool in tools} == set(TOOLS)
    assert len(tools) <= 10
    assert all(tool.description for tool in tools)
    assert json.loads(heard[0]) == {"runs": ["first", "second"]}
    verdict = json.loads(heard[1])
    assert verdict["steps"]["count"] == 3
    assert verdict["sentence"]
    assert json.loads(heard[6]) == {"columns": ["count_star()"], "rows": [[6]]}
    assert json.loads(heard[4])["ops"][0]["name"] == "fusion.1"
    assert [text.startswith("!") for text in heard] == [False] * 9 + [heard[9].startswith("!")] + [True] * 5
    assert "query-refused" in heard[10]
    assert "path-outside" in heard[11]
    assert "path-outside" in heard[12]
    assert all("input-not-found" in text or "path-outside" in text for text in heard[13:])
    assert all("root:" not in text for text in heard)
    assert max(map(len, heard)) <= MAX_CHARACTERS
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_http_needs_its_token(runs):
    from mcp.client.streamable_http import streamable_http_client

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "TPUPROF_MCP_TOKEN": "secret"}
    command = [sys.executable, "-m", "tpuprof", "mcp", str(runs), "--http", "--port", str(port)]
    server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    try:
        import httpx2 as httpx

        url = f"http://127.0.0.1:{port}/mcp"
        for _ in range(300):
            try:
                status = httpx.post(url, json={}).status_code
                break
            except httpx.TransportError:
                assert server.poll() is None
                time.sleep(0.1)
        assert status == 401
        assert httpx.post(url, json={}, headers={"Authorization": "Bearer wrong"}).status_code == 401
        bearer = {"Authorization": "Bearer secret"}
        rebound = httpx.post(url, json={}, headers={**bearer, "Host": "evil.example"})
        assert rebound.status_code in (403, 421)

        async def ask():
            async with (
                httpx.AsyncClient(headers=bearer) as web,
                Client(streamable_http_client(url, http_client=web)) as client,
            ):
                return await client.call_tool("verdict", {})

        found = finished(ask, 60)
        assert json.loads(found.content[0].text) == {"runs": ["first", "second"]}
    finally:
        server.terminate()
        server.wait(20)


def test_a_wrong_argument_is_an_error_with_a_code(runs):
    wrong = [
        ("ops", {"run": "first", "by": "nosuch"}, "op, category, program"),
        ("findings", {"run": "first", "status": "nosuch"}, "failed, passed"),
        ("steps", {"run": "first", "number": 999}, "It shows steps 0 to 2."),
        ("evidence", {"run": "first", "rule": "nosuch"}, "Rules are "),
        ("evidence", {"run": "first", "rule": "tracing-bound#99"}, "tracing-bound"),
        ("rules", {"rule": "nosuch"}, "nosuch"),
        ("diff", {"base": "first"}, "candidate: Field required"),
        ("steps", {"run": "first", "number": "x"}, "number: "),
    ]
    _, heard = talk([runs], [(name, arguments) for name, arguments, _ in wrong])
    for text, (_, _, said) in zip(heard, wrong, strict=True):
        assert text.startswith("!")
        assert text.endswith("[usage]"), text
        assert said in text
        assert "\n" not in text
        assert "http" not in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_ends_it_and_its_folder_goes(runs, tmp_path, number):
    (tmp_path / "tmp").mkdir()
    server = subprocess.Popen(
        [sys.executable, "-m", "tpuprof", "mcp", str(runs)],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        params = {
            "protocolVersion": "2025-03-26",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        server.stdin.write(json.dumps(hello) + "\n")
        server.stdin.flush()
        assert "result" in json.loads(server.stdout.readline())
        assert len(list((tmp_path / "tmp").glob("tpuprof-mcp-*"))) == 1
        server.send_signal(number)
        assert server.wait(10) == 128 + number
        assert server.stderr.read() == ""
        assert not list((tmp_path / "tmp").iterdir())
    finally:
        server.kill()


def test_a_work_folder_that_cannot_be_made_is_said_in_one_line(runs):
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "mcp", str(runs), "--work", "/dev/null/w"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("tpuprof: /dev/null/w: cannot be written")
    assert done.stderr.endswith("[output-failed]\n")


def test_paths_outside_are_not_read(runs, tmp_path):
    roots = Roots([runs])
    for name in (
        "../outside.xplane.pb",
        str(tmp_path / "outside.xplane.pb"),
        "first/../../outside.xplane.pb",
    ):
        with pytest.raises(TpuprofError) as error:
            roots.open(name)
        assert error.value.code is Code.PATH_OUTSIDE
    for name in ("link", "a\0b", "missing"):
        with pytest.raises(TpuprofError):
            roots.open(name)
    assert roots.open(str(runs / "first")).hosts == ["h"]


def test_a_run_that_changes_is_read_again(runs):
    tools = Tools(Roots([runs]))
    sql = "SELECT count(*) FROM op_events"
    assert json.loads(tools.query("first", sql))["rows"] == [[6]]
    path = runs / "first" / "plugins" / "profile" / "s" / "h.xplane.pb"
    trace = trained()
    trace.tpu(0).line("XLA Ops").event("%x.1 = f32[8]{0} fusion(f32[8]{0} %p)", 2900, 1)
    trace.write(path)
    os.utime(path, ns=(1, 1))
    assert json.loads(tools.query("first", sql))["rows"] == [[7]]


def test_answers_are_small_and_say_what_they_leave_out(runs):
    tools = Tools(Roots([runs]))
    found = json.loads(tools.query("first", "SELECT range, repeat('x', 500) FROM range(1000)", 1000))
    assert found["rows_left_out"] + len(found["rows"]) == 1000
    assert (
        len(tools.query("first", "SELECT range, repeat('x', 500) FROM range(1000)", 1000)) <= MAX_CHARACTERS
    )


@pytest.mark.parametrize("sample", ["recompile_shapes", "decoder_fsdpv2", "predicted_decoder_scan"])
def test_answers_of_samples_are_small(samples, sample):
    tools = Tools(Roots([samples]))
    rule = json.loads(tools.findings(sample))["findings"]
    texts = [
        tools.verdict(sample),
        tools.findings(sample),
        tools.findings(sample, "all"),
        tools.steps(sample),
    ]
    texts += [tools.ops(sample, by) for by in ("op", "category", "program", "annotation", "source")]
    texts += [tools.compiles(sample), tools.preflight(sample), tools.rules()]
    texts += [tools.evidence(sample, each["rule"]) for each in rule]
    assert max(map(len, texts)) <= MAX_CHARACTERS
    assert all(json.loads(text) for text in texts)
    for each in rule:
        assert (
            json.loads(tools.evidence(sample, each["evidence_ids"][0]))["evidence"][0]["id"]
            == each["evidence_ids"][0]
        )


def test_a_run_without_steps_has_none_in_every_answer():
    report = reports.without_steps()
    tools = Tools(SimpleNamespace(open=lambda run: SimpleNamespace(report=report)))
    found = json.loads(tools.steps())
    assert (found["count"], found.get("steps"), found["note"]) == (0, None, report.steps.note)
