"""The registry: every rule of the catalogue exists, is documented, and is where its id says."""

import ast
import inspect
import re
import sys
from functools import cached_property
from pathlib import Path

import pytest

from tpuprof.errors import TpuprofError
from tpuprof.rules import thresholds
from tpuprof.rules.base import PREVIEW, STABLE, rule
from tpuprof.rules.docstring import FIXES, HEADINGS
from tpuprof.rules.registry import all_rules, find_rule
from tpuprof.signals import Signals, signal_units

CATALOGUE = [
    "accumulated-graph",
    "boolean-mask",
    "f32-upcasts",
    "repeated-work",
    "recomputed-activations",
    "float64-ops",
    "gather-bound",
    "sort-bound",
    "tracing-bound",
    "scan-cache-off",
    "unrolled-layers",
    "pre-cxx11-abi",
    "debug-flags-on",
    "eager-graph-cuts",
    "no-graph-cut",
    "eager-mode",
    "recompiles-shape",
    "recompiles-constant",
    "recompiles-other",
    "slow-compile",
    "persistent-cache-off",
    "persistent-cache-ineffective",
    "auto-sharding-cost",
    "aten-fallback",
    "device-to-host-sync",
    "input-starved",
    "exposed-collectives",
    "exposed-parameter-gather",
    "exposed-host-offload",
    "offload-not-effective",
    "offload-unneeded",
    "hbm-pressure",
    "lost-donation",
    "memory-growth",
    "unfused-attention",
    "unused-gradients",
    "float32-matmul",
    "padded-dimensions",
    "layout-copies",
    "low-mxu-utilization",
    "memory-bandwidth-bound",
    "straggler-host",
    "barrier-skew",
    "async-flags-missing",
    "uneven-steps",
    "no-step-markers",
    "truncated-trace",
    "device-bound",
    "torch-compile-candidate",
    "while-loop-candidate",
]
RULES = pytest.mark.parametrize("each", all_rules(), ids=lambda each: each.id)


def problems(found):
    """What is wrong with a rule's documentation."""
    page = found.page
    # Advice for one framework is enough: a rule may be about a fault that only that one can have.
    own = [heading for heading in FIXES.values() if page.sections.get(heading, "").strip()] or ["How to fix"]
    wanted = [heading for heading in HEADINGS if heading != "How to fix"] + own
    missing = [heading for heading in wanted if not page.sections.get(heading, "").strip()]
    notes = [f"no text under {heading!r}" for heading in missing]
    if not re.fullmatch(r"[A-Z`a-z].*\.", page.summary) or "\n" in page.summary:
        notes.append("the summary is not one sentence")
    if not page.fix or not page.before or not page.after:
        notes.append("how to fix it lacks text, code before or code after")
    if "http" not in page.sections.get("References", ""):
        notes.append("no reference")
    return notes


def test_every_rule_of_the_catalogue_is_there():
    assert set(CATALOGUE) <= {each.id for each in all_rules()}


def test_ids_are_unique():
    ids = [each.id for each in all_rules()]
    assert len(ids) == len(set(ids))


@RULES
def test_documentation_is_whole(each):
    assert problems(each) == []


def test_an_undocumented_rule_is_refused():
    module = sys.modules[__name__]
    documentation, module.__doc__ = module.__doc__, "Something is slow."
    try:

        def check(signals):
            """Never called."""

        found = rule(about="it", good="a", bad="b", reads=("steps",))(check)
    finally:
        module.__doc__ = documentation
    assert len(problems(found)) >= len(HEADINGS)


@RULES
def test_a_rule_is_what_its_file_says(each):
    path = Path(inspect.getfile(sys.modules[each.module]))
    assert path.name == "rule.py"
    assert path.parent.name.replace("_", "-") == each.id
    assert path.parent.parent.name == each.category
    assert each.status in (PREVIEW, STABLE)
    assert each.good != each.bad


@RULES
def test_code_in_the_documentation_is_python_or_a_command(each):
    for code in (each.page.before, each.page.after):
        if not re.search(r"python train\.py|pip install|tpuprof capture", code):
            ast.parse(code)


def test_an_unknown_id_names_the_nearest():
    with pytest.raises(TpuprofError, match="exposed-host-offload"):
        find_rule("exposed-host-ofload")


def test_every_signal_has_a_unit_and_a_definition():
    signals = {name for name in dir(Signals) if isinstance(getattr(Signals, name), cached_property)}
    assert signals == set(signal_units())
    for name in signals:
        assert getattr(Signals, name).__doc__, name


def test_every_threshold_is_explained():
    """Each constant has a comment right above it, or above the block it stands in."""
    lines = inspect.getsource(thresholds).splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[A-Z_0-9]+ = ", line):
            above = number - 1
            while re.match(r"[A-Z_0-9]+ = ", lines[above]):
                above -= 1
            assert lines[above].startswith("#"), line


def test_the_capture_and_the_model_agree_on_what_a_read_is():
    from tpuprof.instrument import host_events
    from tpuprof.model.host.reads import READ_CALLS

    assert set(host_events.READ_METHODS) == READ_CALLS


def test_rules_whose_price_was_measured_are_stable():
    page = (Path(__file__).resolve().parents[2] / "docs" / "scenarios.md").read_text("utf-8")
    rows = [[cell.strip() for cell in row.split("|")] for row in page.splitlines() if row.startswith("| ")]
    measured = {row[2] for row in rows if re.fullmatch(r"[+-]\d+%", row[-2])}
    unpriced = {"device-bound", "no-step-markers"}
    assert {each.id for each in all_rules() if each.status == STABLE} == measured | unpriced
