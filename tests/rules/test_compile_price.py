"""What a smaller program saves of a slow start: the compile of all but one of the layers, where those are told."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.rules.given import compiled, given, loop, record, steps
from tests.rules.situations import started
from tpuprof.model.compile.cause import CompileCause
from tpuprof.model.compile.start_graphs import StartGraphs
from tpuprof.model.telemetry import KEPT_FROM_SECONDS, step_records
from tpuprof.report.schema import LoopRow, Savings
from tpuprof.report.sections import GraphCutRow
from tpuprof.rules.compile.persistent_cache_off.rule import SAVED_AT_LEAST
from tpuprof.rules.compile.slow_compile.rule import OF_READS_FROM
from tpuprof.rules.pricing import bounded
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of, run_rules
from tpuprof.rules.thresholds import SLOW_COMPILE_FROM_SECONDS, STARTUP_SPREAD_OVER_STEPS
from tpuprof.run_folder import telemetry_name

PER_STEP_MS = SLOW_COMPILE_FROM_SECONDS * 1e3 / STARTUP_SPREAD_OVER_STEPS


def outcome(*loops):
    signals = given(**{**started(SLOW_COMPILE_FROM_SECONDS), "loops": list(loops)})
    return outcome_of(find_rule("slow-compile"), signals)


def saved(*loops):
    savings = outcome(*loops).price.savings
    return savings.low / PER_STEP_MS, savings.high / PER_STEP_MS


def test_layers_whose_ops_are_told():
    row = replace(loop(10), ops_share_low=0.6, ops_share_high=0.9)
    assert saved(row) == pytest.approx((0.6 * 0.9, 0.9 * 0.9))
    assert {10, 0.6, 0.9} <= {each.value for each in outcome(row).evidence}
    assert outcome().evidence == [each for each in outcome(row).evidence if each.value not in (10, 0.6, 0.9)]


def test_the_block_repeated_most_often_counts():
    few = replace(loop(4), ops_share_low=0.1, ops_share_high=0.1)
    many = replace(loop(10), ops_share_low=0.6, ops_share_high=0.9)
    assert saved(few, many) == saved(many)


@pytest.mark.parametrize(
    "loops", [(), (loop(10),), (replace(loop(10, "while"), ops_share_low=0.6, ops_share_high=0.9),)]
)
def test_else_anything_up_to_the_whole_compile(loops):
    assert saved(*loops) == (0.0, 1.0)


def noted(folder, *compiles):
    """What a process noted of compiles before the capture: (seconds, innermost frame)."""
    rows = [{"graphs": 1, "seconds": seconds, "frames": [line] if line else []} for seconds, line in compiles]
    (folder / "tpuprof").mkdir()
    (folder / "tpuprof" / telemetry_name("host0", 0)).write_text(
        json.dumps({"step": 0, "compiles": rows}) + "\n"
    )
    return {"records": [*step_records(folder, "host0"), record()]}


def test_at_least_what_the_longest_line_compiled_is_folded(tmp_path):
    row = replace(loop(10), ops_share_low=0.6, ops_share_high=0.9)
    compiles = noted(tmp_path, (15.0, "train (a.py:1)"), (15.0, "train (a.py:1)"), (10.0, "show (a.py:9)"))
    signals = given(**{**started(SLOW_COMPILE_FROM_SECONDS), **compiles, "loops": [row]})
    savings = outcome_of(find_rule("slow-compile"), signals).price.savings
    assert (savings.start_low_s, savings.start_high_s) == pytest.approx((0.6 * 0.9 * 30, 0.9 * 0.9 * 40))


def of_reads(folder, alone, per_step):
    """A start with 32 graphs of which `alone` compiled at no graph cut, and a step in which reads run some."""
    compiles = [
        (SLOW_COMPILE_FROM_SECONDS / 32, "" if each < alone else "step (t.py:36)") for each in range(32)
    ]
    reads = [GraphCutRow("__float__", "grads.py:18", per_step)]
    records = noted(folder, *compiles)
    signals = given(**{**started(2 * SLOW_COMPILE_FROM_SECONDS), **records, "cutting_reads": reads})
    return outcome_of(find_rule("slow-compile"), signals)


@pytest.mark.parametrize(
    ("alone", "per_step", "cases"),
    [
        (30, 30.0, {"reads"}),
        (30, 30 * OF_READS_FROM, {"reads"}),
        (30, 30 * OF_READS_FROM - 1, {"large"}),
        (32 * OF_READS_FROM, 30.0, {"reads"}),
        (32 * OF_READS_FROM - 1, 30.0, {"large"}),
    ],
)
def test_compiles_of_reads_are_at_the_line_of_the_reads(tmp_path, alone, per_step, cases):
    """Of 32 graphs of a watcher of gradients, reads made 30; all 24 s were of the graph cut, and scan was advised."""
    found = of_reads(tmp_path, alone, per_step)
    assert found.cases == cases
    places = [each.source for each in found.evidence if each.source]
    assert places == (["grads.py:18"] if cases == {"reads"} else ["t.py:36"])
    assert ("graphs that reads run at grads.py:18" in found.title) is (cases == {"reads"})


def test_what_compiles_after_the_capture_did_not_hold_up_the_start(tmp_path):
    """Training that never is steady is noted to its end: 46 of 50 compiles "before the captured steps" came after."""
    compiled = [{"graphs": 1, "seconds": SLOW_COMPILE_FROM_SECONDS / 2 - 1, "frames": ["train (a.py:1)"]}]
    (tmp_path / "tpuprof").mkdir()
    for rank, captured in enumerate(([1], [1, 2])):
        rows = [{"step": each, "captured": each in captured, "compiles": compiled} for each in range(5)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "tpuprof" / telemetry_name("host0", rank)).write_text(text)
    records = step_records(tmp_path, "host0")
    assert [each.step for each in records if each.before] == [0, 0]
    assert [each.step for each in records if each.after] == [2, 3, 4, 3, 4]
    signals = given(**{**started(SLOW_COMPILE_FROM_SECONDS), "records": records})
    assert signals.startup_compiles == 2
    assert outcome_of(find_rule("slow-compile"), signals).status == "passed"


@pytest.mark.parametrize(("framework", "kept"), [("jax", 30.0), ("torch_tpu", 30.0 + 20 * 0.9)])
def test_jax_keeps_no_program_that_compiled_in_less_than_a_second(tmp_path, framework, kept):
    compiles = noted(tmp_path, (30.0, "train (a.py:1)"), *[(0.9 * KEPT_FROM_SECONDS, "helper (a.py:2)")] * 20)
    signals = given(**{**started(1.0), **compiles}, framework=framework, is_tpu=False)
    found = outcome_of(find_rule("persistent-cache-off"), signals)
    least = SAVED_AT_LEAST if framework == "jax" else 0.0
    savings = found.price.savings
    assert (savings.start_low_s, savings.start_high_s) == pytest.approx((least * kept, 48.0))
    told = [each.value for each in found.evidence if "not kept" in each.text]
    assert told == ([pytest.approx(18.0)] if framework == "jax" else [])


@pytest.mark.parametrize("per", ["start", "step"])
def test_a_start_may_save_more_than_a_step_takes(per):
    """Spread over the steps of a short run: no simulation contradicts it."""
    savings = bounded(Savings(30.0, 40.0, "bound", start_low_s=300.0, start_high_s=400.0, per=per), 9.0, None)
    assert (savings.low, savings.high) == (9.0, 9.0)
    assert bool(savings.note) == (per == "step")


def test_findings_on_the_compiles_of_a_start_share_their_saving():
    """25 s of compiles were priced by three findings, with no word that they are the same."""
    rules = [find_rule(each) for each in ("persistent-cache-off", "slow-compile", "no-step-markers")]
    signals = given(**{**started(2 * SLOW_COMPILE_FROM_SECONDS), "framework": "jax"})
    found = {each.rule: each.shares_saving_with for each in run_rules(signals, rules)}
    assert found["persistent-cache-off"] == ["slow-compile"]
    assert found["slow-compile"] == ["persistent-cache-off"]
    assert found["no-step-markers"] == []
    (alone,) = run_rules(signals, [find_rule("slow-compile")])
    assert alone.shares_saving_with == []


@pytest.mark.parametrize(("version", "low"), [("2.10.0", 0.0), ("", 0.0)])
def test_what_is_doubtful_of_a_cache_stands_beside_its_price(version, low):
    info = {"versions": {"torch_xla": version}}
    facts = {**started(SLOW_COMPILE_FROM_SECONDS), "framework": "torch_xla", "is_tpu": True, "run_info": info}
    price = outcome_of(find_rule("persistent-cache-off"), given(**facts)).price
    assert price.savings.start_low_s == low and "on TPU is unknown" in price.savings.note


def test_a_cache_that_saves_nothing_has_no_price():
    """It stood second with "up to 30.4 s at each start", and in the same brackets that on CPU a cache saves nothing."""
    signals = given(**{**started(SLOW_COMPILE_FROM_SECONDS), "framework": "torch_xla", "is_tpu": False})
    found = outcome_of(find_rule("persistent-cache-off"), signals)
    assert (found.status, found.price, found.share) == ("failed", None, 0.0)
    assert "on CPU a cache saves nothing" in found.reason


def test_what_a_cache_saves_on_a_gpu_is_unknown_and_not_nothing():
    facts = {**started(SLOW_COMPILE_FROM_SECONDS), "framework": "torch_xla", "device_type": "GPU H100"}
    price = outcome_of(find_rule("persistent-cache-off"), given(**facts, is_tpu=False)).price
    assert (price.savings.start_low_s, price.savings.start_high_s) == (0.0, SLOW_COMPILE_FROM_SECONDS)
    assert "on a GPU is unknown" in price.savings.note


@pytest.mark.parametrize(("kind", "least"), [("constant", 30 / 32), ("shape", 0.0)])
def test_many_graphs_at_the_start_need_be_one_or_two(kind, least):
    many = StartGraphs(32, 33, 0.8, CompileCause(kind, "what changed", "moco.py:45"))
    signals = given(**started(40.0))
    signals._run.hosts = [SimpleNamespace(start=many, records=signals.records)]
    found = outcome_of(find_rule("slow-compile"), signals)
    savings = found.price.savings
    assert (savings.start_low_s, savings.start_high_s) == pytest.approx(
        (0.8 * least * 40, 0.8 * 31 / 32 * 40)
    )
    assert "32 of the first 33 steps compiled a graph each" in found.title
    assert found.evidence[0].source == "moco.py:45"
    assert (found.cases, found.specific) == ({"many"}, True)
    other = outcome_of(find_rule("slow-compile"), given(**started(40.0)))
    assert (other.cases, other.specific) == ({"large"}, False)
    calls = given(**started(40.0))
    calls._run.hosts = [SimpleNamespace(start=replace(many, of=0), records=calls.records)]
    assert "32 calls compiled a graph each" in outcome_of(find_rule("slow-compile"), calls).title


def test_lines_that_a_loop_runs_over_and_over_stand_before_that_of_the_graph_cut():
    """A time loop of 64 turns was "fold repeated layers with scan_layers", at the line of `sync()`."""
    row = LoopRow("m.py:93", "line", "g", "", None, 1, None, None, [], "m.py:93", "", ops_share_low=0.41)
    found = outcome_of(find_rule("slow-compile"), given(**started(40.0), report={"loops": [row]}))
    assert found.cases == {"lines"}
    assert (found.evidence[0].source, found.evidence[0].value) == ("m.py:93", 0.41)


@pytest.mark.parametrize(("is_tpu", "version", "cases"), [(False, "2.9.0", "cpu"), (True, "2.10.0", "loads")])
def test_a_cache_is_not_asked_for_where_it_saves_nothing(is_tpu, version, cases):
    info = {"versions": {"torch_xla": version}}
    facts = {**started(SLOW_COMPILE_FROM_SECONDS), "framework": "torch_xla", "run_info": info}
    found = outcome_of(find_rule("persistent-cache-off"), given(**facts, is_tpu=is_tpu))
    assert found.cases == {cases}


def test_a_line_of_what_changed_stands_before_that_of_the_graph_cut():
    """Graphs compiled in captured steps mostly have no lines: "at timm_mix.py:28" was the line of `sync()`."""
    cut = replace(compiled("constant", file="train.py"), frames=["main (train.py:7)"])
    told = replace(cut, cause=replace(cut.cause, source_line=3), step=2)
    found = outcome_of(
        find_rule("recompiles-constant"),
        given(report={"compiles": [cut, told]}, steps=steps(), compile_share=0.9),
    )
    assert [each.source for each in found.evidence[:2]] == ["train.py:3", "train.py:7"]
