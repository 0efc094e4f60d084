"""What came of a fix, beside its finding."""

from types import SimpleNamespace

import pytest

from tpuprof.render.savings import tried


@pytest.mark.parametrize(
    ("pairs", "read_from", "text"), [(4, "its steps", "S. (4 pairs, read from its steps)"), (0, "", "S.")]
)
def test_without_a_pair_nothing_is_said_of_pairs(pairs, read_from, text):
    proof = SimpleNamespace(sentence="S.", pairs=pairs, read_from=read_from)
    assert tried(SimpleNamespace(proofs=[proof])) == [text]
