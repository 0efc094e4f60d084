"""The native walk over messages and the one in Python redact alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report import planted
from tests.report.one_by_one import redact_hlo, redact_xspace
from tpuprof.decode import hlo_pb2, xplane_pb2
from tpuprof.share import redact_proto
from tpuprof.share.redact import Redactor

pytest.importorskip("tpuprof.share._wire", reason="the native modules are not built")

PRIVATE = "/home/ann/train.py"


def hidden(text):
    return text.replace(PRIVATE, "path-1/train.py")


def in_python(data, descriptor, text):
    return redact_proto._message(data, descriptor, text)


def varint(value):
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


numbers = st.one_of(st.integers(0, 2**70 - 1), st.integers(0, 40), st.sampled_from([2**63, 2**64 - 1, 2**64]))
texts = st.sampled_from([PRIVATE.encode(), b"\x00 " + PRIVATE.encode(), b"fusion.1", b"\xff\xfe", b"a"])


def field(number, wire, value):
    if wire == 0:
        return varint(number << 3) + varint(value)
    if wire in (1, 5):
        return varint(number << 3 | wire) + bytes(8 if wire == 1 else 4)
    return varint(number << 3 | 2) + varint(len(value)) + value


scalars = st.builds(field, st.integers(0, 20), st.sampled_from([0, 1, 5]), numbers)
fields = st.recursive(
    texts | st.binary(max_size=12),
    lambda inner: st.lists(
        scalars | st.builds(field, st.integers(1, 20), st.just(2), inner), min_size=1, max_size=5
    ).map(b"".join),
    max_leaves=20,
)


@given(fields)
def test_any_bytes_come_out_as_the_walk_in_python_gives_them(data):
    for redact, message in ((redact_xspace, xplane_pb2.XSpace), (redact_hlo, hlo_pb2.HloProto)):
        assert redact(data, hidden) == in_python(data, message.DESCRIPTOR, hidden)


@given(st.integers(0, 2**70 - 1), st.binary(max_size=4))
def test_lengths_that_are_too_large_are_no_message(length, rest):
    data = b"\x0a" + varint(length) + rest
    assert redact_xspace(data, hidden) == in_python(data, xplane_pb2.XSpace.DESCRIPTOR, hidden)


def test_what_is_replaced_is_the_same_and_counted_alike():
    found = []
    for redact in (redact_hlo, lambda data, text: in_python(data, hlo_pb2.HloProto.DESCRIPTOR, text)):
        redactor = Redactor()
        redactor.learn(planted.EVERYTHING)
        found.append((redact(planted.hlo(), redactor.text), redactor.replacements()))
    assert found[0] == found[1]
    assert found[0][1]


@pytest.mark.parametrize("sample", ["predicted_decoder_loop", "recompile_shapes"])
def test_samples_come_out_alike(samples, sample):
    """A text of the profile is taken for private, so that something changes."""
    data = next((samples / sample).rglob("*.xplane.pb")).read_bytes()

    def hide(text):
        return text.replace("fusion", "private")

    changed = redact_xspace(data, hide)
    assert changed == in_python(data, xplane_pb2.XSpace.DESCRIPTOR, hide)
    assert changed != data


@pytest.mark.parametrize("depth", [3, 99, 100, 101, 5_000])
def test_messages_in_each_other_are_walked_to_a_depth_and_overwritten_beyond(depth):
    """A capture may be made to overflow the stack. A control character tells each message from a text."""
    data = field(3, 2, PRIVATE.encode()) + b"\x08\x01"
    for _ in range(depth):
        data = field(19, 2, data)
    changed = redact_xspace(data, hidden)
    assert changed == in_python(data, xplane_pb2.XSpace.DESCRIPTOR, hidden)
    assert PRIVATE.encode() not in changed
