"""The pytest marker `tpuprof`: a test fails where its training code recompiles, reads back, falls back or cuts graphs.

    @pytest.mark.tpuprof(recompiles=0, device_to_host_syncs=0)
    def test_training_is_steady(): ...

Takes what `tpuprof.expect` takes. Nothing is imported until a marked test runs.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

MARKER = "tpuprof"
_HELP = (
    "tpuprof(recompiles=None, device_to_host_syncs=None, aten_fallbacks=None, max_graphs_per_step=None, "
    "warmup_steps=2): fail where the test's code does more of these than said (see tpuprof.expect)"
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _HELP)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Put the test's call, without its fixtures, inside `tpuprof.expect`."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return (yield)
    from tpuprof.testing.expect import expect

    with expect(*marker.args, **marker.kwargs):
        return (yield)
