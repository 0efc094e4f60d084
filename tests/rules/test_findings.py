"""Findings of whole runs: isolation, ranking, prices, and what of them is shown."""

import io
import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.builders import TraceBuilder, op
from tests.report.reports import finding
from tests.rules.given import given, step, steps
from tests.rules.situations import flags, reads
from tpuprof.analysis.analyze import analyze_run, report_of, what_if_of
from tpuprof.cli.main import app
from tpuprof.decode.find import find
from tpuprof.errors import TpuprofError
from tpuprof.model.device.cpu import Queue
from tpuprof.model.run import build_run
from tpuprof.report.labels import shared_saving
from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules import thresholds
from tpuprof.rules.base import Price, Rule, counterfactual, failed, not_applicable, passed
from tpuprof.rules.docstring import Page
from tpuprof.rules.pricing import simulator_of
from tpuprof.rules.registry import all_rules, find_rule
from tpuprof.rules.runner import outcome_of, ranked, run_rules
from tpuprof.rules.shared_savings import share_ops
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change
from tpuprof.units import format_ms


def made(name, check, *, broad=False, narrows="", category="tests"):
    page = Page("")
    return Rule(name, category, "preview", "good", "bad", broad, page, check, __name__, narrows=narrows)


def broken(_signals):
    raise ZeroDivisionError("no steps")


def missing(_signals):
    raise Unavailable("it was not captured")


def saves(ms):
    return lambda _signals: failed(ms / 100, [Evidence("it")], price=Price(savings=Savings(ms, ms, "bound")))


def looked(outcome):
    """A check that reads a signal and then says this."""
    return lambda signals: outcome if signals.steps else None


def statuses(*rules):
    return [(finding.rule, finding.status) for finding in run_rules(given(steps=steps()), rules)]


def test_a_broken_rule_hides_no_other():
    found = run_rules(given(steps=steps()), [made("broken", broken), made("fine", saves(30))])
    assert [(each.rule, each.status) for each in found] == [("fine", "failed"), ("broken", "error")]
    assert "ZeroDivisionError: no steps" in found[1].reason


@pytest.mark.parametrize(
    ("sure", "first"),
    [(60 * thresholds.DOUBTED_RANKS_AT + 1, "sure"), (60 * thresholds.DOUBTED_RANKS_AT - 1, "doubted")],
)
def test_a_doubted_finding_stands_behind_a_sure_one_of_half_its_size(sure, first):
    def doubted(_signals):
        return failed(0.6, [Evidence("it")], price=Price(savings=Savings(60, 60, "bound")), confidence="low")

    found = run_rules(given(steps=steps()), [made("doubted", doubted), made("sure", saves(sure))])
    assert found[0].rule == first


def saves_range(low, high):
    price = Price(savings=Savings(low, high, "counterfactual"))
    return lambda _signals: failed(high / 100, [Evidence("it")], price=price)


@pytest.mark.parametrize(("low", "first"), [(23.0, "sure"), (17.0, "open")])
def test_what_is_sure_comes_before_what_may_be(low, first):
    """A read was priced at 0 to 1.29 ms of which 0.2 were true, and Python that cost more at 0.35 to 0.71 ms."""
    open_end = 60 * thresholds.BEYOND_RANKS_AT
    assert low != open_end
    rules = [made("open", saves_range(0, 60)), made("sure", saves_range(low, low))]
    assert run_rules(given(steps=steps()), rules)[0].rule == first


def test_the_largest_saving_is_first_and_the_rest_has_its_order():
    assert statuses(
        made("a", looked(passed())),
        made("b", missing),
        made("c", saves(20)),
        made("d", saves(40)),
        made("e", looked(not_applicable("no loop"))),
    ) == [("d", "failed"), ("c", "failed"), ("a", "passed"), ("e", "not_applicable"), ("b", "unavailable")]


@pytest.mark.parametrize(("ms", "title"), [(15.0, "A read, up to 30 %"), (14.9, "A read")])
def test_a_title_states_the_share_at_stake_unless_the_price_is_far_below(ms, title):
    price = Price(savings=Savings(ms / 2, ms, "bound"))
    outcome = failed(0.3, [Evidence("it")], price=price, title="A read", at_stake=", up to 30 %")
    (found,) = run_rules(given(steps=steps()), [made("read", looked(outcome))])
    assert found.title == title


