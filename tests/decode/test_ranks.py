"""Several processes of one host, by the names of their profiles."""

import io

import pytest
from rich.console import Console

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode.find import find
from tpuprof.decode.ranks import machines
from tpuprof.render.text import render


def torch_tpu_trace():
    trace = TraceBuilder()
    main, run = (trace.host().line(name) for name in ("python", "python "))
    for number in range(4):
        main.event("ProfilerStep", number * 1000, 990).event("aten::linear", number * 1000 + 10, 500)
        run.event("ExecutionTask::Run", number * 1000 + 20, 30)
    return trace


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        (["vm_0", "vm_1"], 1),
        (["vm_0", "vm_1", "other_2", "other_3"], 2),
        (["rank0_vm", "rank1_vm"], 1),
        (["vm-p0", "vm-p1"], 1),
        (["vm_0", "vm"], 2),  # one has no rank
        (["vm_0", "rank1_vm"], 2),  # two forms
        (["a_0", "b_0"], 2),  # a rank that is there twice is none
        (["vm_0"], 1),
    ],
)
def test_hosts_are_counted_by_the_names_of_their_processes(names, hosts):
    assert machines(names, torch_tpu=True) == hosts


def test_other_frameworks_name_hosts_as_they_like():
    assert machines(["node_0", "node_1"], torch_tpu=False) == 2


@pytest.mark.parametrize("form", ["vm_{}", "rank{}_vm"])
def test_files_of_ranks_are_processes_of_one_host_in_order(tmp_path, form):
    session = tmp_path / "plugins" / "profile" / "one"
    session.mkdir(parents=True)
    for rank in (0, 1, 2, 10):
        torch_tpu_trace().write(session / f"{form.format(rank)}.xplane.pb")
    assert list(find(tmp_path).files) == [form.format(rank) for rank in (0, 1, 2, 10)]
    report = analyze_run(tmp_path)
    assert (report.environment["host_count"], report.environment["machine_count"]) == (4, 1)
    shown = io.StringIO()
    render(report, Console(file=shown, width=300))
    assert "no device plane in 4 processes of 1 host" in shown.getvalue()
