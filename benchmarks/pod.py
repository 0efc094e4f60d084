"""Measures the analysis of a pod: time, memory, right stragglers, and how both grow with the hosts.

python benchmarks/pod.py --hosts 1024 --place s3        # a bucket of moto, on this machine
python benchmarks/pod.py --hosts 64 --place folder --whole

Hosts are made from two sample captures. Some are slowed by a known share, some are captured later (other steps), and
one file is damaged. `--whole` compares the report with that of the same hosts read one after another in one process,
`--unsharded` the sections that are of all hosts with those of `analyze_run`, which knows no summaries, `--kill` the
report, byte by byte, with that of three Dask workers of which one is killed. `--slow 0.1` slows a tenth of the hosts.
Prints one JSON object per size.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode import xplane_pb2
from tpuprof.decode.find import host_name
from tpuprof.errors import TpuprofError
from tpuprof.pod import analyze
from tpuprof.pod.analyze import analyze_pod
from tpuprof.pod.execute import Done, summarise_all
from tpuprof.pod.hosts import hosts_of, summarise_host
from tpuprof.report.as_json import to_json
from tpuprof.report.schema import Report

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
PROGRAMS = ("decoder_loop", "input_starved")
# Hosts of the second program, and those that are slow or late (share of all hosts).
SECOND, SLOW, LATE = 0.25, 0.01, 0.005
# How much slower a slow host is (ratio), from and to.
SLOWER = (0.10, 0.60)
LATER_BY = 100_000  # steps
# Sections that docs/pods.md says are shown host by host, or that name files: the rest is of all hosts.
NOT_COMPARED = ("source", "pod", "warnings", "findings", "measure_next")
PORT = 5999


def _changed(source: bytes, factor: float, later: int) -> bytes:
    """The capture with all its times longer by `factor`, and its steps numbered `later`."""
    space = xplane_pb2.XSpace.FromString(source)
    for plane in space.planes:
        numbered = {
            key for key, each in plane.stat_metadata.items() if each.name in (b"step_num", "step_num")
        }
        for line in plane.lines:
            for event in line.events:
                event.offset_ps = round(event.offset_ps * factor)
                event.duration_ps = round(event.duration_ps * factor)
                for stat in event.stats if later else ():
                    if stat.metadata_id in numbered:
                        stat.int64_value += later
    return bytes(space.SerializeToString())


def _build(folder: Path, hosts: int, rng: np.random.Generator, slow_share: float = SLOW) -> dict[str, Any]:
    """Write the hosts' files; what was planted."""
    session = folder / "plugins" / "profile" / "capture"
    session.mkdir(parents=True)
    sources = [next((SAMPLES / name).rglob("*.xplane.pb")).read_bytes() for name in PROGRAMS]
    second = set(rng.choice(hosts, round(SECOND * hosts), replace=False).tolist())
    others = [row for row in range(hosts) if row not in second]
    slow_count, late_count = max(round(slow_share * hosts), 2), max(round(LATE * hosts), 1)
    picked = rng.choice(others, slow_count + late_count + 1, replace=False).tolist()
    slow = {row: float(rng.uniform(*SLOWER)) for row in picked[:slow_count]}
    late, damaged = set(picked[slow_count:-1]), picked[-1]
    for row in range(hosts):
        factor = (1 + slow.get(row, 0.0)) * float(rng.normal(1, 0.003))
        if row in slow:
            slow[row] = factor - 1
        data = _changed(sources[row in second], factor, LATER_BY if row in late else 0)
        (session / f"host{row:04}.xplane.pb").write_bytes(data[: len(data) // 2] if row == damaged else data)
    return {
        "slow": {f"host{row:04}": share for row, share in slow.items()},
        "late": sorted(f"host{row:04}" for row in late),
        "damaged": f"host{damaged:04}",
    }


_UPLOAD = """
import s3fs, sys, time
store = s3fs.S3FileSystem()
for _ in range(60):
    try:
        store.mkdir("pods")
        break
    except Exception:
        time.sleep(0.5)
store.put(sys.argv[1].rstrip("/") + "/", "pods/run/", recursive=True)
"""


@contextmanager
def _bucket(folder: Path) -> Iterator[str]:
    """The folder in a bucket of moto, which runs as another process."""
    server = subprocess.Popen(
        [sys.executable, "-c", f"from moto.server import main; main(['-p', '{PORT}'])"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{PORT}",
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY="test",
        AWS_DEFAULT_REGION="us-east-1",
    )
    try:
        subprocess.run([sys.executable, "-c", _UPLOAD, str(folder)], check=True)
        yield "s3://pods/run"
    finally:
        server.terminate()
        server.wait()


class _Memory(threading.Thread):
    """The most memory that this process and its children had together (bytes, shared pages counted once)."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.ended = 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.5):
            self.most = max(self.most, sum(map(_pss, _family(os.getpid()))))


def _family(process: int) -> list[int]:
    """The process and those it started, the bucket left out."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text("utf-8").split()
        if b"moto" in Path(f"/proc/{process}/cmdline").read_bytes():
            return []
    except OSError:
        return []
    return [process, *(each for child in children for each in _family(int(child)))]


def _pss(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text("utf-8")
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def _cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _measured(place: str) -> tuple[Report, dict[str, float], list[int]]:
    sizes: list[int] = []
    watch = _Memory()

    def kept(*arguments: Any) -> Iterator[Done]:
        for done in summarise_all(*arguments):
            if not sizes:
                watch.start()  # by now the processes were forked
            sizes.append(len(done.summary or b""))
            yield done

    analyze.summarise_all = kept
    cpu, begun = _cpu(), time.monotonic()
    report = analyze_pod(place)
    spent = {"seconds": time.monotonic() - begun, "cpu_seconds": _cpu() - cpu}
    watch.ended.set()
    return report, {**spent, "memory_bytes": watch.most}, sizes


def _judged(report: Report, planted: dict[str, Any]) -> dict[str, Any]:
    """What of the planted was found."""
    pod = report.pod
    assert pod is not None
    found = {row.host: row.share for row in pod.stragglers}
    errors = {
        name: abs(found[name] - share) / share for name, share in planted["slow"].items() if name in found
    }
    return {
        "planted": len(planted["slow"]),
        "named": len(errors),
        "named_within_5_percent": sum(each <= 0.05 for each in errors.values()),
        "worst_lag_error": max(errors.values(), default=None),
        "named_wrongly": sorted(set(found) - set(planted["slow"])),
        "late_hosts_named": set(planted["late"]) <= set(pod.not_compared),
        "damaged_named": list(pod.failed) == [planted["damaged"]],
        "groups": [(row.hosts, row.bound) for row in pod.groups],
    }


def _whole(place: str) -> Report:
    """The same hosts one after another in this process."""
    jobs = hosts_of(place).jobs

    def alone(*_: Any) -> Iterator[Done]:
        for job in jobs:
            try:
                yield Done(job.name, summarise_host(job))
            except TpuprofError as error:
                yield Done(job.name, None, str(error))

    analyze.summarise_all = alone
    return analyze_pod(place)


def _differing(folder: str, report: Report) -> list[str]:
    """Sections that the report of all files in one process, without summaries, has otherwise."""
    damaged = set(report.pod.failed) if report.pod else set()
    files = [path for path in sorted(Path(folder).rglob("*.xplane.pb")) if host_name(path) not in damaged]
    unsharded, merged = analyze_run(files).to_dict(), report.to_dict()
    # A pod has no row for each device, but the number of hosts that run an op.
    merged["ops"] = [{**row, "hosts": None, "host_names": [], "cores": []} for row in merged["ops"]]
    unsharded["ops"] = [{**row, "cores": []} for row in unsharded["ops"]]
    # It was not given the damaged file.
    unsharded["environment"]["unread_hosts"] = merged["environment"]["unread_hosts"]
    return [name for name in merged if name not in NOT_COMPARED and merged[name] != unsharded[name]]


def _with_a_worker_killed(place: str, hosts: int) -> Report:
    """The same hosts on three workers of Dask, one of which is killed when a third of the hosts are done."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        victim = next(iter(cluster.workers.values())).pid

        def progress(now: analyze.Progress) -> None:
            if now.done + now.failed == hosts // 3:
                os.kill(victim, signal.SIGKILL)

        analyze.summarise_all = summarise_all
        return analyze_pod(place, dask=cluster.scheduler_address, progress=progress)


def _one(place: str, folder: str, hosts: int, planted: dict[str, Any], asked: argparse.Namespace) -> None:
    report, spent, sizes = _measured(place)
    found = {"hosts": hosts, "place": "s3" if "://" in place else "folder", **spent}
    found |= _judged(report, planted)
    found["summary_bytes_most"] = max(sizes)
    if asked.whole:
        found["same_as_one_after_another"] = to_json(_whole(place)) == to_json(report)
    if asked.kill:
        found["same_with_a_worker_killed"] = to_json(_with_a_worker_killed(place, hosts)) == to_json(report)
    if asked.unsharded:
        found["sections_compared"] = len(report.to_dict()) - len(NOT_COMPARED)
        found["sections_that_differ"] = _differing(folder, report)
    print(json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[1024])
    parser.add_argument("--place", choices=["folder", "s3"], default="folder")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--unsharded", action="store_true")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--slow", type=float, default=SLOW)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for hosts in asked.hosts:
        with tempfile.TemporaryDirectory(prefix="tpuprof-pod-") as name:
            folder = Path(name) / "run"
            planted = _build(folder, hosts, np.random.default_rng(asked.seed), asked.slow)
            if asked.place == "s3":
                with _bucket(folder) as url:
                    _one(url, str(folder), hosts, planted, asked)
            else:
                _one(str(folder), str(folder), hosts, planted, asked)


if __name__ == "__main__":
    main()
