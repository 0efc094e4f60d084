"""A run of many hosts is read by several processes, and its report is that of one."""

import json
import os
import subprocess
import sys
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

import pytest

from tests.builders import TraceBuilder, op
from tpuprof import parallel
from tpuprof.analysis import processes as several
from tpuprof.analysis.analyze import analyze_run
from tpuprof.analysis.processes import processes
from tpuprof.decode.find import find
from tpuprof.model.run import build_run

HOSTS = 6


@pytest.fixture
def pod(tmp_path):
    """Hosts that run the same program; the third is damaged."""
    for number in range(HOSTS):
        trace = TraceBuilder()
        python, device = trace.host().line("python"), trace.tpu(number)
        for step in range(6):
            at = step * 1000
            python.event("train_step", at, 1000, _r=1, step_num=step)
            device.line("XLA Modules").event("step(1)", at + 100 * number, 400)
            device.line("XLA Ops").event(start=at + 100 * number, duration=390, **op("fusion.1"))
        trace.write(tmp_path / f"host{number}.xplane.pb")
    damaged = tmp_path / "host2.xplane.pb"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    return tmp_path


def program(folder, cores, code):
    """What a fresh process prints that takes any run for a large one and has so many cores."""
    text = (
        "import os, sys\n"
        "from tpuprof.analysis import processes\n"
        "from tpuprof import parallel\n"
        "processes.BYTES_FROM = 0\n"
        f"parallel.threads = lambda: {cores}\n"
        f"{code}\n"
    )
    environment = {**os.environ, "TPUPROF_CACHE_DIR": str(folder / f"cache{cores}")}
    return subprocess.run(
        [sys.executable, "-c", text, str(folder)], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_the_report_is_that_of_one_process(pod):
    code = "from pathlib import Path; from tpuprof.cli.opening import open_json; print(open_json(Path(sys.argv[1])))"
    one, several = (json.loads(program(pod, cores, code)) for cores in (1, 2))
    assert one == several
    assert several["environment"]["host_count"] == HOSTS - 1
    assert list(several["environment"]["unread_hosts"]) == ["host2"]


def test_a_process_that_dies_loses_no_host(pod, monkeypatch):
    monkeypatch.setattr(several, "BYTES_FROM", 0)
    monkeypatch.setattr(parallel, "threads", lambda: 2)
    found = find(pod)
    with processes(found) as executor:
        executor.submit(os._exit, 1)
        run = build_run(found, executor)
    assert [host.name for host in run.hosts] == [f"host{number}" for number in range(HOSTS) if number != 2]
    assert analyze_run(pod).steps.count == 6


@pytest.mark.parametrize("error", [BrokenExecutor("gone"), OSError("handle is closed")])
def test_no_host_is_lost_where_no_process_can_be_started(pod, monkeypatch, error):
    def fails(*_):
        raise error

    with several.pool_of(1) as pool:
        monkeypatch.setattr(ProcessPoolExecutor, "submit", fails)
        run = build_run(find(pod), pool)
    assert [host.name for host in run.hosts] == [f"host{number}" for number in range(HOSTS) if number != 2]


@pytest.mark.parametrize(("files", "size", "cores"), [(3, 1, 2), (6, 0, 2), (6, 1, 1)])
def test_a_small_run_is_read_by_one_process(pod, monkeypatch, files, size, cores):
    for number in range(files, HOSTS):
        (pod / f"host{number}.xplane.pb").unlink()
    if size:
        monkeypatch.setattr(several, "BYTES_FROM", 0)
    monkeypatch.setattr(parallel, "threads", lambda: cores)
    with processes(find(pod)) as executor:
        assert executor is None
