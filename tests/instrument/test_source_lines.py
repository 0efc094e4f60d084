"""Positions and lines agree with what Python itself says of them."""

import argparse
import dis
import linecache
import types

import pytest

from tpuprof.instrument import source_lines


def codes(code):
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes(each)


@pytest.fixture(params=["quick", "by Python's own function", "by Python alone"])
def position(request, monkeypatch):
    if request.param != "quick":
        by = source_lines._by_ctypes() if "function" in request.param else None
        monkeypatch.setattr(source_lines, "_LOCATION", by)
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


def ends_in_an_if(words):
    found = []
    for word in words:
        found.append(word)
        if found[-1] < 0:
            found.pop()
    return found


def two_rounds(words):
    for word in words:
        for each in word:
            if each:
                words.append(each)


@pytest.mark.parametrize("function", [ends_in_an_if, two_rounds])
def test_a_jump_back_without_a_line_belongs_to_its_loop(function):
    code = function.__code__
    first = code.co_firstlineno
    found = {
        each.offset: source_lines.line_of(code, each.offset) - first
        for each in dis.get_instructions(code)
        if each.opname == "JUMP_BACKWARD" and each.positions.lineno is None
    }
    assert sorted(found.values()) == [2]


def test_every_instruction_has_a_line_of_its_function():
    with open(argparse.__file__, encoding="utf-8") as file:
        whole = compile(file.read(), argparse.__file__, "exec")
    for code in codes(whole):
        lines = {line for _, _, line in code.co_lines() if line} | {code.co_firstlineno}
        assert {source_lines.line_of(code, at) for at in range(0, len(code.co_code), 2)} <= lines
