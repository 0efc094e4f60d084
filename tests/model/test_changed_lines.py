"""All lines whose numbers changed between two programs, and none that only follow from them."""

import pytest

from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.model.compile.cause import compare


def at(line):
    return f'metadata={{op_name="a" source_file="m.py" source_line={line}}}'


def program(ops):
    """A program with one input that is the same in each form."""
    text = "\n".join(f"  {each}" for each in ops)
    module = parse_hlo_text(
        f"HloModule step.1\n\nENTRY %main (x: f32[64,8]) -> f32[64,8] {{\n  %x = f32[64,8] parameter(0)\n{text}\n}}\n"
    )
    for each in module.entry:
        if each.opcode == "pad":
            each.attributes["setting"] = each.attributes["padding"]
    return module


def bank(start, labels):
    """A memory bank and its labels are written at two lines."""
    return program(
        [
            f"%feats = f32[64,8] pad(%x, %x), padding={start}_0x0_0, {at(37)}",
            f"%seen = f32[64,8] pad(%x, %x), padding={start}_0x0_0, {at(38) if labels else ''}",
            f"ROOT %out = f32[64,8] add(%feats, %seen), {at(40)}",
        ]
    )


def sliced(rows, *, more=0, padded=None):
    """Rows are taken at line 3, and all that is computed of them has their number; a table at line 9 has its own."""
    table = f"%table = s32[{rows + more}] iota(), iota_dimension=0, {at(9)}" if more else ""
    back = padded if padded is not None else 64 - rows
    return program(
        [
            f"%part = f32[{rows},8] slice(%x), slice={{[0:{rows}], [0:8]}}, {at(3)}",
            f"%one = f32[] constant({1 / (rows * 8):.7g}), {at(5)}",
            f"%ones = f32[{rows},8] broadcast(%one), dimensions={{}}, {at(5)}",
            f"%mean = f32[{rows},8] multiply(%part, %ones), {at(5)}",
            *([table] if table else []),
            f"%grad = f32[{rows},8] negate(%mean)",
            f"%used = f32[{rows},8] add(%grad, %mean), {at(6)}",
            f"ROOT %out = f32[64,8] pad(%used, %x), padding=0_{back}x0_0, {at(7) if padded is not None else at(3)}",
        ]
    )


@pytest.mark.parametrize(
    ("new", "old", "lines"),
    [
        (bank(8, labels=True), bank(4, labels=True), ["m.py:37", "m.py:38"]),
        (bank(8, labels=False), bank(4, labels=False), ["m.py:37"]),
        (sliced(32), sliced(24), ["m.py:3"]),
        (sliced(32, more=1), sliced(24, more=1), ["m.py:3", "m.py:9"]),
        # A padding up to one size is a number of its own, by its own line.
        (sliced(32, padded=32), sliced(24, padded=40), ["m.py:3", "m.py:7"]),
    ],
)
def test_every_line_whose_number_changed_is_named_and_no_line_that_follows(new, old, lines):
    cause = compare(new, old)
    assert (cause.kind, [cause.source, *cause.also]) == ("constant", lines)
    assert not cause.others


def shared(power, *lines):
    """XLA shares one constant, and says of each copy that it is of the first line."""
    uses = [f"%p{row} = f32[64,8] power(%x, %b{row}), {at(line)}" for row, line in enumerate(lines)]
    spread = [
        f"%b{row} = f32[64,8] broadcast(%c), dimensions={{}}, {at(line)}" for row, line in enumerate(lines)
    ]
    return program(
        [
            f"%c = f32[] constant({power}), {at(lines[0])}",
            *spread,
            *uses,
            f"ROOT %out = f32[64,8] add(%p0, %p{len(lines) - 1}), {at(2)}",
        ]
    )


def test_a_constant_that_xla_shares_is_of_all_lines_that_use_it():
    cause = compare(shared(1.4, 17, 19), shared(1.3, 17, 19))
    assert [cause.source, *cause.also] == ["m.py:17", "m.py:19"]


def made(value):
    """A constant made at line 5 that line 6 uses."""
    return program(
        [
            f"%c = f32[] constant({value}), {at(5)}",
            f"%b = f32[64,8] broadcast(%c), dimensions={{}}, {at(6)}",
            f"ROOT %out = f32[64,8] multiply(%x, %b), {at(6)}",
        ]
    )


def test_a_constant_that_another_line_makes_is_of_that_line():
    cause = compare(made(1.4), made(1.3))
    assert (cause.source, cause.also) == ("m.py:5", ())


def test_there_may_be_other_lines_where_the_old_program_tells_none():
    """Column 2 is new, so line 4 changed; column 1 was there, at a line that is unknown."""
    cause = compare(program_of_three(1, 1, 2), program_of_three(1, 0, 0, lines=False))
    assert cause.others
    assert cause.source == "m.py:5"


def program_of_three(*columns, lines=True):
    ops = [
        f"%s{row} = f32[64,1] slice(%x), slice={{[0:64], [{column}:{column + 1}]}}"
        + (f", {at(3 + row)}" if lines else "")
        for row, column in enumerate(columns)
    ]
    return program([*ops, "%sum = f32[64,1] add(%s0, %s1)", "ROOT %out = f32[64,1] add(%sum, %s2)"])