@pytest.mark.parametrize(("at_most", "share"), [(0.51, "51 %"), (0.6, "55 %")])
def test_the_title_of_a_read_has_no_larger_bound_than_the_verdict(at_most, share):
    """The verdict said "costs up to 51 %", and the finding "up to 55 %" of the same read."""
    signals = given(**reads(1.0, 0.6, 55.0), turns_at_most=at_most)
    outcome = outcome_of(find_rule("device-to-host-sync"), signals)
    assert outcome.at_stake == f", up to {share} of each step"


def test_a_broad_rule_that_names_a_cause_this_time_is_not_behind():
    """Compiles of the start, with their line, cost more per step than tracing, and stood behind it."""
    price = saves(40)(None).price

    def check(_signals):
        return failed(0.4, [Evidence("it")], price=price, specific=True)

    found = statuses(made("names", check, broad=True), made("other", saves(30)))
    assert [name for name, _ in found] == ["names", "other"]


@pytest.mark.parametrize(("more", "first"), [(0.01, "specific"), (-0.01, "broad")])
def test_of_a_broad_rule_and_a_specific_one_that_save_alike_the_specific_one_comes_first(more, first):
    """Both prices are replays, and neither saves what the other does."""
    rules = [made("broad", saves(1), broad=True), made("specific", saves(1))]
    found = [
        finding("broad", severity=0.4),
        finding("specific", severity=0.4 * thresholds.BROAD_TIES_AT + more),
    ]
    assert ranked(found, rules, {"broad", "specific"}, set())[0].rule == first


@pytest.mark.parametrize(("specific", "first"), [(17, "specific"), (15, "broad")])
def test_a_broad_rule_ranks_behind_a_specific_one_of_two_fifths_of_its_worth(specific, first):
    found = statuses(made("broad", saves(40), broad=True), made("specific", saves(specific)))
    assert found[0][0] == first


def taking_turns(count=6, drain_ms=0):
    """Host 10 ms, device 10 ms, one after the other because of a read; the last step may read all else at its end."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    modules, ops = trace.tpu(0).line("XLA Modules"), trace.tpu(0).line("XLA Ops")
    for number in range(count):
        at = number * 20_000
        drain = drain_ms * 1_000 if number == count - 1 else 0
        python.event("train_step", at, 20_000 + drain, _r=1, step_num=number)
        python.event("SyncLiveTensorsGraph", at + 9_000, 1_000)
        python.event("PjRtComputationClient::ExecuteComputation", at + 9_900, 100)
        python.event("tpuprof.host_read", at + 10_000, 10_000, call="item", source="train.py:9")
        if drain:
            python.event("tpuprof.host_read", at + 20_000, drain, call="cpu", source="train.py:20")
        modules.event("step(7)", at + 10_000, 10_000 + drain)
        ops.event(start=at + 10_000, duration=10_000 + drain, **op("fusion.1"))
    return trace.sampled(0, count * 20_000, ops=count * 20_000)


@pytest.fixture
def turns(tmp_path):
    return taking_turns().write(tmp_path / "host.xplane.pb")


def test_a_read_that_makes_turns_is_first_with_its_line_and_price(turns):
    finding = analyze_run(turns).findings[0]
    assert (finding.rule, finding.status) == ("device-to-host-sync", "failed")
    assert finding.evidence[0].source == "train.py:9"
    assert finding.savings.method == "counterfactual"
    # Host and device side by side take as long as the longer of them.
    assert (finding.savings.low + finding.savings.high) / 2 == pytest.approx(10, rel=0.05)
    assert finding.severity == pytest.approx(0.5, rel=0.05)
    assert finding.fix.after and finding.fix.doc == "docs/rules/device-to-host-sync.md"


@pytest.mark.parametrize(("builds", "most"), [(4_000, 10), (0, 6)])
def test_what_a_read_does_to_run_a_graph_of_its_own_goes_with_it(tmp_path, builds, most):
    """Host 10 ms, then a read that walks its own graph for 4 ms, then the device 6 ms. Or the host walks it before."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    modules, ops = trace.tpu(0).line("XLA Modules"), trace.tpu(0).line("XLA Ops")
    for number in range(6):
        at = number * 20_000
        python.event("train_step", at, 20_000, _r=1, step_num=number)
        begin = at + 14_000 - builds
        python.event("tpuprof.host_read", begin, at + 20_000 - begin, call="item", source="train.py:9")
        python.event("RunPostOrder", at + 10_000, 4_000)
        python.event("PjRtComputationClient::ExecuteComputation", at + 13_900, 100)
        python.event("TransferFromDevice", at + 14_000, 6_000)
        modules.event("step(7)", at + 14_000, 6_000)
        ops.event(start=at + 14_000, duration=6_000, **op("fusion.1"))
    trace.sampled(0, 6 * 20_000, ops=6 * 20_000)
    found = {each.rule: each for each in analyze_run(trace.write(tmp_path / "host.xplane.pb")).findings}
    savings = found["device-to-host-sync"].savings
    assert (savings.low, savings.high) == (pytest.approx(6, abs=0.5), pytest.approx(most, abs=0.5))


