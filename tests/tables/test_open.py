"""`tpuprof.open`: lazy, and with what the command line does."""

import gzip
import json
import subprocess
import sys
from dataclasses import replace

import pytest

import tpuprof
from tests.tables.test_tables import trained
from tests.watch.simulated import Training
from tpuprof.compare.decision import Outcome

# What docs/python-api.md promises: parameters by name, which may only grow.
PROMISED = {
    "findings": ["status"],
    "finding": ["rule"],
    "evidence": ["rule"],
    "what_if": ["rules"],
    "compare": ["candidate"],
    "check": ["budget", "baseline"],
    "table": ["name"],
    "query": ["sql", "most", "time_limit_s"],
    "export": ["folder", "tables", "force"],
    "save": ["path", "redact"],
    "save_window": ["path", "host", "start_ps", "end_ps"],
    "write_notes": ["notes"],
    "program_change": ["compiled"],
    "notes": None,
    "close": [],
    "report": None,
    "verdict": None,
    "hosts": None,
    "paths": None,
    "tables": None,
}


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
    run = tpuprof.open(tmp_path / "absent")
    assert run.paths == [tmp_path / "absent"]
    with pytest.raises(tpuprof.TpuprofError, match="input-not-found"):
        _ = run.report


def test_opening_imports_next_to_nothing():
    code = (
        "import sys, tpuprof; tpuprof.open('x'); "
        "print([m for m in ('numpy', 'pyarrow', 'duckdb', 'torch', 'rich', 'typer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_says_what_the_command_says(samples):
    run = tpuprof.open(samples / "recompile_shapes")
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "analyze", str(samples / "recompile_shapes"), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(done.stdout)
    assert run.verdict.sentence == said["verdict"]["sentence"]
    assert json.loads(json.dumps(run.report.to_dict())) == said
    failed = [each["rule"] for each in said["findings"] if each["status"] == "failed"]
    assert sorted(each.rule for each in run.findings()) == sorted(failed)
    assert [each.severity for each in run.findings()] == sorted(
        (f.severity for f in run.findings()), reverse=True
    )


def test_what_if_is_within_the_measured_step(samples):
    run = tpuprof.open(samples / "recompile_shapes")
    found = run.what_if(["recompiles-shape"])
    assert 0 < found.low_ms <= found.high_ms <= found.measured_ms


def test_compare_with_itself_finds_nothing(samples):
    run = tpuprof.open(samples / "input_starved")
    assert run.compare(samples / "input_starved").outcome is Outcome.SAME


def test_check_holds_a_budget(samples, tmp_path):
    budget = tmp_path / "tpuprof.toml"
    budget.write_text("[budget]\nrecompiles = { max = 0 }\n")
    (result,) = tpuprof.open(samples / "recompile_shapes").check(budget)
    assert result.fails


@pytest.mark.parametrize("suffix", [".html", ".md", ".json", ".zip"])
def test_save_writes_what_can_be_sent(tmp_path, suffix):
    trained().write(tmp_path / "a.xplane.pb")
    out = tmp_path / f"report{suffix}"
    assert isinstance(tpuprof.open(tmp_path / "a.xplane.pb").save(out), list)
    assert out.stat().st_size > 500


def test_notes_are_those_of_the_dashboard(tmp_path, monkeypatch):
    from tpuprof.report.span_note import SpanNote

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = tpuprof.open(trained().write(tmp_path / "a.xplane.pb"))
    note = SpanNote("a", "python", "load", 600_000, 200_000, "slow", "2026-11-23T05:00:00+00:00")
    assert run.notes == []
    run.write_notes([note])
    assert run.notes == [note]
    assert run.table("span_notes").to_pylist()[0]["text"] == "slow"
    run.write_notes([])
    assert run.notes == []


def test_a_window_is_written_for_perfetto(tmp_path):
    run = tpuprof.open(trained().write(tmp_path / "a.xplane.pb"))
    assert run.save_window(tmp_path / "w.json.gz", "a", 1_600_000_000, 1_700_000_000) == 0
    events = json.loads(gzip.decompress((tmp_path / "w.json.gz").read_bytes()))["traceEvents"]
    assert [each["name"] for each in events if each["ph"] == "X"].count("load") == 1
    with pytest.raises(tpuprof.TpuprofError, match="no such host"):
        run.save_window(tmp_path / "w.json.gz", "b", 0, 1)


def test_a_compile_names_what_its_program_has_newly(samples):
    run = tpuprof.open(samples / "recompile_shapes")
    compared, refused = [], []
    for row in run.report.compiles:
        try:
            compared.append((row, run.program_change(row)))
        except tpuprof.TpuprofError as error:
            refused.append(error.code)
    with pytest.raises(tpuprof.TpuprofError, match="no such host") as raised:
        run.program_change(replace(row, host="of another run"))
    assert raised.value.code == "usage"
    assert set(refused) <= {"input-no-program"}
    for row, found in compared:
        assert row.cause.kind == "shape"
        assert found.added > 0
        assert any(line.kind == "added" and "f32[" in line.text for line in found.lines)
    assert compared


def test_a_watched_job_is_read_as_the_commands_read_it(tmp_path):
    training = Training(tmp_path, step_seconds=0.5)
    for _ in range(40):
        training.step()
    training.ledger.close("exit")
    job = tpuprof.open_job(tmp_path)
    (found,) = job.goodput()
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "goodput", str(tmp_path), "--json"], capture_output=True, check=True
    )
    (said,) = json.loads(done.stdout)["jobs"]
    assert (found.job, found.account.goodput) == (said["job"], said["goodput"])
    assert [each.steps for each in job.history()["month"]] == [40]
    assert job.proofs() == []
    (tmp_path / "empty").mkdir()
    with pytest.raises(tpuprof.TpuprofError, match="input-no-ledger"):
        tpuprof.open_job(tmp_path / "empty").goodput()


def test_rules_have_their_texts():
    ids = {rule.id for rule in tpuprof.all_rules()}
    assert {"input-starved", "device-to-host-sync"} <= ids
    assert "## How to fix" in tpuprof.find_rule("input-starved").text


def test_close_reads_again(tmp_path):
    path = trained().write(tmp_path / "a.xplane.pb")
    with tpuprof.open(path) as run:
        assert run.hosts == ["a"]
        first = run.report
        assert run.report is first
    assert run.report is not first


def test_what_is_promised_is_there():
    import inspect

    for name, parameters in PROMISED.items():
        member = getattr(tpuprof.OpenRun, name)
        if parameters is None:
            assert isinstance(member, property), name
        else:
            assert [each for each in inspect.signature(member).parameters if each != "self"][
                : len(parameters)
            ] == parameters
            assert (member.__doc__ or "").strip(), name
