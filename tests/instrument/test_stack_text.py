"""Stacks as text: lines, expressions, and what of them is the user's."""

import contextlib
import dis
import functools
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tpuprof.instrument.stack_frames import library_line, user_line
from tpuprof.instrument.stack_text import MAX_EXPRESSION, describe, expression, is_users, places_of, safe
from tpuprof.model.host.stacks import Stack
from tpuprof.safe_text import FROM_SAFE


def seen():
    frame = sys._getframe(1)
    return places_of(frame), frame.f_lineno


def test_a_stack_names_the_call_and_the_users_line():
    (places, line) = seen()
    words = describe(places)
    assert words["call"] == "seen()"
    assert words["source"] == f"{__file__}:{line}"
    assert words["user_call"] == "seen()"
    assert (
        words["frames"].split(";")[-1]
        == f"test_a_stack_names_the_call_and_the_users_line ({__file__}:{line})"
    )


def begun(function):
    """The place of a function that was called and has done nothing yet."""
    return next(
        (function.__code__, each.offset) for each in dis.get_instructions(function) if each.opname == "RESUME"
    )


def test_a_function_that_has_not_begun_is_a_call_of_its_caller():
    """A sampler gets Python's lock there, after whatever took long before the call."""

    def slow():
        return None

    (places, line) = seen()
    assert describe([begun(slow), *places]) == describe(places)
    assert describe(places)["source"] == f"{__file__}:{line}"
    assert describe([begun(slow)])["source"].startswith(__file__)


def test_a_generator_that_goes_on_stays():
    def numbers():
        yield 1
        yield 2

    (again,) = [
        (numbers.__code__, each.offset)
        for each in dis.get_instructions(numbers)
        if each.opname == "RESUME" and each.arg
    ][:1]
    assert describe([again, *seen()[0]])["frames"].split(";")[-1].startswith("numbers ")


def adds(words):
    total = 0
    for word in words:
        total += len(word)
    return total


def sets_once(words):
    total = len(words)
    return [total for _ in words]


def texts_at(function, name):
    return {
        expression(function.__code__, each.offset)
        for each in dis.get_instructions(function)
        if each.opname == name
    }


def test_a_loop_that_jumps_back_frees_nothing():
    """The jump has the place of the name that was set; an assignment by itself stays a name."""
    assert texts_at(adds, "JUMP_BACKWARD") == {"total = …"}
    assert "total" in texts_at(sets_once, "STORE_FAST") | texts_at(sets_once, "STORE_DEREF")


def waits_for_each(get, sleep):
    for x, y in iter(get, {"a:b": [None][0:1]}):
        sleep(x)
        yield y


def test_where_a_loop_asks_for_the_next_element_stands_its_head_alone():
    """The instruction has the whole loop for its place, body and all."""
    assert texts_at(waits_for_each, "FOR_ITER") == {'for x, y in iter(get, {"…": [None][0:1]})'}


def test_an_expression_over_several_lines_is_one_line():
    def together(*values):
        return seen()[0][1]

    code, at = together(
        1,
        2,
    )
    assert expression(code, at) == "together( 1, 2, )"


def test_long_expressions_are_cut():
    def took(*values):
        return seen()[0][1]

    place = took(
        11111111111111111111111111111111111111111, 2222222222222222222222222222222222222222222222222222
    )
    assert len(expression(*place)) == MAX_EXPRESSION
    assert expression(*place).endswith("…")


def test_code_without_source_has_no_expression():
    space = {"seen": seen}
    exec("places = seen()[0]", space)
    assert expression(*space["places"][0]) == ""


def test_whose_code_a_file_is():
    assert is_users("/home/u/train.py")
    assert not is_users("/venv/lib/python3.11/site-packages/torch/nn/modules/module.py")
    assert not is_users(sys.modules["logging"].__file__ if "logging" in sys.modules else "<frozen x>")
    assert not is_users("<string>")
    assert is_users("<ipython-input-3-0a1b2c>")


def test_a_cell_of_a_notebook_without_a_file_is_the_users():
    space = {"seen": seen}
    exec(compile("found = seen()", "<ipython-input-3-0a1b2c>", "exec"), space)
    assert describe(space["found"][0])["source"] == "<ipython-input-3-0a1b2c>:1"


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["/v/site-packages/mine/train.py", "/v/site-packages/torch/optim/adam.py"], "mine/train.py"),
        (["/v/site-packages/mine/cli.py", "/v/site-packages/mine/train.py"], "mine/train.py"),
        (["/home/u/train.py", "/v/site-packages/mine/train.py"], "/home/u/train.py"),
        (["/v/site-packages/torch/optim/adam.py"], ""),
    ],
)
def test_a_program_that_is_an_installed_package_has_a_line_too(paths, found):
    places, _ = called_through(paths, seen)
    source = describe([place for place in places if place[0].co_filename != __file__])["source"]
    assert source.rpartition(":")[0].removeprefix("/v/site-packages/") == found


def called_through(paths, call):
    """What a call gives that functions of these files make, the last of them."""
    for path in reversed(paths):
        names = {}
        exec(compile("def f(call): return call()", path, "exec"), names)
        call = functools.partial(names["f"], call)
    with ThreadPoolExecutor(1) as pool:  # a thread of its own: the test's file is no package's
        return pool.submit(call).result()


