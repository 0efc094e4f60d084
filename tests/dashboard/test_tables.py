"""Tables as data: their columns, and the state that an address puts them into."""

import json

import pytest

pytest.importorskip("dash")
from tpuprof_dashboard.components.tables import restored, sorted_by, table


def grid(rows, **state):
    (part,) = restored([table("steps", rows)], {key: json.dumps(value) for key, value in state.items()})
    return part.children[1]


ROWS = [{"step": number, "wall ms": 1.5, "note": ""} for number in range(50)]


def test_columns_that_say_nothing_are_left_out():
    assert [each["field"] for each in grid(ROWS).columnDefs] == ["step", "wall ms"]


def test_a_column_stays_where_its_first_value_comes_late():
    rows = [{"a": 1, "b": None, "c": 2}, {"a": 1, "b": 0, "c": 2}]
    assert [each["field"] for each in grid(rows).columnDefs] == ["a", "b", "c"]


def test_order_filters_and_page_are_restored():
    filters = {"step": {"filterType": "number", "type": "equals", "filter": 5}}
    found = grid(ROWS, **{"t.steps": {"s": [["wall ms", "desc"]], "f": filters, "p": 2}})
    assert found.dashGridOptions["initialState"] == {
        "sort": {"sortModel": [{"colId": "wall ms", "sort": "desc"}]},
        "pagination": {"page": 2, "pageSize": 20},
    }
    assert found.filterModel == filters


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"t.other": {"p": 2}},
        {"t.steps": [1]},
        {"t.steps": {"s": [["wall ms"]], "f": {"gone": {}}, "p": -1}},
    ],
)
def test_what_names_no_column_is_left_out(state):
    found = grid(ROWS, **state)
    assert found.dashGridOptions.get("initialState", {}).get("sort", {}).get("sortModel", []) == []
    assert not getattr(found, "filterModel", None)


def test_a_link_can_say_the_order():
    (part,) = restored([table("steps", ROWS)], sorted_by("steps", "wall ms"))
    model = part.children[1].dashGridOptions["initialState"]["sort"]["sortModel"]
    assert model == [{"colId": "wall ms", "sort": "desc"}]
