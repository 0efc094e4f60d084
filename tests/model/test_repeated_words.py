"""Devices that compute the same: what the verdict of a busy device says of them."""

import pytest

from tests.rules.given import op
from tpuprof.analysis.sections.repeated_words import REPEATED_FROM_SHARE, said_of_repeated


def computes(ms, **more):
    return op(ms=ms, self_ms_per_step=ms, **more)


@pytest.mark.parametrize(("more", "said"), [(0.01, True), (-0.01, False)])
def test_the_verdict_says_how_much_of_the_time_devices_compute_the_same(more, said):
    """Four devices computed a whole batch each: "the host keeps up" was all of the verdict."""
    share = REPEATED_FROM_SHARE / (1 - 1 / 4) + more
    rows = [computes(100 * share, repeated=4), computes(100 * (1 - share), repeated=0)]
    text = said_of_repeated(rows)
    shown = round(100 * share)
    expected = f" Each of 4 devices computes the same in ops that take {shown} % of its time." if said else ""
    assert text == expected


@pytest.mark.parametrize("rows", [[], [computes(100.0)], [computes(100.0, repeated=4, kind="collective")]])
def test_nothing_is_said_where_nothing_is_known(rows):
    assert said_of_repeated(rows) == ""
