"""Tables of a run hold what the trace holds, with the schema that docs/tables.md states."""

import pytest

import tpuprof
from tests.builders import TraceBuilder, op
from tests.model.test_links import launches
from tpuprof.decode import xplane_pb2
from tpuprof.tables import build
from tpuprof.tables.schema import BY_NAME, TABLES

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

PS_PER_US = 1_000_000


def trained(*, late=0):
    """Three steps of 1 ms: an op of 300 us, one of 100 us inside a host event, and a gap between."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for step in range(3):
        at = 1000 * step
        python.event("train_step", at, 1000, _r=1, step_num=step)
        python.event("load", at + 600 + late, 200)
        trace.tpu(0).line("XLA Modules").event("step(7)", at + 100, 500)
        ops = trace.tpu(0).line("XLA Ops")
        ops.event(start=at + 100, duration=300, **op("fusion.1"))
        ops.event(start=at + 500, duration=100 + step, **op("copy.2", "copy"))
    return trace


@pytest.fixture
def run(tmp_path):
    trained().write(tmp_path / "a.xplane.pb")
    return tpuprof.open(tmp_path / "a.xplane.pb")


@pytest.fixture
def two_hosts(tmp_path):
    folder = tmp_path / "plugins" / "profile" / "s"
    trained().write(folder / "host0.xplane.pb")
    trained(late=50).write(folder / "host1.xplane.pb")
    return tpuprof.open(tmp_path)


def test_every_table_has_its_schema(run):
    for table in TABLES:
        made = run.table(table.name)
        made.validate(full=True)
        assert made.schema.names == table.column_names
        for column in table.columns:
            assert column.nullable or not made[column.name].null_count, (table.name, column.name)
    assert run.tables == [table.name for table in TABLES]


def test_steps_and_parts_sum_exactly(run):
    steps = run.table("steps").to_pylist()
    assert [(row["host"], row["step"], row["duration_ps"]) for row in steps] == [
        ("a", step, 1000 * PS_PER_US) for step in range(3)
    ]
    spent = {}
    for row in run.table("parts").to_pylist():
        assert row["duration_ps"] > 0
        spent[row["step"]] = spent.get(row["step"], 0) + row["duration_ps"]
    assert spent == dict.fromkeys(range(3), 1000 * PS_PER_US)


def test_events_join_their_ops(run):
    ops = {row["op_id"]: row for row in run.table("ops").to_pylist()}
    events = run.table("op_events").to_pylist()
    assert len(events) == 6
    for op_id, row in ops.items():
        own = [each for each in events if each["op_id"] == op_id]
        assert {each["op"] for each in own} == {row["op"]}
        assert row["total_ps"] == sum(each["duration_ps"] for each in own)
        assert row["occurrences_count"] == len(own) == 3
    assert [each["step"] for each in events if each["op"] == "copy.2"] == [0, 1, 2]
    assert [each["start_ps"] for each in events if each["op"] == "fusion.1"] == [
        at * PS_PER_US for at in (100, 1100, 2100)
    ]


def test_host_events_have_self_time(run):
    rows = run.table("host_events").to_pylist()
    assert [row["self_ps"] for row in rows if row["event"] == "train_step"] == [800 * PS_PER_US] * 3
    assert [row["self_ps"] for row in rows if row["event"] == "load"] == [200 * PS_PER_US] * 3


def test_hand_overs_lead_from_calls_to_device_runs(tmp_path):
    run = tpuprof.open(launches().write(tmp_path / "a.xplane.pb"))
    rows = run.table("hand_overs").to_pylist()
    assert [(row["from_event"], row["to_plane"], row["to_event"], row["step"]) for row in rows] == [
        ("Execute", "/host:CPU", "Issue", 0),
        ("Execute", "/host:CPU", "Issue", 1),
        ("Enqueue", "/device:TPU:0", "step(7)", 0),
        ("Enqueue", "/device:TPU:0", "step(7)", 1),
    ]
    assert {row["to_start_ps"] - row["start_ps"] for row in rows[2:]} == {90 * PS_PER_US}
    assert rows[3]["to_duration_ps"] == 400 * PS_PER_US


def test_an_event_outside_steps_has_no_step(tmp_path):
    trace = trained()
    trace.tpu(0).line("XLA Ops").event(start=5000, duration=10, **op("late.9"))
    trace.write(tmp_path / "a.xplane.pb")
    answer = tpuprof.open(tmp_path / "a.xplane.pb").query("SELECT step FROM op_events WHERE op = 'late.9'")
    assert answer.rows == [(None,)]


def test_every_host_has_its_rows(two_hosts):
    answer = two_hosts.query("SELECT host, count(*) FROM op_events GROUP BY host ORDER BY host")
    assert answer.rows == [("host0", 6), ("host1", 6)]
    starts = two_hosts.query("SELECT host, min(start_ps) FROM host_events WHERE event = 'load' GROUP BY ALL")
    assert dict(starts.rows) == {"host0": 600 * PS_PER_US, "host1": 650 * PS_PER_US}


def test_findings_have_their_evidence(samples):
    run = tpuprof.open(samples / "recompile_shapes")
    rows = run.query("SELECT e.evidence_id, f.status FROM evidence e JOIN findings f USING (rule)").rows
    (first,) = [status for name, status in rows if name == "recompiles-shape#1"]
    assert first == "failed"
    assert run.evidence("recompiles-shape")["recompiles-shape#1"].step == 7


def test_a_saved_report_has_findings_and_no_events(samples, tmp_path):
    tpuprof.open(samples / "recompile_shapes").save(tmp_path / "r.json", redact=False)
    saved = tpuprof.open(tmp_path / "r.json")
    assert saved.table("findings").num_rows > 0
    with pytest.raises(tpuprof.TpuprofError, match="input-no-trace"):
        saved.table("op_events")


def test_an_unknown_table_is_named(run):
    with pytest.raises(tpuprof.TpuprofError, match=r"opevents.*op_events.*\[usage\]"):
        run.table("opevents")


def test_text_that_is_hostile_comes_through(tmp_path):
    name = "x'; DROP TABLE steps; --<script>\x1b[31m\U0001f600"
    trace = trained()
    trace.host().line("python").event(name, 10, 5)
    trace.write(tmp_path / "a.xplane.pb")
    answer = tpuprof.open(tmp_path / "a.xplane.pb").query(
        "SELECT event FROM host_events WHERE event LIKE '%DROP%'"
    )
    assert answer.rows == [(name,)]


def test_tables_are_decoded_when_a_query_names_them(run, monkeypatch):
    made = []
    real = build.build_table

    def recorded(source, name):
        made.append(name)
        return real(source, name)

    monkeypatch.setattr("tpuprof.tables.query.build_table", recorded)
    run.query("WITH ops AS (SELECT 1 AS op) SELECT s.step FROM Steps s, ops -- op_events")
    run.query("DESCRIBE host_events")
    assert "op_events" not in made
    assert "host_events" not in made
    assert "steps" in made


@pytest.mark.parametrize("sample", ["recompile_shapes", "decoder_fsdpv2", "predicted_decoder_loop"])
def test_op_events_are_those_of_the_file(samples, sample):
    """Counted from the protobuf itself, without any of our decoders."""
    run = tpuprof.open(samples / sample)
    path = next(iter((samples / sample).rglob("*.xplane.pb")))
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    on_device = [plane for plane in space.planes if plane.name.startswith(b"/device:TPU")]
    count = host_ps = 0
    if on_device:
        count = sum(len(line.events) for p in on_device for line in p.lines if line.name == b"XLA Ops")
    for plane in space.planes:
        keys = {key for key, each in plane.stat_metadata.items() if each.name == b"hlo_op"}
        if plane.name != b"/host:CPU":
            continue
        for line in plane.lines:
            host_ps += sum(event.duration_ps for event in line.events)
            if not on_device:
                count += sum(any(s.metadata_id in keys for s in e.stats) for e in line.events)
    answer = run.query("SELECT count(*) FROM op_events WHERE line = 'core'")
    assert answer.rows == [(count,)]
    assert run.query("SELECT coalesce(sum(duration_ps), 0) FROM host_events").rows == [(host_ps,)]


@pytest.mark.shared_traces
def test_op_totals_are_those_of_xprof(shared_traces):
    """XProf's HLO statistics sum over the cores; occurrences are exact, times to its printed digits."""
    pytest.importorskip("xprof")
    from tests import xprof_numbers

    source = shared_traces / "tpu_v6e_host_offload" / "host0.xplane.pb"
    theirs = xprof_numbers.op_totals(source)
    sql = "SELECT program, op, sum(occurrences_count), sum(clock_ps) / 1e9 FROM ops WHERE line = 'core' GROUP BY ALL"
    ours = {
        (program.rpartition("(")[2].rstrip(")"), name): (int(count), ms)
        for program, name, count, ms in tpuprof.open(source).query(sql).rows
    }
    assert set(ours) == set(theirs)
    assert {key: each[0] for key, each in ours.items()} == {key: each[0] for key, each in theirs.items()}
    for key, (_, ms) in theirs.items():
        if ms >= 0.01:
            assert ours[key][1] == pytest.approx(ms, rel=0.001), key


def test_the_schema_only_grows():
    """Names of the first version; the set may only grow."""
    first = {
        "steps": {"host", "step", "start_ps", "duration_ps"},
        "parts": {"host", "step", "part", "duration_ps"},
        "ops": {
            "host",
            "device",
            "op_id",
            "program",
            "op",
            "kind",
            "total_ps",
            "self_ps",
            "occurrences_count",
        },
        "op_events": {"host", "device", "op", "step", "start_ps", "duration_ps", "self_ps"},
        "host_events": {"host", "thread", "event", "step", "start_ps", "duration_ps", "self_ps"},
        "compiles": {"host", "step", "start_ps", "duration_ps", "cause", "source"},
        "transfers": {"host", "device", "kind", "moved_bytes", "exposed_ps", "hidden_ps"},
        "memory": {"host", "device_index", "start_ps", "in_use_bytes"},
        "counters": {"host", "step", "name", "increase_count"},
        "findings": {"rule", "status", "title", "saving_low_ms", "saving_high_ms"},
    }
    for name, columns in first.items():
        assert columns <= set(BY_NAME[name].column_names)