def test_the_verdict_names_the_read_of_every_step_not_a_longer_one_at_the_end(tmp_path):
    report = analyze_run(taking_turns(drain_ms=70).write(tmp_path / "host.xplane.pb"))
    assert [each.call for each in report.host_reads] == ["cpu", "item"]
    assert report.verdict.sentence.endswith("It is .item() at train.py:9.")


@pytest.mark.parametrize(("left", "status"), [(0.94, "failed"), (0.96, "passed")])
def test_a_finding_whose_replay_gains_too_little_is_no_failure(turns, left, status):
    """Both sides of the share a replay must gain: 6 % and 4 % of host time that is half of the step."""

    def check(_signals):
        change = Change(host={"tracing": 2 * left - 1})
        return failed(0.5, [Evidence("it")], price=counterfactual(change))

    run = build_run(find(turns))
    finding = run_rules(Signals(analyze_run(turns), run), [made("it", check)])[0]
    assert finding.status == status
    assert ("gains only" in finding.reason) == (status == "passed")


def test_every_rule_has_a_finding(turns):
    from tpuprof.rules.registry import all_rules

    findings = analyze_run(turns).findings
    assert {finding.rule for finding in findings} == {rule.id for rule in all_rules()}
    assert [finding.rule for finding in findings if finding.status == "error"] == []
    json.dumps([finding.__dict__ for finding in findings], default=vars, allow_nan=False)


def test_what_if_removes_causes_at_once_and_names_what_it_left_out(turns):
    result = what_if_of(turns, ["device-to-host-sync", "input-starved"])
    assert result.rules == ["device-to-host-sync"]
    assert result.skipped == ["input-starved: passed"]
    assert result.measured_ms == pytest.approx(20)
    assert result.low_ms == pytest.approx(10, rel=0.05)


def test_what_if_saves_no_more_than_its_causes_take(turns, monkeypatch):
    greedy = made("greedy", lambda _: failed(0.1, [], price=counterfactual(Change(unblock=True))))
    monkeypatch.setattr("tpuprof.rules.what_if.find_rule", lambda _: greedy)
    result = what_if_of(turns, ["greedy"])
    assert result.low_ms == pytest.approx(18)


def test_what_if_leaves_out_what_saves_time_of_each_start(turns, monkeypatch):
    price = Price(savings=Savings(1.0, 2.0, "bound", per="start"))
    monkeypatch.setattr(
        "tpuprof.rules.what_if.find_rule", lambda _: made("start", lambda _: failed(0.5, [], price=price))
    )
    result = what_if_of(turns, ["start"])
    assert result.skipped == ["start: failed, and its fix saves time of each start, not of a step"]
    assert (result.low_ms, result.high_ms) == (result.measured_ms, result.measured_ms)


def test_what_if_on_the_command_line(turns):
    done = CliRunner().invoke(app, ["analyze", str(turns), "--what-if", "device-to-host-sync"])
    assert done.exit_code == 0
    assert "20.0 ms per step now; with device-to-host-sync fixed: 10.0 ms" in done.stdout


def test_what_if_of_an_unknown_rule(turns):
    with pytest.raises(TpuprofError, match="there is no rule 'sync'"):
        what_if_of(turns, ["sync"])


def test_the_text_report_shows_the_finding_its_saving_and_fix(turns):
    from rich.console import Console

    from tpuprof.render.text import render

    out = io.StringIO()
    render(analyze_run(turns), Console(file=out, width=300))
    text = out.getvalue()
    assert "1. .item() at train.py:9 makes host and device take turns" in text
    assert "Fixing it saves" in text
    assert "add_step_closure" in text


def test_rules_on_the_command_line():
    listed = CliRunner().invoke(app, ["rules"]).stdout
    assert "device-to-host-sync" in listed
    one = CliRunner().invoke(app, ["rules", "scan-cache-off"]).stdout
    assert "## How to fix" in one
    assert "is_layer_pure=True" in one
    facts = json.loads(CliRunner().invoke(app, ["rules", "scan-cache-off", "--json"]).stdout)
    assert facts["id"] == "scan-cache-off"
    assert "is_layer_pure=True" in facts["fix"]["after"]


