"""The Chrome JSON of a window: what Perfetto opens, and what tpuprof itself reads back."""

import gzip
import json

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.decode import xplane
from tpuprof.export.chrome_json import chrome_json
from tpuprof.model.timeline import build_host


@pytest.fixture
def host():
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(10):
        python.event(f"work {number}", 100 * number, 10 + number)
    trace.tpu(0).line("XLA Ops").event(start=0, duration=50, **op("fusion.1"))
    return build_host(xplane.parse(trace.to_bytes(), "x"), "x")


def events(data):
    return [each for each in json.loads(gzip.decompress(data))["traceEvents"] if each["ph"] == "X"]


def test_every_event_of_the_window_is_written_in_microseconds(host):
    data, left_out = chrome_json(host, 0, 250_000_000)
    assert left_out == 0
    found = {each["name"].split(" = ")[0]: (each["ts"], each["dur"]) for each in events(data)}
    assert found == {"work 0": (0, 10), "work 1": (100, 11), "work 2": (200, 12), "%fusion.1": (0, 50)}


def test_of_too_many_events_the_longest_are_kept_and_the_rest_counted(host):
    data, left_out = chrome_json(host, 0, 10**12, most=4)
    assert left_out == 7
    assert {each["dur"] for each in events(data)} == {50, 19, 18, 17}


def test_lines_are_named(host):
    every = json.loads(gzip.decompress(chrome_json(host, 0, 10**12)[0]))["traceEvents"]
    names = {each["args"]["name"] for each in every if each["ph"] == "M"}
    assert {"python", "XLA Ops", "/device:TPU:0"} <= names
