"""`scan-cache-off` names the line that calls scan: the compiled loop's own line is torch's."""

import pytest

from tests.rules.given import given, loop
from tests.rules.situations import scan
from tpuprof.parts import TRACING
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of

LIBRARY = "/env/lib/python3.11/site-packages"
SCAN = f"scan ({LIBRARY}/torch_xla/experimental/scan.py:176)"
LAYERS = f"scan_layers ({LIBRARY}/torch_xla/experimental/scan_layers.py:121)"
BODY = "forward (/home/me/model.py:7)"


def stack(ms, *frames):
    return HostStackRow(TRACING, list(frames), "", "", "", ms, 0.0)


@pytest.mark.parametrize(
    ("rows", "source"),
    [
        # The body is the user's as well, and it is traced inside of scan.
        ([stack(9.0, "step (/home/me/train.py:28)", LAYERS, SCAN, BODY)], "/home/me/train.py:28"),
        (
            [stack(1.0, "a (/home/me/train.py:4)", SCAN), stack(2.0, "b (/home/me/train.py:5)", SCAN)],
            "/home/me/train.py:5",
        ),
        # Frames further out were not recorded, and a file of the user's is not scan's.
        ([stack(9.0, SCAN, BODY)], ""),
        ([stack(9.0, "step (/home/me/train.py:28)", "scan (/home/me/my/scan.py:3)")], ""),
        ([], ""),
    ],
)
def test_the_line_that_calls_scan(rows, source):
    situation = {**scan(1.0, 0.5, ms=50.0), "loops": [loop(8, "while")]}
    found = outcome_of(find_rule("scan-cache-off"), given(**situation, stacks_if_sampled=rows))
    assert (found.status, found.evidence[0].source) == ("failed", source)
