"""Code without a name has its own line: lambdas, generators and comprehensions."""

from dataclasses import replace

import pytest

from tpuprof.report.host_lines import where_of
from tpuprof.report.sections import HostStackRow

FILE = "/home/u/train.py"
PART = "host:python"


def row(ms, *frames):
    """A stack of the user's frames below the loop: `function:line`, outermost first."""
    named = [f"{name} ({FILE}:{line})" for name, _, line in (each.partition(":") for each in frames)]
    source = named[-1].rpartition("(")[2].removesuffix(")")
    return HostStackRow(PART, [f"<module> ({FILE}:99)", *named], "f(x)", source, "f(x)", ms, 0.0, 9)


def test_a_lambda_is_no_line_of_the_function_that_calls_it():
    """`data.py:5 (in __getitem__)` was said of a lambda above the class."""
    shared = [
        row(3.0, "main:30", "get:20", "<lambda>:5", "crop:8"),
        row(3.0, "main:30", "get:20", "<lambda>:5", "flip:11"),
        row(3.0, "main:30", "get:20", "<lambda>:5", "pad:14"),
        row(1.0, "main:31", "log:40"),
    ]
    assert where_of(shared, PART).text == f"{FILE}:5 (in <lambda>)"
    get = [row(3.0, "main:30", "get:21"), row(3.0, "main:30", "get:22")]
    assert where_of([*shared, *get], PART).text == f"{FILE}:20, 21, 22 (in get)"


def test_a_lambda_or_a_generator_in_a_call_belongs_to_the_function_that_makes_the_call():
    """`total(score(x) for x in xs)`: the generator's line is not one of `total`, which runs it."""
    stacks = [
        row(3.0, "main:30", "batch:20", "total:5", f"{each}:20", f"{called}:{line}")
        for each, called, line in (
            ("<genexpr>", "crop", 8),
            ("<lambda>", "flip", 11),
            ("<genexpr>", "pad", 14),
        )
    ]
    assert where_of(stacks, PART).text == f"{FILE}:20 (in batch)"


def test_the_line_a_comprehension_begins_at_can_be_the_one_that_calls_all():
    """Two lines of one comprehension share the time, in the loop itself."""
    stacks = [
        row(3.0, "main:30", "<listcomp>:31", "crop:8"),
        row(3.0, "main:30", "<listcomp>:31", "flip:9"),
        row(3.0, "main:30", "<listcomp>:32", "pad:11"),
        row(3.0, "main:30", "<listcomp>:32", "sort:12"),
        replace(row(20.0, "main:33"), part="tracing"),
    ]
    where = where_of(stacks, PART)
    assert (where.source, where.ms) == (f"{FILE}:30", pytest.approx(12.0))
