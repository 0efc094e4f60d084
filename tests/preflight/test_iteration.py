"""Which graphs make one iteration."""

import pytest

from tpuprof.preflight.iteration import (
    CHANGING,
    MOST_UPDATES,
    PATIENCE,
    WITHOUT_UPDATE,
    Event,
    Search,
    event_entry,
    read_events,
)

OPTIMIZERS = {"D": 1, "G": 2, "T": 3}


def search(text: str, optimizers: str = "") -> Search:
    """Capitals are updates by the optimizer of that letter, small letters other graphs."""
    events = [
        Event(each, each.isupper(), frozenset({OPTIMIZERS.get(each, 9)} if each.isupper() else ()))
        for each in text
    ]
    return Search(events, frozenset(OPTIMIZERS[each] for each in optimizers))


@pytest.mark.parametrize(
    ("text", "optimizers", "iteration"),
    [
        ("TT", "T", "T"),
        ("eeeeTT", "T", "T"),
        # What comes after an update belongs to the next one.
        ("ABTrTrT", "T", "rT"),
        ("DGDG", "DG", "DG"),
        ("DDDGDDDG", "DG", "DDDG"),
        ("xaaTaaaTaaaT", "T", "aaaT"),
        # Known in the middle of an iteration, where the critic's steps repeat by themselves.
        ("xDyDGDDDGDDD", "DG", "GDDD"),
        # Games of a policy, of different lengths until two in a row are equal.
        ("xTrrrrTrrTrrrTrrrTrrrTrrrT", "T", "rrrT"),
        # Two lengths in turns.
        ("xTrrTrTrrTrT", "T", "rrTrT"),
        ("eeerTrT", "T", "rT"),
    ],
)
def test_the_shortest_repetition_with_all_updates(text, optimizers, iteration):
    found = search(text, optimizers)
    assert found.finished()
    assert "".join(found.iteration()) == iteration
    # One iteration earlier it was not known.
    assert not search(text[: -len(iteration)], optimizers).finished()


@pytest.mark.parametrize(
    ("text", "optimizers"), [("eeeeee", "T"), ("DDDDDD", "DG"), ("aaaa", "T"), ("T", "T"), ("DGD", "DG")]
)
def test_what_repeats_without_all_updates_is_no_iteration(text, optimizers):
    assert not search(text, optimizers).finished()


def test_runs_of_another_length_are_no_repetition():
    # The end of a longer run, or the beginning of one, looks like the run between two updates.
    for text in ("rrrrTrrT", "rrTrrrTrr", "rrrrTrrTrr", "xTrrrrTrrT", "xTrrrrTrrTrrrTrrrT"):
        assert not search(text, "T").period()
        assert not search(text, "T").finished()


def test_why_nothing_repeated():
    assert search("aAbBcC", "T").why_unsteady() == "each step compiles again"
    assert search("AB", "T").why_unsteady() == "each step compiles again"
    assert "2 to 3 other graphs" in search("eeeeTrrTrrrT", "T").why_unsteady()
    assert "1 to 2 other graphs" in search("rrTrT", "T").why_unsteady()
    assert "another order" in search("ABBABA", "T").why_unsteady()


def test_an_optimizer_that_never_steps_is_waited_for_so_long():
    assert not search("D" * (PATIENCE - 1), "DG").finished()
    assert search("D" * PATIENCE, "DG").finished()


def test_a_search_ends():
    def changing(count: int) -> Search:
        return Search([Event(str(index), True) for index in range(count)])

    assert not changing(CHANGING - 1).finished()
    assert changing(CHANGING).finished()
    assert not Search([Event(str(index), False) for index in range(WITHOUT_UPDATE - 1)]).finished()
    assert Search([Event(str(index), False) for index in range(WITHOUT_UPDATE)]).finished()
    uneven = [
        Event(str(index * index % 5 + index % 3 * 7 + (index in (9, 30))), True)
        for index in range(MOST_UPDATES)
    ]
    assert Search(uneven).finished()


def test_different_graphs_that_come_again_are_waited_for():
    # Critic's and generator's steps, each a graph of its own.
    assert not search("VWWXYZWBXC", "").finished()
    found = search("VWWXYZWBXC" + "ZWBXC", "")
    assert found.finished()
    assert "".join(found.iteration()) == "ZWBXC"


def test_a_script_that_ended_after_one_step_or_two():
    assert search("eeT").iteration() == ["T"]
    assert "".join(search("eXrT").iteration()) == "rT"
    assert search("ee").iteration() == []


def test_events_survive_the_manifest():
    events = search("eTDG").events
    assert read_events([event_entry(each) for each in events]) == events
