"""Files past 2 and past 4 GB are read: made of holes, so they take no room on disk and no time to write."""

import json
import subprocess
import sys

import pytest

from tests.builders import TraceBuilder, op
from tests.decode.wire import varint
from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode.load import load
from tpuprof.errors import TpuprofError

native = pytest.importorskip(
    "tpuprof.decode.xplane_native", reason="the native reader is not built", exc_type=ImportError
)
GB = 10**9
UNKNOWN = 15 << 3 | 2
PLANE = 1 << 3 | 2


def built():
    made = TraceBuilder()
    for step in range(4):
        made.host().line("python").event("step", step * 1000, 900, _r=1, step_num=step)
        made.tpu(0).line("XLA Modules").event("train(1)", step * 1000, 700)
        made.tpu(0).line("XLA Ops").event(**op("fusion.1"), start=step * 1000, duration=600)
    return made


def write(path, parts):
    """Write bytes, and holes where a part is a number."""
    with path.open("wb") as file:
        for part in parts:
            if isinstance(part, int):
                file.write(varint(UNKNOWN) + varint(part))
                file.seek(part, 1)
            else:
                file.write(part)
        file.truncate()
    return path


@pytest.fixture
def past_4_gb(tmp_path):
    """Planes before and after holes, one of them more than 2 GB long itself."""
    host, device = (plane.SerializeToString() for plane in built().space.planes)
    hole = 3 * GB // 2
    length = len(device) + 2 * (hole + len(varint(UNKNOWN) + varint(hole)))
    parts = [
        bytes([PLANE]) + varint(len(host)) + host,
        hole,
        bytes([PLANE]) + varint(length),
        hole,
        hole,
        device,
    ]
    path = write(tmp_path / "vm.xplane.pb", parts)
    if path.stat().st_blocks * 512 > 10**8:
        pytest.skip("this file system does not keep holes")
    return path


def test_what_lies_past_4_gb_is_read(past_4_gb, tmp_path):
    assert past_4_gb.stat().st_size > 4.5 * GB
    small = analyze_run(built().write(tmp_path / "small" / "vm.xplane.pb")).to_dict()
    large = analyze_run(past_4_gb).to_dict()
    assert small.pop("source") != large.pop("source")
    assert large == small
    assert large["ops"][0]["occurrences"] == 4


def test_memory_does_not_grow_with_the_file(past_4_gb):
    code = """
import json, re, sys
from pathlib import Path
from tpuprof.decode.load import load
trace = load(Path(sys.argv[1]))
# Not getrusage: its peak counts the process this one was forked from.
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
print(json.dumps([len(trace.planes), int(peak.group(1))]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(past_4_gb)], capture_output=True, text=True, timeout=120, check=True
    )
    planes, peak_kilobytes = json.loads(done.stdout)
    assert planes == 2
    assert peak_kilobytes < 300_000


def test_protobuf_says_what_it_cannot_read(past_4_gb, monkeypatch):
    monkeypatch.setenv("TPUPROF_READER", "protobuf")
    with pytest.raises(TpuprofError) as caught:
        load(past_4_gb)
    assert caught.value.code.value == "input-too-large"
