"""A record does what the standard one does, but for refusing to be written to."""

import dataclasses
from dataclasses import field
from functools import cached_property

import pytest

from tpuprof.records import record


def make(decorator):
    @decorator(frozen=True)
    class Row:
        name: str
        size: int = 3
        note: str = field(default="", compare=False)
        hidden: tuple = field(default=(1, 2), repr=False)

    @decorator
    class Box:
        rows: list = field(default_factory=list)
        row: Row = Row("default")  # allowed, as a frozen row can be hashed

        @cached_property
        def count(self):
            return len(self.rows)

        def __repr__(self):
            return "a box"

    return Row, Box


@pytest.fixture(params=[dataclasses.dataclass, record], ids=["standard", "quick"])
def made(request):
    return make(request.param)


def test_equality_and_hash(made):
    row, box = made
    assert row("a") == row("a", 3, "another note")
    assert row("a") != row("a", 4)
    assert row("a") != "a"
    assert {row("a"), row("a", note="x"), row("b")} == {row("a"), row("b")}
    assert box([1]) == box([1])
    with pytest.raises(TypeError, match="unhashable"):
        hash(box())


def test_a_cached_property_is_no_field(made):
    _, box = made
    one, other = box([1]), box([1])
    assert one.count == 1
    assert one == other


def test_text(made):
    row, box = made
    assert repr(row("a")).endswith("Row(name='a', size=3, note='')")
    assert repr(box()) == "a box"


def test_it_is_a_dataclass(made):
    row, box = made
    assert [each.name for each in dataclasses.fields(row)] == ["name", "size", "note", "hidden"]
    assert dataclasses.replace(row("a"), size=5) == row("a", 5)
    assert dataclasses.asdict(box([1])) == {
        "rows": [1],
        "row": {"name": "default", "size": 3, "note": "", "hidden": (1, 2)},
    }
    assert box().rows is not box().rows


def test_arguments(made):
    row, box = made
    assert (row("a", note="n").size, row(name="a", size=2).note) == (3, "")
    with pytest.raises(TypeError, match=r"Row.__init__\(\) missing 1 required positional argument: 'name'"):
        row()
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        box(lines=[])
    assert box(rows=[2]).rows == [2]
