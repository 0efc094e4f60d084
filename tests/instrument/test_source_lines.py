"""Positions and lines agree with what Python itself says of them."""

import argparse
import linecache
import types

import pytest

from tpuprof.instrument import source_lines


def codes(code):
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes(each)


@pytest.fixture(params=["quick", "by Python alone"])
def position(request, monkeypatch):
    if request.param != "quick":
        monkeypatch.setattr(source_lines, "_ADDRESS_TO_LOCATION", None)
    return source_lines.position


def test_positions_are_those_of_python(position):
    with open(argparse.__file__, encoding="utf-8") as file:
        whole = compile(file.read(), argparse.__file__, "exec")
    wrong = [
        (code.co_name, row, own)
        for code in list(codes(whole))[:40]
        for row, own in enumerate(code.co_positions())
        # The first instruction of a module has no line.
        if own[0] and position(code, 2 * row) != own
    ]
    assert wrong == []


def test_lines_are_those_of_the_file(tmp_path):
    path = tmp_path / "würfel.py"
    path.write_text("first = 1\nsecond = 'ä'\r\nlast = 3", "utf-8")
    assert source_lines.source_lines(str(path), 2, 3) == ["second = 'ä'\r\n".encode(), b"last = 3"]
    assert source_lines.source_lines(str(path), 3, 9) == [b"last = 3"]


def test_a_notebooks_cell_is_known_to_python():
    linecache.cache["<cell 1>"] = (8, None, ["value = 1\n"], "<cell 1>")
    try:
        assert source_lines.source_lines("<cell 1>", 1, 1) == [b"value = 1\n"]
    finally:
        del linecache.cache["<cell 1>"]


@pytest.mark.parametrize("path", ["<string>", "/no/such/file.py", "/", "a\0b"])
def test_what_is_no_file_has_no_lines(path):
    assert source_lines.source_lines(path, 1, 2) == []
