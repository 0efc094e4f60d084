"""Parts of a summary come back as they were; damaged ones and bombs are refused."""

from __future__ import annotations

import lzma
import zlib

import pytest

from tpuprof.pod import squeeze


@pytest.mark.parametrize("pack", [squeeze.squeezed, zlib.compress])
def test_bytes_come_back(pack):
    data = b"fusion.1 fusion.2 " * 1000
    assert len(pack(data)) < len(data)
    assert squeeze.unsqueezed(pack(data)) == data
    assert squeeze.unsqueezed(pack(b"")) == b""


@pytest.mark.parametrize("pack", [squeeze.squeezed, zlib.compress])
def test_damaged_bytes_are_a_value_error(pack):
    data = pack(bytes(range(256)) * 9)
    for damaged in (data[:-9], data[:20] + b"????????" + data[28:], b""):
        with pytest.raises(ValueError, match=r"."):
            squeeze.unsqueezed(damaged)


@pytest.mark.parametrize("pack", [squeeze.squeezed, zlib.compress])
def test_no_more_is_unpacked_than_a_part_may_have(monkeypatch, pack):
    monkeypatch.setattr(squeeze, "MOST_BYTES", 1000)
    assert squeeze.unsqueezed(pack(bytes(1000))) == bytes(1000)
    with pytest.raises(ValueError, match="too large"):
        squeeze.unsqueezed(pack(bytes(1001)))


def test_no_more_memory_is_taken_than_a_part_needs():
    greedy = lzma.compress(b"x", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}])
    with pytest.raises(ValueError, match=r"(?i)memory"):
        squeeze.unsqueezed(greedy)
