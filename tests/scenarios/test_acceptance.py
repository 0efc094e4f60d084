"""When the scenario runner says that predictions hold."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def runner():
    path = Path(__file__).parents[2] / "scenarios" / "run.py"
    spec = importlib.util.spec_from_file_location("scenario_runner", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def result(runner, predicted, *, spread=0.0, rule="tracing-bound"):
    """A pair that measurably saves 10 ms, give or take; `predicted` ms were foretold."""
    faulty = [110.0 - spread, 110.0, 110.0 + spread]
    bounds = [(predicted, predicted, 110.0)] if predicted is not None else []
    return runner.Result("pair", rule, "step", rule, predictions=bounds, faulty=faulty, cured=[100.0] * 3)


def test_what_fails_in_the_cured_run(runner):
    fine = runner.Result("pair", "tracing-bound", "step", "tracing-bound", cured_failed=["uneven-steps"])
    assert not fine.found
    fine.also = {"uneven-steps": "it is"}
    assert fine.found
    fine.cured_failed.append("tracing-bound")
    assert not fine.found
    assert runner.Result("healthy", "", "step").found


def test_nothing_known_is_nothing_proven(runner):
    assert not runner.accepted([])
    loose = result(runner, 10.0, spread=8.0)
    assert not loose.known
    assert not runner.accepted([loose])


def test_a_pair_that_cannot_show_its_saving_is_not_compared(runner):
    pair = result(runner, 10.0)
    assert pair.known
    pair.unmeasured = "not on this device"
    assert not pair.known
    assert not runner.accepted([pair])
    assert "| not on this device |" in sys.modules["page"].row_of(pair)


def test_a_saving_known_without_a_prediction_is_a_miss(runner):
    assert not runner.accepted([result(runner, None)])
    assert not runner.accepted([result(runner, 10.0), result(runner, None)])


@pytest.mark.parametrize(("predicted", "holds"), [(11.4, True), (8.6, True), (11.6, False), (8.4, False)])
def test_the_median_error(runner, predicted, holds):
    assert runner.accepted([result(runner, predicted)]) == holds


@pytest.mark.parametrize(("predicted", "holds"), [(19.9, True), (20.1, False), (5.1, True), (4.9, False)])
def test_none_is_off_by_more_than_a_factor_of_two(runner, predicted, holds):
    assert runner.accepted([result(runner, 10.0), result(runner, 10.0), result(runner, predicted)]) == holds


def test_a_page_is_not_written_over_by_a_part_of_its_rows(runner, monkeypatch, tmp_path, capsys):
    pages = sys.modules["page"]
    place = runner.places.PLACES[0]
    kept = {name: result(runner, 10.0) for name in place.names()}
    monkeypatch.setattr(pages, "PAGES", tmp_path)
    monkeypatch.setattr(runner, "_load", kept.get)
    last = place.names()[-1]
    timed, kept[last] = kept[last], runner.Result(last, "tracing-bound", "step", "tracing-bound")
    runner._write_page(place)
    assert not list(tmp_path.iterdir())
    assert last in capsys.readouterr().out
    kept[last] = timed
    runner._write_page(place)
    assert [path.name for path in tmp_path.iterdir()] == ["scenarios.md"]