def test_the_page_of_a_rule_is_the_same_everywhere():
    from pathlib import Path

    page = CliRunner().invoke(app, ["rules", "input-starved"]).stdout.partition("\n\n")[2].strip()
    assert page in (Path(__file__).parents[2] / "docs" / "rules" / "input-starved.md").read_text("utf-8")


def test_a_simulator_begun_before_gives_the_same_prices(turns):
    run = build_run(find(turns))
    report = report_of(run)
    assert any(finding.savings for finding in report.findings)
    assert run_rules(Signals(report, run), all_rules()) == report.findings


@pytest.mark.parametrize(("name", "shared"), [("dot.1", ["other"]), ("dot.2", [])])
def test_findings_about_the_same_op_share_its_time(tmp_path, name, shared):
    run = build_run(find(taking_turns().write(tmp_path / "turns.xplane.pb")))

    def about(op_name):
        price = counterfactual(Change(device={"compute": 0.8}), ops={("f(1)", op_name): 2.0})
        return lambda _signals: failed(0.5, [Evidence("it")], price=price)

    rules = [made("one", about("dot.1")), made("other", about(name))]
    found = {each.rule: each.shares_saving_with for each in run_rules(Signals(report_of(run), run), rules)}
    assert found["one"] == shared


@pytest.mark.parametrize(("framework", "status"), [("jax", "not_applicable"), ("torch_xla", "unavailable")])
def test_what_is_about_pytorch_xla_alone_does_not_apply_to_jax(framework, status):
    outcome = outcome_of(find_rule("aten-fallback"), given(framework=framework))
    assert outcome.status == status


def removing(change):
    return lambda _signals: failed(0.5, [Evidence("it")], price=counterfactual(change))


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (Change(device={"compute": 0.0}), Change(device={"compute": 0.5}), True),
        # Each is about some ops: they may be different ones as long as both fit into the part.
        (Change(device={"compute": 0.5}), Change(device={"compute": 0.5}), False),
        (Change(device={"compute": 0.4}), Change(device={"compute": 0.5}), True),
        # Side by side, host and device take as long as the longer of the two: with half of one, less is gained so.
        (Change(device={"compute": 0.5}), Change(unblock=True), True),
        (Change(host={"tracing": 0.0}), Change(unblock=True), True),
        (Change(unblock=True), Change(join_cuts=0.0), True),
    ],
)
def test_findings_that_save_the_same_time_say_so(tmp_path, one, other, shared):
    run = build_run(find(taking_turns().write(tmp_path / "turns.xplane.pb")))
    rules = [made("one", removing(one)), made("other", removing(other))]
    found = {each.rule: each.shares_saving_with for each in run_rules(Signals(report_of(run), run), rules)}
    assert found == ({"one": ["other"], "other": ["one"]} if shared else {"one": [], "other": []})


def test_findings_that_share_their_saving_say_what_all_of_them_save(tmp_path):
    """The read and the work on what it read were one fault: neither price alone was what the cure saved."""
    run = build_run(find(taking_turns().write(tmp_path / "turns.xplane.pb")))
    less = Change(host={"tracing": 0.8}, device={"compute": 0.5})
    changes = {"one": less, "other": Change(unblock=True)}
    rules = [made(name, removing(change)) for name, change in changes.items()]
    found = {each.rule: each for each in run_rules(Signals(report_of(run), run), rules)}
    one, other = found["one"], found["other"]
    simulator = simulator_of(run.hosts)
    together = simulator.measured_ms - simulator.step_ms(changes["one"].and_also(changes["other"]))
    assert one.saves_together_ms == other.saves_together_ms == pytest.approx(together)
    assert max(one.savings.high, other.savings.high) < together < one.savings.high + other.savings.high
    assert shared_saving(one) == (
        f"It shares this saving with other: do not add them up. Fixing both saves up to {format_ms(together)} per step "
        "(simulated)."
    )


def test_two_findings_that_save_no_more_than_one_of_them_have_no_price_together(tmp_path):
    run = build_run(find(taking_turns().write(tmp_path / "turns.xplane.pb")))
    rules = [made(name, removing(Change(host={"tracing": 0.0}))) for name in ("one", "other")]
    for each in run_rules(Signals(report_of(run), run), rules):
        assert each.saves_together_ms is None
        assert shared_saving(each).endswith("do not add them up.")


