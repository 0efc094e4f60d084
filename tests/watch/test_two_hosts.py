"""Two real processes of one job: the slow one says that it fell behind, the quick one does not."""

from tests.watch.live import training, until
from tpuprof.ledger.reader import read_folder
from tpuprof.watch.follow import read_jobs


def anomalies(folder):
    """(rank, anomaly) of all processes."""
    if not list(folder.glob("ledgers/*")):
        return []
    return [
        (ledger.meta.get("rank"), each)
        for ledger in read_folder(folder)
        for each in ledger.events
        if each["kind"] == "anomaly" and each["what"] == "behind"
    ]


def test_the_slow_one_of_two_processes_says_that_it_is_behind(tmp_path):
    folder = tmp_path / "runs"
    with training(folder, 0.02, rank=0), training(folder, 0.1, rank=1):
        found = until(lambda: anomalies(folder))
        (job,) = read_jobs(folder)
    assert {rank for rank, _ in found} == {1}
    assert found[0][1]["facts"]["ratio"] > 1.2
    slowest = job.slowest()[0]
    assert slowest.rank == 1
    assert slowest.relative < 0.8
