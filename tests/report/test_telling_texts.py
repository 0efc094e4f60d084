"""Texts around telltale signs: the native pass over all signs finds what a pass for each sign does."""

import subprocess
import sys
import textwrap

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tpuprof.share import learn_profile
from tpuprof.share.learn_profile import telling_texts, texts_around

_telling = pytest.importorskip("tpuprof.share._telling", reason="the native modules are not built")

SIGNS = learn_profile._SIGNS
# Signs and their parts, what ends a text, and other bytes.
PIECES = st.one_of(
    st.sampled_from(
        [*SIGNS, *(sign[:-1] for sign in SIGNS), b"\n", b"\x00", b"\x7f", b"user", b"\xff" * 150]
    ),
    st.binary(max_size=5),
)


@given(data=st.lists(PIECES, max_size=40).map(b"".join), most=st.integers(0, 5))
@example(data=b"", most=1)
@example(data=b"://" * 200, most=100_000)
@example(data=b"a" * 300 + b"/home/ann" + b"b" * 300, most=1)
def test_both_find_the_same(data, most):
    before, learn_profile.MAX_SIGNS = learn_profile.MAX_SIGNS, most
    try:
        native = _telling.texts_around(data, SIGNS, learn_profile._AROUND, most)
        assert native == texts_around(data)
    finally:
        learn_profile.MAX_SIGNS = before


def test_more_signs_than_it_can_tell_apart_are_refused():
    with pytest.raises(ValueError, match="65 signs"):
        _telling.texts_around(b"", tuple(b"%d" % number for number in range(65)), 10, 10)


def test_without_the_native_module_the_same_is_found(tmp_path, monkeypatch):
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(b"\x0a\x10gs://bucket/x\x00\x01 t1v-n-0123-w-0\x00")
    native = telling_texts(path)
    monkeypatch.setitem(__import__("sys").modules, "tpuprof.share._telling", None)
    assert telling_texts(path) == native
    assert any("t1v-n-0123" in text for text in native)


def test_a_profile_that_is_cut_short_meanwhile_does_not_end_the_process(tmp_path):
    """The file is mapped: what is gone reads as zeros."""
    script = textwrap.dedent(f"""
        import os
        from pathlib import Path
        from tpuprof.share import learn_profile
        path = Path({str(tmp_path / "h.xplane.pb")!r})
        path.write_bytes(b"/home/alice/x" + b"\\n" * 8192 + b"/home/bob/x")
        scan = learn_profile._texts
        def cut_first(data, read):
            os.truncate(path, 4096)
            return scan(data, read)
        learn_profile._texts = cut_first
        print(learn_profile.telling_texts(path), flush=True)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("['/home/alice/x']", 0), done.stderr


@pytest.mark.parametrize("part", [1, 7, 16, 1 << 20])
def test_a_file_that_is_read_in_parts_gives_the_same(monkeypatch, part):
    """A text that lies in two parts is found whole."""
    data = (
        b"x\n"
        + b"see /home/alice/a gs://bucket-1/b\n" * 3
        + b"\x00tpu@vm.c.proj.internal"
        + b"y" * 300
        + b"@end"
    )
    whole = learn_profile._texts(data)
    monkeypatch.setattr(learn_profile, "PART", part)
    parts = learn_profile._texts(memoryview(data))
    assert whole <= parts
    # A second sign in one text may be found from the next part on: the same text.
    assert all(any(each in text or text in each for text in whole) for each in parts)
