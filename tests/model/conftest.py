"""Reads built traces through the whole way from bytes to a run."""

import pytest

from tpuprof.analysis.analyze import analyze_run, report_of
from tpuprof.decode.find import Found, find
from tpuprof.model.run import build_run


@pytest.fixture
def read(tmp_path):
    """Write a trace and read its first host back."""

    def reader(trace):
        return build_run(find(trace.write(tmp_path / "host.xplane.pb"))).hosts[0]

    return reader


@pytest.fixture
def analyze(tmp_path):
    """Write a trace (or several, one a host) and analyze it."""

    def analyzer(*traces):
        files = {f"host{i}": trace.write(tmp_path / f"host{i}.xplane.pb") for i, trace in enumerate(traces)}
        return report_of(build_run(Found(files, None))) if len(files) > 1 else analyze_run(files["host0"])

    return analyzer
