"""Changes that a compile's cause lists."""

from tpuprof.model.compile.cause import list_of


def test_a_change_that_is_made_more_than_once_is_listed_once():
    """`{[3:4:1],[0:32:1]} became {[5:6:1],[0:32:1]}` stood three times in one cause, with "and 1 more" behind it."""
    assert list_of(["a became b"] * 4) == "a became b (4 times)"
    assert list_of(["a became b", "c became d", "a became b"]) == "a became b (2 times), c became d"
    assert list_of(list("abcde")) == "a, b, c and 2 more"
