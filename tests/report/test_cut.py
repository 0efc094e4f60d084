"""A profile that is cut before it is taken apart gives the same bundle as one that is cut after."""

import pytest
from google.protobuf.message import DecodeError

from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode import xplane_pb2
from tpuprof.share.cut import cut
from tpuprof.share.space import joined, split
from tpuprof.share.trim import Window, representative, trim

pytest.importorskip("tpuprof.decode._xspace", reason="the native modules are not built")


def trimmed(data, window, origin=None):
    space = split(data)
    return xplane_pb2.XSpace.FromString(joined(trim(space.planes, window, set(), origin).planes, space.rest))


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
        found = cut(memoryview(data), window)
        left = joined(found.planes, found.rest)
        assert len(left) < len(data)
        assert trimmed(left, window, found.origin_ns) == trimmed(data, window)


def test_damage_is_left_to_the_reader_of_the_whole():
    window = Window("h", [0], 0, 1e9)
    assert cut(b"\x0a\x7f", window) is None
    assert cut(b"", window) == ([], b"", 0)


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
