"""The same tasks on a Dask cluster: the same report, also where a worker dies in the middle."""

import os
import signal

import pytest

from tests.pod.pods import trace
from tpuprof.errors import Code, TpuprofError
from tpuprof.pod import execute
from tpuprof.pod.analyze import analyze_pod
from tpuprof.report.as_json import to_json

HOSTS = 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("pod") / "plugins" / "profile" / "x"
    found.mkdir(parents=True)
    for row in range(HOSTS):
        late = (300, 300) if row == 3 else (0, 300)
        (found / f"h{row}.xplane.pb").write_bytes(trace(late).space.SerializeToString())
    whole = (found / "h8.xplane.pb").read_bytes()
    (found / "h8.xplane.pb").write_bytes(whole[: len(whole) // 2])
    return found


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as found:
        yield found


def test_a_worker_killed_in_the_middle_changes_nothing(folder, cluster):
    expected = to_json(analyze_pod(folder))
    pids = [worker.pid for worker in cluster.workers.values()]
    assert len(pids) == 3
    seen = []

    def progress(now):
        seen.append((now.done, now.failed, now.left))
        if len(seen) == 2:
            os.kill(pids[0], signal.SIGKILL)

    found = to_json(analyze_pod(folder, dask=cluster.scheduler_address, progress=progress))
    assert found == expected
    assert [sum(each) for each in seen] == [HOSTS] * HOSTS
    assert seen[-1] == (HOSTS - 1, 1, 0)


def test_no_scheduler_is_an_error(folder, monkeypatch):
    monkeypatch.setattr(execute, "CONNECT_WITHIN", 0.5)
    with pytest.raises(TpuprofError) as caught:
        analyze_pod(folder, dask="tcp://127.0.0.1:9")
    assert caught.value.code is Code.CAPTURE_CONNECT


def test_without_dask_the_extra_is_named(folder, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(TpuprofError, match=r"tpuprof\[pod\]"):
        analyze_pod(folder, dask="local")
