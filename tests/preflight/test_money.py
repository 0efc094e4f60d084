"""Slices compared by predicted speed and by prices that the user gives."""

import io

import pytest
from rich.console import Console

from tests.preflight import programs
from tests.preflight.test_combined import GIB, ONE_MS
from tests.preflight.test_prediction import STATS
from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.compiler import Compiled
from tpuprof.preflight.iteration import Event, Search
from tpuprof.preflight.money import Work, cost_notes, costs, parse_prices
from tpuprof.preflight.prediction import predict
from tpuprof.preflight.render import render_costs
from tpuprof.preflight.run import Outcome, Variant
from tpuprof.preflight.script import ScriptRun, Trace
from tpuprof.preflight.targets import parse_target

PRICES = {"v5e": 1.2, "v6e": 2.7, "v6e-4": 2.0}


def outcome(arguments: int = GIB, trains: bool = True) -> Outcome:
    """1.5 million cycles on each: 1 ms on v5e, 1.5/1.75 ms on v6e."""
    graph = programs.graph()
    found = []
    for name in ("v5e-4", "v6e-4", "v5p-8"):
        made = Compiled(graph, parse_target(name), "compiled", 1.0, {**STATS, "argument": arguments})
        made.hlo_text = ONE_MS
        found.append(predict(made))
    search = Search([Event("abc", trains), Event("abc", trains)])
    trace = Trace([graph], search, True, 4, 0, 0, {}, 1.0)
    return Outcome(Variant("train.py", ScriptRun("train.py")), {(4, ""): trace}, found)


def test_speed_and_money_by_hand():
    rows = {row.target: row for row in costs([outcome()], PRICES, Work(samples=32, tokens=32 * 512))}
    v5e, v6e = rows["v5e-4"], rows["v6e-4"]
    assert v5e.usd_per_hour == pytest.approx(4 * 1.2)
    # 1000 steps per second, 3.6 million per hour.
    assert v5e.steps_per_usd == pytest.approx(3.6e6 / 4.8)
    assert v5e.samples_per_s == pytest.approx(32_000)
    assert v5e.tokens_per_usd == pytest.approx(3.6e6 / 4.8 * 32 * 512)
    # The slice's own price comes before its generation's.
    assert v6e.usd_per_hour == pytest.approx(8.0)
    assert v6e.steps_per_usd == pytest.approx(3.6e6 * 1.75 / 1.5 / 8.0)
    assert (rows["v5p-8"].usd_per_hour, rows["v5p-8"].steps_per_usd) == (None, None)


def test_the_best_by_money_comes_first_and_is_named():
    rows = costs([outcome()], PRICES, Work())
    assert [row.target for row in rows] == ["v5e-4", "v6e-4", "v5p-8"]
    notes = cost_notes(rows, PRICES)
    assert any("v5e-4 gives most per dollar, 1.43x of v6e-4" in each for each in notes)
    assert any("no price was given for v5p-8" in each for each in notes)
    assert any("smallest slice here that fits is v5e-4, 4 chip(s)" in each for each in notes)


def test_what_does_not_fit_costs_nothing_sensible():
    rows = {row.target: row for row in costs([outcome(20 * GIB)], PRICES, Work(samples=32))}
    assert (rows["v5e-4"].fits, rows["v5e-4"].steps_per_usd, rows["v5e-4"].samples_per_s) == (
        False,
        None,
        None,
    )
    assert rows["v6e-4"].fits
    notes = cost_notes(list(rows.values()), PRICES)
    assert any("smallest slice here that fits is v5p-8, 4" in e or "fits is v6e-4, 4" in e for e in notes)


def test_without_a_training_step_there_is_no_price_of_one():
    rows = costs([outcome(trains=False)], PRICES, Work(samples=32))
    assert {row.steps_per_usd for row in rows} == {None}
    assert any("no slice here is known to fit" in each for each in cost_notes(rows, PRICES))


@pytest.mark.parametrize("text", ["v5e", "v5e=", "v5e=-1", "=1", "v5e=nan", "v5e=free"])
def test_a_price_that_is_none_is_refused(text):
    with pytest.raises(TpuprofError) as caught:
        parse_prices([text])
    assert caught.value.code is Code.USAGE


def test_prices_come_in_one_option_or_several():
    assert parse_prices(["v5e=1.2, v6e=2.7", "v5p-8=4"]) == {"v5e": 1.2, "v6e": 2.7, "v5p-8": 4.0}


def test_the_table_says_predicted_and_is_whole_at_80_columns():
    out = io.StringIO()
    rows = costs([outcome()], PRICES, Work(tokens=16_384))
    render_costs(rows, cost_notes(rows, PRICES), Console(file=out, width=80))
    text = out.getvalue()
    assert "Predicted" in text
    assert "16,384,000" in text
    assert any(line.split()[:2] == ["v5p-8", "yes"] and line.split()[-1] == "-" for line in text.splitlines())