@pytest.mark.parametrize(
    ("names", "shared"),
    [(("recompiles-other", "recompiles-shape"), False), (("recompiles-shape", "tracing-bound"), True)],
)
def test_compiles_of_different_causes_are_different_time(tmp_path, names, shared):
    """Losses were joined in each step by two programs, one of a new shape: "do not add them up" was said of both."""
    run = build_run(find(taking_turns().write(tmp_path / "turns.xplane.pb")))
    rules = [made(name, removing(Change(host={"tracing": 0.5}))) for name in names]
    found = {each.rule: each.shares_saving_with for each in run_rules(Signals(report_of(run), run), rules)}
    assert [found[name] for name in names] == ([[names[1]], [names[0]]] if shared else [[], []])


@pytest.mark.parametrize(("left", "shared"), [(0.5, False), (0.4, True)])
def test_two_causes_that_take_more_than_all_compiling_share_some(tmp_path, left, shared):
    """Of 9.6 s of compiling, 9.4 and 8.4 s were said of two causes, and nothing of what both counted."""
    run = build_run(find(taking_turns().write(tmp_path / "turns.xplane.pb")))
    change = Change(host={"tracing": 0.5, "compile": left})
    rules = [made(name, removing(change)) for name in ("recompiles-other", "recompiles-shape")]
    found = run_rules(Signals(report_of(run), run), rules)
    assert all(bool(each.shares_saving_with) == shared for each in found)


def test_rules_about_the_same_collective_sell_the_same_time():
    signals = given(**flags(0.5))
    prices = [
        outcome_of(find_rule(name), signals).price for name in ("exposed-collectives", "async-flags-missing")
    ]
    assert prices[0].ops and share_ops(prices[0].ops, prices[1].ops)


def ordered(tmp_path, share):
    """Ids of the findings of a broad and a specific rule about the same reads, the specific one with such a share."""
    run = build_run(find(taking_turns().write(tmp_path / "turns.xplane.pb")))
    price = counterfactual(Change(unblock=True))
    rules = [
        made("broad", lambda _signals: failed(0.5, [Evidence("it")], price=price), broad=True),
        made("specific", lambda _signals: failed(share, [Evidence("it")], price=price, confidence="high")),
    ]
    return [each.rule for each in run_rules(Signals(report_of(run), run), rules)]


def test_a_cause_of_what_a_broad_rule_sees_comes_before_it(tmp_path):
    assert ordered(tmp_path, 0.5 * thresholds.SPECIFIC_FROM + 0.01) == ["specific", "broad"]
    assert ordered(tmp_path, 0.5 * thresholds.SPECIFIC_FROM - 0.01) == ["broad", "specific"]


@pytest.mark.parametrize(
    ("price", "first"),
    [
        # The host's half of a turn: without it the device's half takes as long as it does.
        (counterfactual(Change(host={"tracing": 0.0})), "broad"),
        # The time that the specific one takes out, and more.
        (counterfactual(Change(device={"compute": 0.0})), "specific"),
        # Without a price nothing tells how much of it the specific one names.
        (None, "specific"),
    ],
)
def test_the_larger_saving_comes_first_where_a_broad_one_is_of_other_time(tmp_path, price, first):
    run = build_run(find(taking_turns().write(tmp_path / "turns.xplane.pb")))
    less = counterfactual(Change(device={"compute": 0.4}))
    rules = [
        made("broad", lambda _signals: failed(0.5, [Evidence("it")], price=price), broad=True),
        made("specific", lambda _signals: failed(0.3, [Evidence("it")], price=less), category="others"),
    ]
    found = run_rules(Signals(report_of(run), run), rules)
    assert [round(each.severity, 1) for each in sorted(found, key=lambda each: each.rule)] == [0.5, 0.3]
    assert found[0].rule == first


@pytest.mark.parametrize(
    ("category", "part", "first"),
    [
        ("run", thresholds.SPECIFIC_OF_RUN_FROM + 0.01, "specific"),
        ("run", thresholds.SPECIFIC_OF_RUN_FROM - 0.01, "broad"),
        # Any other category is about something else.
        ("others", thresholds.SPECIFIC_OF_RUN_FROM + 0.01, "broad"),
    ],
)
def test_what_makes_steps_uneven_comes_before_uneven_steps(tmp_path, category, part, first):
    """Copies to the device in every second step: both rules name the same line, and one of them says what to do."""
    run = build_run(find(taking_turns().write(tmp_path / "turns.xplane.pb")))
    price = counterfactual(Change(unblock=True))
    rules = [
        made(
            "broad",
            lambda _signals: failed(0.5, [Evidence("it")], price=price),
            broad=True,
            category=category,
        ),
        # Of low confidence, as where other programs had the CPUs: it counts half.
        made(
            "specific", lambda _signals: failed(0.5 * part, [Evidence("it")], price=price, confidence="low")
        ),
    ]
    found = run_rules(Signals(report_of(run), run), rules)
    assert found[0].rule == first


