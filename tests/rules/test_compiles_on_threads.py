"""Compiles run side by side on threads, in processes and on hosts: a cache saves no more of a start than the start."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.rules.given import given, record
from tests.rules.situations import started
from tpuprof.model.telemetry import StepRecord
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.thresholds import SLOW_COMPILE_FROM_SECONDS as SLOW

SECOND = 10**9


def before(lasted, compile_seconds, start=0):
    """A step before the capture which lasted so long (s), with the added times of its compiles."""
    return StepRecord(
        0,
        lasted * SECOND,
        captured=False,
        compiles=40,
        compile_seconds=compile_seconds,
        start_ns=start * SECOND,
    )


@pytest.mark.parametrize("framework", ["torch_tpu", "torch_xla", "jax"])
def test_compiles_side_by_side_count_for_the_time_that_passed(framework):
    rows = [before(30, 45.0), record()]
    assert given(framework=framework, records=rows).startup_compile_seconds == 30.0


def test_notes_that_begin_together_are_one_span():
    rows = [before(11, 1.0), before(25, 23.0), before(44, 31.0), record()]
    assert given(framework="torch_tpu", records=rows).startup_compile_seconds == 44.0
    rows = [before(11, 1.0), before(44, 31.0), record()]
    assert given(framework="torch_tpu", records=rows).startup_compile_seconds == 32.0


def test_where_no_time_was_noted_all_counts():
    assert given(framework="torch_tpu", records=[before(0, 45.0), record()]).startup_compile_seconds == 45.0


def test_hosts_compile_at_the_same_time():
    signals = given(framework="torch_xla", records=[record()])
    signals._run.hosts = [
        SimpleNamespace(records=[before(30, seconds), record()]) for seconds in (20.0, 25.0, 0.0)
    ]
    assert signals.startup_compile_seconds == 25.0


def test_what_jax_does_not_keep_is_of_the_same_host_and_no_more_than_all():
    """Four hosts with short compiles of 3 s each, of the 10 s that they compile at the same time."""
    start = replace(before(30, 10.0), short_seconds=3.0)
    signals = given(framework="jax", records=[record()])
    signals._run.hosts = [SimpleNamespace(records=[start, record()]) for _ in range(4)]
    assert (signals.startup_short_compile_seconds, signals.startup_compiles) == (3.0, 40)
    beside = replace(before(5, 10.0), short_seconds=8.0)
    assert given(framework="jax", records=[beside, record()]).startup_short_compile_seconds == 5.0


@pytest.mark.parametrize(("plugin", "least"), [("cpu", 0.7), (None, 0.0)])
def test_the_cache_of_torch_tpu_is_known_on_the_plugin_that_it_was_tried_on(plugin, least):
    signals = given(
        **started(SLOW), framework="torch_tpu", run_info={"device": {"type": "tpu", "plugin": plugin}}
    )
    priced = outcome_of(find_rule("persistent-cache-off"), signals).price.savings
    assert priced.start_low_s == pytest.approx(least * SLOW) and priced.start_high_s == pytest.approx(SLOW)


def test_the_line_of_the_start_is_the_one_that_compiled_longest_in_all():
    """Ten layers of a model compile one by one, for one line, and the step for another, longer than any of them."""
    layer, step = "__call__ (model.py:22)", "main (train.py:96)"
    layers = [replace(before(2, 0.6), frames=[layer], line_seconds={layer: 0.6}) for _ in range(10)]
    whole = replace(
        before(9, 8.5), frames=["f (x.py:1)"], line_seconds={step: 8.0, "f (x.py:1)": 0.5, "": 30.0}
    )
    signals = given(framework="jax", records=[*layers, whole, record()])
    assert signals.startup_compile_source == "train.py:96"
    older = [replace(each, line_seconds={}) for each in (*layers, whole)]
    assert given(framework="jax", records=[*older, record()]).startup_compile_source == "x.py:1"
