"""TorchTPU compiles on several threads: what a cache saves of a start is no longer than the start."""

import pytest

from tests.rules.given import given, record
from tpuprof.model.telemetry import StepRecord


@pytest.mark.parametrize(("framework", "seconds"), [("torch_tpu", 30.0), ("torch_xla", 45.0), ("jax", 45.0)])
def test_compiles_side_by_side_count_for_the_time_that_passed(framework, seconds):
    before = [StepRecord(0, 30 * 10**9, captured=False, compiles=40, compile_seconds=45.0)]
    assert given(framework=framework, records=[*before, record()]).startup_compile_seconds == seconds


def test_where_no_time_was_noted_all_counts():
    before = [StepRecord(0, 0, captured=False, compiles=40, compile_seconds=45.0)]
    assert given(framework="torch_tpu", records=[*before, record()]).startup_compile_seconds == 45.0
