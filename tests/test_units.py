"""Numbers as people read them."""

import pytest

from tpuprof.units import counted, format_bytes, format_ms, format_share, times


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (784.126, "784 ms"),
        (1420, "1.42 s"),
        (0.0317, "31.7 µs"),
        (0.00132, "1.32 µs"),
        (1.5e-5, "15.0 ns"),
    ],
)
def test_format_ms(ms, text):
    assert format_ms(ms) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.0004, "<0.1 %"), (0.0123, "1.2 %"), (0.02, "2 %"), (0.97, "97 %"), (1, "100 %")],
)
def test_format_share(share, text):
    assert format_share(share) == text


@pytest.mark.parametrize(("count", "text"), [(12, "12 B"), (5 * 2**30, "5.00 GiB"), (1536, "1.50 KiB")])
def test_format_bytes(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), (2.5, "2.5 steps")]
)
def test_counted(count, text):
    assert counted(count, "step") == text


@pytest.mark.parametrize(("count", "text"), [(1, "once"), (3, "3 times"), (0.5, "0.5 times")])
def test_times(count, text):
    assert times(count) == text
