"""The line of the program beside a library's line: an op of `torch.norm` was at torch/functional.py alone."""

import pytest

from tests.report.reports import finding
from tests.rules.given import given
from tpuprof.report.labels import main_places
from tpuprof.report.schema import Evidence
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.library_callers import FROM_SHARE, with_caller

NORM = "/site-packages/torch/functional.py:1824"


def stack(*frames, samples):
    return HostStackRow("tracing", list(frames), "", "", "", 1.0, 0.0, samples)


def places(samples, *, source=NORM, status="failed"):
    """Places of a finding at a line of a library; so many of a hundred samples there come from train.py:71."""
    rows = [
        stack("main (train.py:71)", f"norm ({NORM})", "inner (/site-packages/torch/x.py:3)", samples=samples),
        stack("main (train.py:80)", f"norm ({NORM})", samples=100 - samples),
        stack("main (train.py:90)", "other (/site-packages/torch/y.py:1)", samples=1000),
    ]
    found = finding("exposed-collectives", status=status, evidence=[Evidence("all-reduce", source=source)])
    return main_places(with_caller(found, given(stacks_if_sampled=rows)))


@pytest.mark.parametrize(
    ("samples", "line"), [(100 * FROM_SHARE + 1, "train.py:71"), (100 * FROM_SHARE, NORM)]
)
def test_the_line_that_most_samples_come_from_is_named(samples, line):
    assert places(samples) == [line]


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({"source": "train.py:5"}, "train.py:5"),
        ({"status": "passed"}, NORM),
        ({"source": "/site-packages/z.py:1"}, "/site-packages/z.py:1"),
    ],
    ids=["has one", "passed", "never sampled"],
)
def test_others_stay_as_they_are(other, line):
    assert places(90, **other) == [line]


def test_without_samples_nothing_is_added():
    found = finding("exposed-collectives", evidence=[Evidence("all-reduce", source=NORM)])
    assert with_caller(found, given()) == found
