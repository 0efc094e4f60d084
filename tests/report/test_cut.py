"""A profile that is cut before it is taken apart gives the same bundle as one that is cut after."""

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode import xplane_pb2
from tpuprof.share.cut import cut
from tpuprof.share.space import joined, split
from tpuprof.share.trim import Window, representative, trim

pytest.importorskip("tpuprof.decode._xspace", reason="the native modules are not built")


def trimmed(data, window):
    """What is left of a profile when it is cut after it is taken apart."""
    return put_together(split(data), window)


def cut_first(data, window):
    found = cut(memoryview(data), window)
    return put_together(found, window, found.ran)


def put_together(space, window, ran=None):
    planes: dict[int, bytes] = {}
    trim(space.planes, window, set(), planes.__setitem__, ran=ran)
    return xplane_pb2.XSpace.FromString(joined([planes[at] for at in sorted(planes)], space.rest))


@pytest.mark.parametrize(
    "sample", ["decoder_loop", "recompile_shapes", "predicted_decoder_scan", "input_starved"]
)
def test_what_is_left_is_the_same(samples, sample):
    report = analyze_run(samples / sample)
    path = next((samples / sample).glob("plugins/profile/*/*.xplane.pb"))
    data = path.read_bytes()
    host = report.steps.per_step[0].host
    last = report.steps.per_step[-1]
    windows = [representative(report, host), Window(host, [last.index], last.start_ns, last.start_ns + 1e6)]
    for window in windows:
        left = cut_first(data, window)
        assert left.ByteSize() < len(data)
        assert left == trimmed(data, window)


def test_an_event_is_of_the_window_that_holds_most_of_it():
    window = Window("h", [0], 100, 200)
    begin, length = np.array([90, 95, 96, 0, 199, 200]) * 1000, np.array([10, 10, 10, 400, 2, 5]) * 1000
    assert window.holds(begin, length, 0).tolist() == [False, True, True, True, True, False]
    # A line that begins later has its events that much later.
    assert window.holds(begin, length, 100).tolist() == [True, True, False, True, False, False]
    # Events without a length are where they begin.
    assert window.holds(begin, np.zeros(6, int), 96).tolist() == [True, True, True, False, False, False]


def test_damage_is_left_to_the_reader_of_the_whole():
    window = Window("h", [0], 0, 1e9)
    assert cut(b"\x0a\x7f", window) is None
    assert cut(b"", window) == ([], b"", {})


def test_a_profile_is_taken_apart_and_put_together(samples):
    data = next((samples / "decoder_loop").rglob("*.xplane.pb")).read_bytes()
    space = split(data)
    assert len(space.planes) == len(xplane_pb2.XSpace.FromString(data).planes) > 1
    assert xplane_pb2.XSpace.FromString(joined(space.planes, space.rest)) == xplane_pb2.XSpace.FromString(
        data
    )


def test_a_damaged_profile_is_not_taken_apart():
    with pytest.raises(DecodeError):
        split(b"\x0a\x7f")
