"""Stretches of one part of the breakdown are those of all parts' periods."""

import numpy as np
import pytest

from tpuprof.decode.find import find
from tpuprof.model.run import build_run
from tpuprof.timeline.periods import longest, periods


@pytest.mark.parametrize("sample", ["decoder_fsdpv2", "input_starved", "predicted_decoder_offload"])
def test_the_longest_of_a_part(samples, sample):
    (host,) = build_run(find(samples / sample)).hosts
    found = periods(host)
    assert (found.start[1:] >= found.end[:-1]).all()
    assert int((found.end - found.start).sum()) == int(host.steps.wall_ps.sum())
    for number, name in enumerate(found.names[:-1]):
        own = np.flatnonzero(found.label == number)
        spans = [(int(found.start[row]), int(found.end[row])) for row in own]
        spans.sort(key=lambda span: span[0] - span[1])
        assert longest(host, name, 3) == spans[:3], name
