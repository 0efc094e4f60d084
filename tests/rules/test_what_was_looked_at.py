"""Nothing passes, and nothing is said to be absent, where nobody could look."""

import ast
import inspect
from pathlib import Path

import pytest

import tpuprof.rules
from tests.builders import TraceBuilder, op
from tests.rules.given import given, steps
from tpuprof.analysis.analyze import analyze_run
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import NOT_APPLICABLE, PASSED, UNAVAILABLE, passed
from tpuprof.rules.registry import all_rules
from tpuprof.rules.runner import outcome_of
from tpuprof.signals import signal_units

BEGINS = [1000 * number for number in range(6)]


OF_DEVICE_OPS = {
    "exposed-collectives", "exposed-parameter-gather", "exposed-host-offload", "offload-not-effective",
    "offload-unneeded", "unrolled-layers", "while-loop-candidate", "float32-matmul", "layout-copies",
    "padded-dimensions", "unfused-attention", "low-mxu-utilization", "memory-bandwidth-bound",
}  # fmt: skip
OF_HOST_EVENTS = {
    "tracing-bound", "scan-cache-off", "unrolled-layers", "input-starved", "device-to-host-sync", "eager-graph-cuts", "eager-mode",
    "torch-compile-candidate", "pre-cxx11-abi",
}  # fmt: skip


def programs_alone():
    """A TPU's program executions, without ops and without a host."""
    trace = TraceBuilder()
    trace.tpu(0).line("XLA Modules").repeat("f(1)", BEGINS, 900)
    return trace


def device_alone():
    """Ops of a TPU in steps, without a host."""
    trace = programs_alone()
    trace.tpu(0).line("XLA Ops").repeat(
        start_times := op("fusion.1")["name"], BEGINS, 900, display="fusion.1"
    )
    assert start_times
    return trace


def host_alone():
    """Marked steps of PyTorch/XLA, without a device."""
    trace = TraceBuilder()
    trace.host().line("python").repeat("train", BEGINS, 1000, _r=1).repeat("SyncLiveTensorsGraph", BEGINS, 10)
    return trace


def said(path, trace):
    report = analyze_run(trace.write(path / "host.xplane.pb"))
    return {each.rule: each for each in report.findings}


def hopeful(found, rules):
    return {name for name in rules if found[name].status in (PASSED, NOT_APPLICABLE)}


def test_without_device_ops_no_rule_on_them_passes_or_speaks_of_absence(tmp_path):
    assert hopeful(said(tmp_path, programs_alone()), OF_DEVICE_OPS) == set()


def test_without_host_events_no_rule_on_them_passes_or_speaks_of_absence(tmp_path):
    # Without any loop or repeated layer in the programs there is nothing that a host could trace again and again.
    allowed = {"unrolled-layers", "torch-compile-candidate"}
    assert hopeful(said(tmp_path, device_alone()), OF_HOST_EVENTS) <= allowed


def test_without_a_device_nothing_is_said_of_it(tmp_path):
    found = said(tmp_path, host_alone())
    assert hopeful(found, OF_DEVICE_OPS | {"device-bound", "hbm-pressure"}) == set()


@pytest.mark.parametrize("make", [programs_alone, device_alone, host_alone])
def test_a_title_of_what_was_not_checked_is_neutral(tmp_path, make):
    good = {each.id: each.good for each in all_rules()}
    for name, each in said(tmp_path, make()).items():
        if each.status in (NOT_APPLICABLE, UNAVAILABLE):
            assert each.title != good[name]
            assert each.title.endswith((": does not apply", ": not checked")), each.title
            assert each.reason, name


def test_a_rule_that_reads_no_signal_does_not_pass():
    blind = next(each for each in all_rules() if each.id == "hbm-pressure")
    blind = type(blind)(**{**blind.__dict__, "check": lambda _signals: passed([Evidence("all is well")])})
    assert outcome_of(blind, given(steps=steps())).status == UNAVAILABLE


RULES = Path(inspect.getfile(tpuprof.rules)).parent
# What rules are made of: each rule, what they share, and what runs them. The programs of their advice are none of it.
CODE = sorted({*RULES.glob("*.py"), *RULES.glob("shared/*.py"), *RULES.glob("*/*/rule.py")})
# Beside the signals: which were read, ops by a word of their scope, and costs of parts in each step.
METHODS = {"costs_of", "readings", "scoped_ops"}


def read_of_signals(source):
    """Names of what a module reads of anything called `signals`."""
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("signals")
    }


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(RULES)))
def test_rules_read_signals_and_nothing_else_of_a_run(path):
    assert read_of_signals(path.read_text("utf-8")) <= METHODS | set(signal_units())


def test_a_look_past_the_signals_is_found():
    assert read_of_signals("def check(signals):\n    return signals._report.loops") == {"_report"}
    assert not {"report", "run"} & set(vars(given(steps=steps())))


def test_the_lists_name_rules_that_exist():
    assert {each.id for each in all_rules()} >= OF_DEVICE_OPS | OF_HOST_EVENTS
