"""Every rule's advice is a pair of programs that exist, were checked, and are checked again where that is quick."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tpuprof.rules.programs import (
    COMPILED,
    FRAMEWORKS,
    MEASURED,
    NEITHER,
    TORCH_TPU,
    kept_record,
    record_key,
    shown_lines,
)
from tpuprof.rules.registry import all_rules

ROOT = Path(__file__).resolve().parents[2]


def from_scenarios(name):
    path = ROOT / "scenarios" / f"{name}.py"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


advice_runner = from_scenarios("advice")
names = from_scenarios("advice_names")
PAIRS = [
    pytest.param(rule, advice, id=record_key(rule.id, advice.framework))
    for rule, advice in advice_runner.chosen([])
]
FAST = [each for each in PAIRS if each.values[1].plan.get("fast")]
EACH = pytest.mark.parametrize(("rule", "advice"), PAIRS)


@EACH
def test_the_plan_is_whole(rule, advice):
    assert advice.checked in (MEASURED, COMPILED, NEITHER)
    if advice.checked == NEITHER:
        assert advice.plan["reason"]
    if advice.checked == COMPILED:
        assert advice.plan["target"]
    assert advice.before.shown and advice.after.shown
    assert advice.before.shown != advice.after.shown


@EACH
def test_the_kept_check_is_fresh(rule, advice):
    reason = advice_runner.stale(rule, advice)
    assert not reason, f"{reason}; check again: make advice ONLY={rule.id}"


@EACH
def test_the_kept_check_held(rule, advice):
    if advice.checked == NEITHER or advice.pending:
        return
    entry = kept_record()[record_key(rule.id, advice.framework)]
    if not advice.plan.get("title"):
        assert entry["status"][0] == "failed"
        assert entry["status"][1] in ("passed", "not_applicable")
    if not advice.plan.get("no_result"):
        assert entry["difference"] <= entry["tolerance"]


LINKS = tomllib.loads((Path(__file__).parent / "links.toml").read_text("utf-8"))
LINK = re.compile(r"https://[^\s)\"]+")


def test_every_link_was_looked_up():
    """A page that does not exist is worse than none: a new link is looked up, then added to links.toml."""
    given = {link.rstrip(".") for rule in all_rules() for link in LINK.findall(rule.page.text)}
    assert given - set(LINKS) == set()
    assert set(LINKS) - given == set()


def test_nothing_is_kept_of_advice_that_is_gone():
    assert set(kept_record()) <= {each.id for each in PAIRS}


@EACH
@pytest.mark.torch_xla
def test_what_the_advice_names_exists(rule, advice):
    module = pytest.importorskip("torch_tpu" if advice.framework == TORCH_TPU else "torch_xla")
    if module.__file__ is None:  # scenarios/torch_tpu, where another test has scenarios/ on the path
        pytest.skip("torch_tpu is not installed")
    assert names.missing(rule, advice) == []


@pytest.mark.torch_xla
@pytest.mark.parametrize(("rule", "advice"), FAST)
@pytest.mark.slow("whole advice runs: before and after, captured; `make advice` runs all")
def test_the_advice_holds_now(rule, advice):
    pytest.importorskip("torch_xla")
    advice_runner.check(rule, advice)


def test_only_marked_lines_are_shown():
    script = "import a\n\nif a:\n    # [shown]\n    b = 1\n\n    c = 2\n    # [/shown]\nd = 3\n# [shown]\ne = 4\n# [/shown]\n"
    assert shown_lines(script) == "b = 1\n\nc = 2\ne = 4"


def test_the_registry_imports_no_program():
    code = (
        "import sys; from tpuprof.rules.registry import all_rules; all_rules();"
        "print([name for name in sys.modules if name.startswith('tpuprof.rules') and "
        "name.rpartition('.')[2].startswith(('before', 'after'))], 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"


@pytest.mark.torch_xla
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import torch_xla.no_such_module", "no_such_module"),
        ("from torch_xla.experimental.scan import scam", "scam"),
        ("import torch_xla\ntorch_xla.offload_name(1)", "offload_name"),
        ("import torch_xla\ntorch_xla.sync(reset=True)", "reset"),
        ("from torch_xla.experimental.scan_layers import scan_layers\nscan_layers([], 1, pure=True)", "pure"),
    ],
)
def test_what_does_not_exist_is_found(program, said):
    pytest.importorskip("torch_xla")
    found = names.missing_in_program(program)
    assert len(found) == 1 and said in found[0]


@pytest.mark.torch_xla
def test_flags_and_names_in_prose_are_looked_up():
    pytest.importorskip("torch_xla")
    pytest.importorskip("libtpu")
    wrong = "Set XLA_NO_SUCH_SETTING, pass --xla_tpu_no_such_flag=1 and call torch_xla.no_such()."
    assert len(names.missing_in_text(wrong)) == 3
    right = "XLA_IR_DEBUG=1, --xla_latency_hiding_scheduler_rerun=1, torch_xla.runtime.initialize_cache"
    assert names.missing_in_text(right) == []


RULE, ADVICE = next(each.values for each in PAIRS if each.values[0].id == "device-to-host-sync")


def finding(status, title="", rule=RULE.id):
    return {"rule": rule, "status": status, "title": title, "reason": ""}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({RULE.id: finding("passed")}, {RULE.id: finding("passed")}, "the rule is passed"),
        ({RULE.id: finding("failed")}, {RULE.id: finding("failed")}, "and failed"),
        ({RULE.id: finding("failed")}, {RULE.id: finding("unavailable")}, "and unavailable"),
        (
            {RULE.id: finding("failed"), "other": finding("passed")},
            {RULE.id: finding("passed"), "other": finding("failed", "It is slow")},
            "After also fails other",
        ),
    ],
)
def test_advice_that_does_not_hold_is_refused(before, after, said):
    with pytest.raises(advice_runner.WrongError, match=said):
        advice_runner._judge(RULE, ADVICE, before, after)


def test_results_that_do_not_match_are_infinitely_far():
    assert advice_runner._difference([1.0, 2.0], [1.0, 2.0]) == 0
    assert advice_runner._difference([100.0], [101.0]) == pytest.approx(1 / 101)
    assert advice_runner._difference([1.0], [1.0, 2.0]) == float("inf")
    assert advice_runner._difference([float("nan")], [1.0]) == float("inf")


def test_text_of_a_rule_does_not_make_its_check_stale():
    first = '"""One."""\n\ndef check(a):\n    """Two."""\n    return a + 1  # three\n'
    second = '"""Uno."""\n\ndef check(a):\n    """Due."""\n    return a + 1\n'
    assert advice_runner._code(first) == advice_runner._code(second)
    assert advice_runner._code(first) != advice_runner._code(first.replace("+ 1", "+ 2"))


def test_a_rule_has_no_advice_of_another_framework():
    for rule in all_rules():
        for framework in ("torch_tpu", "jax"):
            remedy = rule.page.remedy(framework)
            if framework not in rule.page.remedies:
                assert remedy.text.startswith("There is no advice for ") and not remedy.before
            assert "torch_xla" not in f"{remedy.text}{remedy.before}{remedy.after}", rule.id
    assert set(FRAMEWORKS) == {"torch_xla", "torch_tpu", "jax"}
