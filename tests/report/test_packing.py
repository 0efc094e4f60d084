"""Members of a bundle come out of its zip as they went in, but for private values that were left in them."""

import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.parallel import on_this_thread
from tpuprof.share.packing import InOrder, Packing, all_packed, packing, write_zip
from tpuprof.share.redact_proto import blot

LITERALS = ["secret-word", "cret-wo"]


def unpacked(path, members):
    write_zip(path, members.items())
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == list(members)
        return {name: archive.read(name) for name in members}


def in_parts(parts, literals):
    with Packing(literals) as begun:
        for part in parts:
            begun.add(part)
    return begun.packed()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([b"sec", b"ret-", b"word", b"cret-wo", b"secret-word", b"", b"-"]), max_size=12)
)
def test_a_value_across_parts_is_overwritten_as_in_one_piece(tmp_path_factory, parts):
    packed = in_parts(parts, LITERALS)
    whole, _ = blot(b"".join(parts), LITERALS)
    found = unpacked(tmp_path_factory.mktemp("zip") / "t.zip", {"a": packed})["a"]
    assert len(found) == packed.size == len(whole)
    assert not any(each.encode() in found for each in LITERALS)
    assert (packed.blotted == 0) == (found == b"".join(parts))


def test_the_same_bytes_as_in_one_piece(tmp_path):
    data = bytes(range(256)) * 5_000
    parts = [data[at : at + 70_001] for at in range(0, len(data), 70_001)]
    first, second = in_parts(parts, LITERALS), packing(data, LITERALS).packed()
    assert b"".join(first.parts) == b"".join(second.parts)
    assert unpacked(tmp_path / "t.zip", {"a": first, "b": second}) == {"a": data, "b": data}


@pytest.mark.parametrize("alone", [False, True])
def test_members_of_both_kinds(tmp_path, alone):
    def packed():
        return all_packed({"a": b"1 secret-word", "b": packing(b"2", []), "c": b""}, LITERALS)

    if alone:
        with on_this_thread():
            found = packed()
    else:
        found = packed()
    assert unpacked(tmp_path / "t.zip", found) == {"a": b"1 " + b"x" * 11, "b": b"2", "c": b""}
    assert [each.blotted for each in found.values()] == [1, 0, 0]


def test_a_member_that_is_given_up_holds_nobody_up():
    with pytest.raises(ValueError), Packing([]) as begun:
        begun.add(b"a")
        raise ValueError
    assert begun.packed().size == 1


def test_parts_are_handed_on_in_order():
    found = []
    parts = InOrder(found.append)
    for number, part in ((1, b"b"), (3, b"d"), (0, b"a"), (2, b"c")):
        parts.add(number, part)
    assert found == [b"a", b"b", b"c", b"d"]
