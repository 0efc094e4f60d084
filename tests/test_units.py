"""Numbers as people read them."""

import ast
from pathlib import Path

import pytest

from tpuprof.units import (
    count_of,
    counted,
    format_bytes,
    format_ms,
    format_ms_range,
    format_share,
    listed,
    times,
)


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
    ("low", "high", "text"),
    [
        (4.991, 4.993, "4.99 ms"),
        (17, 25, "17.0 ms to 25.0 ms"),
        (0, 1200, "0 ms to 1.20 s"),
        (7.80, 7.81, "7.81 ms"),
        (10.0, 10.1, "10.1 ms"),
        (10.0, 10.2, "10.0 ms to 10.2 ms"),
        (0, 0, "0 ms"),
    ],
)
def test_two_durations_that_are_nearly_the_same_are_one(low, high, text):
    assert format_ms_range(low, high) == text


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


@pytest.mark.parametrize(
    ("names", "rest", "total", "text"),
    [
        ("ab", "", None, "a, b"),
        ("abc", "", None, "a, b and 1 more"),
        ("abcd", "other", None, "a, b and 2 others"),
        ("abc", "more line", None, "a, b and 1 more line"),
        ("ab", "other", 7, "a, b and 5 others"),
        ("ab", "other", 2, "a, b"),
    ],
)
def test_a_list_that_is_cut_says_how_many_it_leaves_out(names, rest, total, text):
    assert listed(list(names), 2, rest, total) == text


def test_a_count_of_something_with_a_name_reads_as_one():
    assert count_of(1, "less") == "1 x less"
    assert count_of(1234, "add") == "1,234 x add"


@pytest.mark.parametrize(("count", "text"), [(1, "once"), (3, "3 times"), (0.5, "0.5 times")])
def test_times(count, text):
    assert times(count) == text


ROOT = Path(__file__).resolve().parents[1]
# Numbers that turn one unit into another: tpuprof/units.py has a name for each.
FACTORS = {1e3, 1e6, 1e9, 1e12}
# Thousandths of a sample in a ledger, a weight of no unit, a number of steps, a goal of no unit, a rule whose check is kept.
NOT_UNITS = {"tpuprof/watch/collector.py", "tpuprof/watch/status.py", "tpuprof/model/host/activity.py"}
OF_A_KEPT_CHECK = {"tpuprof/rules/tracing/debug_flags_on/rule.py"}


def bare_factors(source):
    """Lines on which something is multiplied or divided by a bare power of a thousand."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv)
        and any(
            isinstance(side, ast.Constant)
            and not isinstance(side.value, str | bytes)
            and side.value in FACTORS
            for side in (node.left, node.right)
        )
    ]


def test_one_module_converts_units():
    found = {}
    for folder in ("tpuprof", "dashboard/tpuprof_dashboard"):
        for path in (ROOT / folder).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            program = path.stem.startswith(("before", "after")) and "rules" in path.parts
            if name not in NOT_UNITS | OF_A_KEPT_CHECK and not program:
                found[name] = bare_factors(path.read_text("utf-8"))
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_bare_factor_is_found():
    assert bare_factors("a = ns / 1e6\nb = 1000 * s\nc = ns // 1_000_000_000\nd = x + 1000") == [1, 2, 3]


def test_counts_of_millions_keep_their_digits():
    assert counted(1_234_567, "step") == "1234567 steps"
    assert [counted(each, "graph") for each in (1, 2.5, 0)] == ["1 graph", "2.5 graphs", "0 graphs"]
