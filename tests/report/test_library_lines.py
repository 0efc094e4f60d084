"""The line of an installed package is named where one line of the program calls all of training."""

from dataclasses import replace

import pytest

from tpuprof.report.host_lines import where_of
from tpuprof.report.library_lines import inside
from tpuprof.report.sections import HostStackRow

RUN = "<module> (/home/u/run.py:4)"
PACKAGE = "/venv/lib/python3.11/site-packages/mypkg/train.py"
MAIN, WORDS = f"main ({PACKAGE}:26)", f"vocabulary ({PACKAGE}:9)"
ADAM = "step (/venv/lib/python3.11/site-packages/torch/optim/adam.py:9)"
DUMPS = "dumps (/usr/lib/python3.11/json/__init__.py:9)"


def row(part, ms, *frames, source="/home/u/run.py:4"):
    return HostStackRow(part, list(frames), "", source, "main()", ms, 0.0)


TRAINS = row("tracing", 5.0, RUN, MAIN, ADAM)


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ((MAIN, WORDS), ", inside mypkg/train.py:9 (in vocabulary)"),
        ((MAIN, WORDS, DUMPS), ", inside mypkg/train.py:9 (in vocabulary)"),
        ((), ""),
    ],
)
def test_the_line_of_the_package_is_named(frames, said):
    stacks = [TRAINS, row("host:python", 8.0, RUN, *frames), row("host:python", 3.0, RUN, MAIN)]
    assert inside(stacks, "host:python", where_of(stacks, "host:python")) == said


def test_a_line_that_does_not_train_is_enough():
    """`pandas.read_csv` reads; where in it is the library's matter."""
    reads = row("host:python", 8.0, RUN, f"read ({PACKAGE}:9)", source="/home/u/run.py:7")
    reads = replace(reads, frames=["<module> (/home/u/run.py:7)", *reads.frames[1:]])
    assert inside([TRAINS, reads], "host:python", where_of([TRAINS, reads], "host:python")) == ""


def test_no_line_stands_for_many():
    stacks = [TRAINS, *(row("host:python", 3.0, RUN, f"f{each} ({PACKAGE}:{each})") for each in range(3))]
    assert inside(stacks, "host:python", where_of(stacks, "host:python")) == ""


def test_a_decorator_that_is_entered_again_is_not_the_innermost():
    """Of equal depth were all functions that a stack enters again, and the first of them was named."""
    wrapped, forward = f"wrapped_func ({PACKAGE}:3)", f"forward ({PACKAGE}:5)"
    frames = (MAIN, wrapped, forward, wrapped, forward)
    stacks = [TRAINS, row("host:python", 8.0, RUN, *frames)]
    assert (
        inside(stacks, "host:python", where_of(stacks, "host:python"))
        == ", inside mypkg/train.py:5 (in forward)"
    )


def test_no_line_of_a_package_is_named_for_waits_for_pythons_lock():
    stacks = [TRAINS, row("host:gil", 8.0, RUN, MAIN, WORDS)]
    assert inside(stacks, "host:gil", where_of(stacks, "host:gil")) == ""
