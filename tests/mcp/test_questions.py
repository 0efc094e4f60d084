"""All fifty questions, by a scripted client over stdio: exact answers, few calls, few tokens."""

import pytest

from tests.mcp.loops import finished

pytest.importorskip("mcp")
pytest.importorskip("duckdb")

from benchmarks.questions.questions import V6E, questions
from benchmarks.questions.run import ask
from benchmarks.questions.truth import ranked
from tests.conftest import SHARED_TRACES


@pytest.mark.slow("fifty questions; `make questions` asks them, too")
def test_every_answer_is_exact_and_small(samples):
    folders = [samples]
    if (SHARED_TRACES / V6E).is_dir():
        folders.append(SHARED_TRACES)
    found = finished(lambda: ask(folders, questions(len(folders) > 1)), 900)
    assert len(found) >= 50
    assert [(each.question, each.answer, each.truth) for each in found if not each.good] == []


@pytest.mark.parametrize(("count", "rank"), [(1, 1), (100, 99), (101, 100), (200, 198)])
def test_ranks_are_nearest(count, rank):
    assert ranked(list(range(1, count + 1)), 0.99) == rank