@pytest.mark.parametrize(
    ("narrows", "share", "first"),
    [
        ("any-op", 0.5, "mask"),
        ("", 0.5, "any-op"),
        ("any-op", 0.5 * thresholds.SPECIFIC_FROM + 0.01, "mask"),
        ("any-op", 0.5 * thresholds.SPECIFIC_FROM - 0.01, "any-op"),
    ],
)
def test_a_case_of_another_rule_comes_before_it_and_both_say_that_they_share(tmp_path, narrows, share, first):
    run = build_run(find(taking_turns().write(tmp_path / "turns.xplane.pb")))
    price = counterfactual(Change(unblock=True))
    rules = [
        made("any-op", lambda _signals: failed(0.5, [Evidence("it")], price=price)),
        made("mask", lambda _signals: failed(share, [Evidence("it")], price=price), narrows=narrows),
    ]
    found = run_rules(Signals(report_of(run), run), rules)
    assert found[0].rule == first
    assert {each.rule: each.shares_saving_with for each in found} == {"any-op": ["mask"], "mask": ["any-op"]}


def test_a_boolean_mask_is_a_case_of_an_op_that_falls_back():
    assert find_rule("boolean-mask").narrows == "aten-fallback"
    ids = {rule.id for rule in all_rules()}
    assert all(not rule.narrows or rule.narrows in ids for rule in all_rules())


def test_a_high_confidence_needs_a_replay_that_fits(tmp_path):
    run = build_run(find(taking_turns().write(tmp_path / "turns.xplane.pb")))
    price = counterfactual(Change(unblock=True))
    rule = made("sure", lambda _signals: failed(0.5, [Evidence("it")], price=price, confidence="high"))
    signals = Signals(report_of(run), run)
    assert [each.confidence for each in run_rules(signals, [rule])] == ["high"]
    (unpriced,) = run_rules(signals, [rule], lambda: "it cannot be priced: the replay is off")
    assert (unpriced.confidence, unpriced.savings) == ("medium", None)


@pytest.mark.parametrize(
    ("category", "broad", "status"),
    [
        ("host", False, "unavailable"),
        # Uneven steps of the host: they cost time only where the device waits for them.
        ("run", True, "unavailable"),
        ("run", False, "failed"),
        ("compute", False, "failed"),
    ],
)
def test_where_the_device_is_behind_nothing_is_known_to_wait_for_the_host(category, broad, status):
    """12 programs handed over, 3 of them begun: the first captured step fills the queue, and took longer."""
    rule = made(
        "one",
        lambda signals: failed(signals.step_ms / 100, [Evidence("it")]),
        broad=broad,
        category=category,
    )
    behind = SimpleNamespace(queue=Queue(12, 3), devices=[], name="vm")
    assert outcome_of(rule, given(steps=[step(50.0)], hosts=[behind])).status == status
    even = SimpleNamespace(queue=Queue(12, 12), devices=[], name="vm")
    assert outcome_of(rule, given(steps=[step(50.0)], hosts=[even])).status == "failed"


@pytest.mark.parametrize(
    ("busy", "priced", "status"),
    [
        (0.91, False, "passed"),
        (0.91, True, "failed"),
        (0.89, False, "unavailable"),
        (0.89, True, "unavailable"),
    ],
)
def test_a_device_that_is_busy_is_known_not_to_wait_although_it_is_behind(busy, priced, status):
    """The verdict is then that it holds training up: a replay tells how little a fix of the host's work gains."""
    price = counterfactual(Change(host={"tracing": 0.0})) if priced else None
    rule = made(
        "one",
        lambda signals: failed(0.3, [Evidence("it", signals.step_ms, "ms")], price=price),
        category="host",
    )
    behind = SimpleNamespace(queue=Queue(12, 3), devices=[], name="vm")
    outcome = outcome_of(rule, given(steps=[step(50.0)], hosts=[behind], busy_share=busy))
    assert outcome.status == status
    if status == "passed":
        assert outcome.reason == "the device is busy for 91 % of the steps: something else holds it up"
