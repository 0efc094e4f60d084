"""Ledgers and notes of whoever meant harm: right checksums around absurd values, pipes, names that are markup."""

import json
import os
import struct
from io import StringIO

import pytest
from rich.console import Console

from tests.watch.simulated import Training
from tpuprof.goodput import history, jobs
from tpuprof.json_notes import parse_json, read_json
from tpuprof.ledger import blocks, rows
from tpuprof.ledger.blocks import Kind
from tpuprof.ledger.rows import LARGEST, Row
from tpuprof.watch.follow import picture, read_jobs

EXTREMES = (-(2**63), -(2**62), -1, 0, 1, 2**62, 2**63 - 1)


def block(kind, value):
    return blocks.encode(kind, json.dumps(value).encode())


def written(folder, *parts, name="h-1"):
    path = folder / "ledgers" / f"{name}.ledger"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(parts))
    return folder


def said(folder):
    """What goodput and history print, once as text and once as JSON."""
    out = StringIO()
    console = Console(file=out, width=200)
    found = jobs.goodput_of(folder)
    jobs.render(found, console)
    json.dumps(jobs.as_dict(found), allow_nan=False)
    runs = history.history_of(folder)
    history.render(runs, console)
    json.dumps(history.as_dict(runs), allow_nan=False)
    return out.getvalue()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", EXTREMES)
def test_rows_beyond_what_a_clock_reads(tmp_path, value):
    table = [Row(*[value] * len(Row._fields)), Row(1, 10, 20), Row(*[value] * len(Row._fields))] * 20
    life = blocks.encode(Kind.LIFE, struct.pack("<qq", value, -value if value > -(2**63) else value))
    said(
        written(
            tmp_path, block(Kind.META, {"job": "j"}), life, blocks.encode(Kind.STEPS, rows.encode(0, table))
        )
    )


def test_columns_are_within_what_their_users_can_add_up():
    _, columns = rows.decode(rows.encode(0, [Row(*[2**63 - 1] * len(Row._fields))] * 3))
    assert int(columns["start_ns"].max()) <= LARGEST
    assert int(columns["compile_us"].max()) <= LARGEST


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "compile", "at_ns": 5},
        {"kind": "compile", "at_ns": 5, "seconds": "x"},
        {"kind": "compile", "at_ns": 5, "seconds": 1e300},
        {"kind": "compile", "at_ns": 5, "seconds": float("inf")},
        {"kind": "compile", "at_ns": 10**30, "seconds": 1},
        {"kind": "span", "at_ns": 5, "until_ns": 10**30},
        {"kind": "span", "at_ns": 5, "until_ns": "x", "name": []},
        {"kind": "clock_jump", "at_ns": 5, "seconds": None},
        {"kind": "rows_lost", "at_ns": 5, "rows": {}},
        {"kind": [], "at_ns": 5},
        {"kind": "end", "at_ns": 5, "how": {"a": 1}},
        [],
        None,
    ],
)
@pytest.mark.filterwarnings("error")
def test_events_that_no_writer_writes(tmp_path, event):
    table = blocks.encode(Kind.STEPS, rows.encode(0, [Row(n, 1000 * n, 900) for n in range(30)]))
    said(written(tmp_path, block(Kind.META, {}), table, block(Kind.EVENTS, {"first": 0, "events": [event]})))


@pytest.mark.parametrize(
    "meta", [[], [1], "", 3, None, {"started_ns": 10**30}, {"command": {"a": 1}, "rank": True, "job": []}]
)
def test_descriptions_that_no_writer_writes(tmp_path, meta):
    said(written(tmp_path, block(Kind.META, meta), blocks.encode(Kind.EVENTS, b"[" * 200_000)))


def test_names_are_text_and_no_markup(tmp_path):
    name = "h[red]-1\x1b[31m"
    meta = {"job": "[/job]", "commit": "[/x]\x1b[0m", "command": ["[bold]", "[/y]"], "rank": 0}
    steps = blocks.encode(Kind.STEPS, rows.encode(0, [Row(n, 1000 * n, 900) for n in range(30)]))
    text = said(written(tmp_path, block(Kind.META, meta), steps, name=name))
    assert "[/job]" in text
    assert "[/x]" in text
    assert "h[red]-1" in text
    assert "\x1b" not in text


@pytest.fixture
def watched(tmp_path):
    """A job of two processes with their states and a verdict."""
    training = Training(tmp_path)
    for _ in range(40):
        training.step()
    state = {"job": "j", "wall_seconds": 1e18, "own_work_seconds": 1.0, "step": 3, "median_step_seconds": 1.0}
    (tmp_path / "status").mkdir()
    for name in ("sim", "a[bold]", "b"):
        (tmp_path / "status" / f"{name}.json").write_text(json.dumps({**state, "host": name}), "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "change",
    [
        {"last_anomalies": 3},
        {"last_anomalies": [3, {"kind": {}, "step": []}]},
        {"host": "[/x]\x1b[31m", "problem": "[/y]", "ended": ["x"]},
        {"rank": 10**30, "step": 1e300},
        {"wall_seconds": float("nan"), "median_step_seconds": float("inf")},
        {"own_work_seconds": 5e-324},
        {"job": None, "samples_per_second": 1e308},
    ],
)
def test_states_that_no_process_writes(watched, change):
    path = watched / "status" / "sim.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change), "utf-8")
    (watched / "captures" / "one").mkdir(parents=True)
    (watched / "captures" / "one" / "verdict.json").write_text('{"anomaly": {"kind": {}, "step": []}}')
    out = StringIO()
    Console(file=out, width=200).print(picture(read_jobs(watched)))
    assert "a[bold]" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_a_pipe_is_not_waited_for(watched):
    for each in (watched / "status" / "sim.json", *(watched / "ledgers").iterdir()):
        each.unlink()
        os.mkfifo(each)
    assert read_jobs(watched)
    with pytest.raises(OSError, match="not a regular file"):
        read_json(watched / "status" / "sim.json")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[NaN, -Infinity, 1e999, 1e3]", [None, None, None, 1000.0]),
        (f"[{2**63 - 1}, {2**63}, -{10**30}]", [2**63 - 1, None, None]),
        (r'{"a\ud800": "\ud83d\ude00"}', {"a?": "\N{GRINNING FACE}"}),
    ],
)
def test_values_that_nobody_can_hold_are_unknown(text, value):
    assert parse_json(text) == value


@pytest.mark.parametrize("text", ["[" * 200_000, "", "{", b"\xff", "9" * 5000])
def test_what_is_no_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_json(text)