def ran(text, **names):
    """The stack inside a text that a line of this file runs."""
    exec(text, names)
    return names["found"][0]


def test_the_line_of_a_text_is_named_that_a_line_of_the_program_runs():
    places = ran("pass\ndef look():\n    return seen()\n\nfound = look()", seen=seen)
    words = describe(places)
    assert words["user_call"] == "line 3 of exec(text, names)"
    assert words["source"].startswith(f"{__file__}:")
    one, other = (Stack((), "", words["source"], call) for call in (words["user_call"], "exec(text, names)"))
    assert (one.source, one.line != other.line, other.line) == (other.source, True, other.source)


def test_a_function_of_another_text_is_named_by_the_line_that_calls_it():
    space = {"seen": seen}
    exec("\n\n\ndef look():\n    return seen()", space)
    assert describe(ran("\nfound = look()", look=space["look"]))["user_call"] == "line 2 of exec(text, names)"


def test_a_function_that_was_made_of_a_text_is_a_call_like_others():
    space = {"seen": seen}
    exec("def look():\n    return seen()", space)
    look = space["look"]
    assert describe(look()[0])["user_call"] == "look()"


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (
            ["/home/u/torch/train.py", "/venv/lib/python3.11/site-packages/torch/nn.py"],
            "/home/u/torch/train.py",
        ),
        (["/home/u/train.py", "/v/site-packages/transformers/trainer.py"], "/home/u/train.py"),
        (
            ["/v/site-packages/mine/train.py", "/v/site-packages/jax/_src/pjit.py"],
            "/v/site-packages/mine/train.py",
        ),
        (["/v/site-packages/jax/_src/pjit.py"], ""),
    ],
)
def test_the_users_line_is_that_of_the_innermost_frame_which_is_neither_pythons_nor_a_packages(paths, found):
    assert called_through(paths, user_line).rpartition(":")[0] == found


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (
            ["/home/u/train.py", "/v/site-packages/torch/nn/modules/module.py", "/v/site-packages/transformers/mask.py",
             "/v/site-packages/torch/_tensor.py"],
            "/v/site-packages/transformers/mask.py",
        ),
        (["/home/u/train.py", "/v/site-packages/torch/optim/lbfgs.py"], "/v/site-packages/torch/optim/lbfgs.py"),
        # What each op goes through is no place, and neither is what a library calls of the user's.
        (["/home/u/train.py", "/v/site-packages/torch/nn/modules/module.py"], ""),
        (["/v/site-packages/lightning/loop.py", "/home/u/train.py"], ""),
        (["/home/u/train.py"], ""),
    ],
)  # fmt: skip
def test_the_line_of_a_library_is_the_innermost_that_asks_for_a_value_below_the_users(paths, found):
    assert called_through(paths, library_line).rpartition(":")[0] == found


def test_what_a_stat_cannot_carry_comes_back_whole():
    text = "f(a, b=[1]) # \"x\" {'y'}\n"
    assert not set(safe(text)) & set(",#=\"'{}[]()\n\r")
    assert safe(text).translate(FROM_SAFE) == text


def test_texts_in_an_expression_are_left_out(tmp_path):
    path = tmp_path / "secretive.py"
    path.write_text("def run(f):\n    return f('hunter2', \"a'b\", 3)\n")
    space, found = {}, []
    exec(compile(path.read_text(), str(path), "exec"), space)
    space["run"](lambda *_: found.append(places_of(sys._getframe(1))[0]))
    assert expression(*found[0]) == "f('…', \"…\", 3)"


def batches():
    while True:
        yield places_of(sys._getframe())


class Source:
    def __iter__(self):
        return self

    def __next__(self):
        return places_of(sys._getframe())

    def __getitem__(self, at):
        return places_of(sys._getframe())


def wrapped(stream):
    yield from stream


def in_for(stream):
    found = []
    for places in stream:
        found = places
        break
    return found


def by_position(source):
    (places,) = map(source.__getitem__, [0])
    return places


@pytest.mark.parametrize(
    ("places", "named"),
    [
        (lambda: in_for(batches()), "batches"),
        (lambda: in_for(wrapped(batches())), "wrapped"),
        (lambda: in_for(enumerate(batches()))[1], "batches"),
        (lambda: next(batches()), "batches"),
        (lambda: in_for(Source()), "__next__"),
        (lambda: Source().__next__(), "__next__"),
        (lambda: in_for(x for x in batches()), "<genexpr>"),
    ],
)
def test_what_gives_a_loop_its_elements_is_named(places, named):
    found = describe(places())["iterator"]
    assert found.startswith(f"{named} ({__file__}:")


@contextlib.contextmanager
def timed():
    yield places_of(sys._getframe())


def in_with():
    with timed() as places:
        return places


@pytest.mark.parametrize(
    "places",
    [
        lambda: seen()[0],
        in_with,
        lambda: max((places_of(sys._getframe()) for _ in range(2)), key=len),
        lambda: Source()[0],
        lambda: by_position(Source()),
        lambda: batches().send(None),
    ],
)
def test_other_calls_of_generators_are_no_loop(places):
    assert "iterator" not in describe(places())
