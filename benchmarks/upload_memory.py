"""Uploads of 60 MB of every kind to a dashboard, several at once: the most memory that it and its processes take.

usage: python benchmarks/upload_memory.py [MB] [KIND...]
"""

from __future__ import annotations

import gzip
import io
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "dashboard"), str(ROOT)]
from tests.report.planted import field, varint  # noqa: E402

MB = 10**6
# What the most memory must stay below (bytes).
LIMIT = 3.6e9
# How often memory is looked at (s).
EVERY = 0.05


def main() -> int:
    """Upload, ask for reports and timelines, print a line per kind; status 1 above the limit."""
    from tpuprof_dashboard.app import create_app
    from tpuprof_dashboard.store import Failure, Loading, Store

    size = int(sys.argv[1]) * MB if len(sys.argv) > 1 else 60 * MB
    wanted = sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        store = Store([Path(folder)])
        client = create_app(store).server.test_client()
        peak = Peak()
        names = []
        for name, made in kinds(size):
            if wanted and name not in wanted:
                continue
            data = made()
            begun = time.monotonic()
            answer = client.post(
                "/_tpuprof/upload", query_string={"name": name}, data=data, headers={"Host": "localhost"}
            )
            said = answer.get_json()
            if answer.status_code != 200:
                print(f"{name} ({len(data) / MB:.0f} MB): refused: {said['error'][:90]}", flush=True)
                continue
            names.append(said["run"])
            peak.reset()
            for ask in (store.report, store.details):
                while isinstance(found := ask(names[-1]), Loading):
                    time.sleep(EVERY)
            outcome = found.message[:90] if isinstance(found, Failure) else "read"
            took = time.monotonic() - begun
            print(
                f"{name} ({len(data) / MB:.0f} MB): {outcome}; {peak.most / 1e9:.2f} GB, {took:.0f} s",
                flush=True,
            )
        print(f"most at any time: {peak.ever / 1e9:.2f} GB", flush=True)
        store.close()
        return 1 if peak.ever > LIMIT else 0


class Peak:
    """The most memory of this process and its children together (bytes), looked at all the time."""

    def __init__(self) -> None:
        self.most = self.ever = 0
        threading.Thread(target=self._look, daemon=True).start()

    def reset(self) -> None:
        """Begin again."""
        self.most = 0

    def _look(self) -> None:
        while True:
            now = memory()
            self.most, self.ever = max(self.most, now), max(self.ever, now)
            time.sleep(EVERY)


def memory() -> int:
    """Memory of this process and its children (bytes, proportional where pages are shared)."""
    import os

    total = 0
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    found = [str(os.getpid())]
    for path in children:
        try:
            found += path.read_text().split()
        except OSError:
            continue
    for process in found:
        try:
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096
        except (OSError, ValueError, IndexError):
            continue
    return total


def kinds(size: int) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Files that are as large in memory as their kind allows, and usual ones."""
    most = 256 * 2**20 - 1000
    yield "usual.xplane.pb", lambda: space(line(usual_events(size)))
    yield "empty-events.xplane.pb", lambda: space(line(b"\x22\x00" * (size // 2)))
    yield "empty-lines.xplane.pb", lambda: space(b"\x1a\x00" * (size // 2))
    yield "empty-planes.xplane.pb", lambda: b"\x0a\x02\x08\x01" + b"\x0a\x00" * (size // 2)
    yield "names.xplane.pb", lambda: space(named(size))
    yield "empty-events.xplane.pb.gz", lambda: gzip.compress(space(line(b"\x22\x00" * (most // 2))), 1)
    yield "usual.trace.json", lambda: chrome(size)
    yield "lists.trace.json", lambda: b'{"traceEvents":[' + b"[]," * (11_000_000 // 2) + b"1]}"
    yield "objects.trace.json", lambda: b'{"traceEvents":[' + b'{"a":{}},' * 3_900_000 + b"{}]}"
    yield "values.json", lambda: b'{"schema":"tpuprof.report/1","x":[' + b"[]," * (11_000_000 // 2) + b"1]}"
    yield (
        "values.zip",
        lambda: zipped(b'{"schema":"tpuprof.report/1","x":[' + b"[]," * (11_000_000 // 2) + b"1]}"),
    )


def line(events: bytes) -> bytes:
    """A line of a plane."""
    return field(3, field(2, b"python") + events)


def space(content: bytes) -> bytes:
    """A profile of one host's plane."""
    names = field(4, b"\x08\x01" + field(2, b"\x08\x01" + field(2, b"train")))
    return field(1, field(2, b"/host:CPU") + names + content)


def usual_events(size: int) -> bytes:
    """Events of 5 us, one after the other."""
    parts, at = [], 0
    while size > 0:
        body = b"\x08\x01\x10" + varint(at) + b"\x18" + varint(5_000_000)
        parts.append(b"\x22" + varint(len(body)) + body)
        size -= len(parts[-1])
        at += 6_000_000
    return b"".join(parts)


def named(size: int) -> bytes:
    """Names of events."""
    parts, number = [], 2
    while size > 0:
        key = b"\x08" + varint(number)
        parts.append(field(4, key + field(2, key + field(2, b"n%d" % number))))
        size -= len(parts[-1])
        number += 1
    return b"".join(parts)


def chrome(size: int) -> bytes:
    """The profiler's Chrome JSON of events one after the other."""
    event = '{"ph":"X","pid":1,"tid":1,"ts":%d,"dur":5,"name":"event %d"}'
    count = min(size // 60, 1_300_000)
    events = ",".join(event % (6 * number, number % 100) for number in range(count))
    return f'{{"displayTimeUnit":"ns","traceEvents":[{events}]}}'.encode()


def zipped(content: bytes) -> bytes:
    """A bundle with that report."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bundle:
        bundle.writestr("report.json", content)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
