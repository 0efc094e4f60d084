"""Samples per second come from what the program states of its batches."""

import pytest

from tpuprof.analysis.sections.throughput import NO_TIME, NOT_STATED, PARTLY, throughput_section
from tpuprof.instrument.state import STATE
from tpuprof.instrument.step import step
from tpuprof.model.telemetry import StepRecord, counted, step_records
from tpuprof.report.labels import format_rate


def record(number, samples, ms=100, captured=True):
    return StepRecord(number, ms * 1_000_000, captured, samples=samples)


def section(*hosts):
    return throughput_section([counted(list(rows)) for rows in hosts])


def test_samples_over_the_time_of_captured_steps():
    found = section([record(0, 8, ms=900, captured=False), record(1, 32), record(2, 64, ms=300)])
    assert (found.samples_per_step, found.samples_per_s) == (48, pytest.approx(96 / 0.4))


def test_processes_of_a_host_and_hosts_add_up():
    two_processes = [record(1, 32), record(2, 32), record(1, 32), record(2, 32)]
    found = section(two_processes, two_processes)
    assert (found.samples_per_step, found.samples_per_s) == (128, pytest.approx(1280))


@pytest.mark.parametrize(
    ("hosts", "reason"),
    [
        ([[]], NOT_STATED),
        ([[record(1, None)]], NOT_STATED),
        ([[record(1, 8), record(2, None)]], PARTLY),
        ([[record(1, 8)], []], PARTLY),
        ([[record(1, 8, ms=0)]], NO_TIME),
    ],
)
def test_what_is_not_stated_is_unavailable(hosts, reason):
    found = section(*hosts)
    assert (found.samples_per_step, found.samples_per_s, found.unavailable) == (None, None, reason)


@pytest.mark.parametrize(
    ("stated", "read"),
    [("32", 32.0), ("null", None), ("-1", None), ("NaN", None), ("0", None), ('"x"', "skip")],
)
def test_a_number_of_samples_is_positive_and_finite(tmp_path, stated, read):
    (tmp_path / "tpuprof").mkdir()
    line = f'{{"step": 1, "compiles": [], "captured": true, "wall_ns": 5, "samples": {stated}}}\n'
    (tmp_path / "tpuprof" / "telemetry.host.0.jsonl").write_text(line)
    rows = step_records(tmp_path, "host")
    assert [each.samples for each in rows] == ([] if read == "skip" else [read])


def test_a_tensor_is_left_out_since_reading_it_would_wait(monkeypatch):
    told = []
    monkeypatch.setattr(STATE, "listeners", [lambda number, samples: told.append((number, samples))])
    step(1, samples=32)
    step(2, samples=object())
    with step(3):
        pass
    assert told == [(1, 32), (2, None), (3, None)]


@pytest.mark.parametrize(
    ("rate", "text"), [(0.1234, "0.123"), (99.94, "99.9"), (100, "100"), (12345.6, "12,346")]
)
def test_a_rate_has_three_figures(rate, text):
    assert format_rate(rate) == text
