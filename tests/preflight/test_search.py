"""The search over settings and flags: what is tried in which order, what is dropped, and which points are the front."""

import io
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.script import ScriptRun
from tpuprof.preflight.search.choices import FLAG, PRECISIONS, Choice, changed, changes_to_make, parse_search
from tpuprof.preflight.search.engine import Found, Search, grid
from tpuprof.preflight.search.flags import FLAGS
from tpuprof.preflight.search.front import COMPILED, DROPPED, FAILED, SAME, TOO_LARGE, Result, front
from tpuprof.preflight.search.judge import how_sure, numerics
from tpuprof.preflight.search.render import render_search, search_dict

GIB = 1 << 30
RUN = ScriptRun("train.py", ["--batch", "8"])
VMEM, OTHER_VMEM, RERUN = FLAGS[0].choice, FLAGS[1].choice, FLAGS[3].choice


def result(point=(), step_ms=100.0, hbm=4 * GIB, compile_s=60.0, **more):
    more.setdefault("programs", (repr(point),))
    return Result(tuple(point), COMPILED, step_ms, hbm, 16 * GIB, compile_s, compiles=1, **more)


class Compiler:
    """A made-up compiler: step time and memory by batch, flags that help or do not. Notes what it was asked."""

    def __init__(self, gains=None, capacity=16, interrupt_at=0):
        self.gains, self.capacity, self.interrupt_at = gains or {}, capacity, interrupt_at
        self.asked = []

    def __call__(self, point, again=False):
        self.asked.append((point, again))
        if len(self.asked) == self.interrupt_at:
            raise KeyboardInterrupt
        batch = float(next((each.value for each in point if each.name == "batch"), 8))
        step = 10 + 10 * batch
        for each in point:
            step *= 1 - self.gains.get(each.name, 0.0)
        hbm = round(batch * GIB)
        # A compiler's answer is a function of the settings that matter.
        programs = (str(batch), *(each.name for each in point if each.name in self.gains))
        if hbm > self.capacity * GIB:
            return Result(tuple(point), TOO_LARGE, hbm=hbm, compiles=1, programs=programs)
        return result(point, step, hbm, samples=batch, programs=programs, products={"bf16 x bf16": 3})


def search(compiler, *items, flags=(), budget=24):
    return Search(
        Found("v5e-1"), parse_search(list(items)), tuple(flags), PRECISIONS, compiler, budget, print
    ).run()


def labels(found, status):
    return [" ".join(each.label for each in one.point) for one in found.tried if one.status == status]


def test_items_are_axes_and_auto_is_none():
    axes = parse_search(["batch=8,16,8", "auto", "remat=none,full"])
    assert [(each.name, each.values) for each in axes] == [
        ("batch", ("8", "16")),
        ("remat", ("none", "full")),
    ]


@pytest.mark.parametrize("items", [["batch"], ["batch="], ["=8"], ["--json"], ["batch=8", "batch=16"]])
def test_other_items_are_refused(items):
    with pytest.raises(TpuprofError, match="usage"):
        parse_search(items)


def test_points_near_the_first_values_come_first():
    points = grid(parse_search(["batch=8,16", "remat=none,full"]))
    assert [tuple(each.value for each in point) for point in points] == [
        ("8", "none"), ("8", "full"), ("16", "none"), ("16", "full"),
    ]  # fmt: skip
    assert grid([]) == []


def test_the_fastest_per_sample_wins_and_is_compiled_again():
    compiler = Compiler()
    found = search(compiler, "batch=4,16")
    assert found.winner.point == (Choice("batch", "16"),)
    assert compiler.asked[-1] == (found.winner.point, True)
    assert search_dict(found, RUN)["winner_agrees"] is True


def test_a_larger_value_is_dropped_once_memory_was_seen_to_grow():
    compiler = Compiler()
    found = search(compiler, "batch=8,16,32,64")
    assert labels(found, TOO_LARGE) == ["batch=32"]
    assert labels(found, DROPPED) == ["batch=64"]
    assert (Choice("batch", "64"),) not in [point for point, _ in compiler.asked]


def test_without_a_sign_that_memory_grows_larger_values_are_tried():
    found = search(Compiler(capacity=2), "batch=32,64")
    assert labels(found, TOO_LARGE)[-2:] == ["batch=32", "batch=64"]
    # In accumulation steps memory falls.
    shrinks = [
        result((Choice("micro", "1"),), hbm=9), result((Choice("micro", "2"),), hbm=5),
        Result((Choice("micro", "4"),), TOO_LARGE, hbm=20),
    ]  # fmt: skip
    from tpuprof.preflight.search.engine import doomed

    assert doomed((Choice("micro", "8"),), shrinks) == ""


def test_helpful_flags_are_combined_and_those_of_one_group_are_not():
    compiler = Compiler({VMEM.name: 0.1, OTHER_VMEM.name: 0.05, RERUN.name: 0.03})
    found = search(compiler, flags=FLAGS[:4])
    assert found.winner.point == (VMEM, RERUN)
    assert not any({VMEM, OTHER_VMEM} <= set(each.point) for each in found.tried)


def test_what_gains_nothing_is_no_winner():
    # A program of its own, and just as fast.
    found = search(Compiler({VMEM.name: 0.0}), flags=FLAGS[:1])
    assert labels(found, COMPILED) == ["", VMEM.label]
    assert found.winner is None


def test_a_flag_that_changes_nothing_is_the_same_program():
    found = search(Compiler(), flags=FLAGS[:1])
    assert labels(found, SAME) == [VMEM.label]
    assert found.winner is None
    assert "Nothing that was tried is faster" in shown(found)


def test_flags_of_collectives_are_for_programs_that_have_some():
    found = search(Compiler({FLAGS[5].name: 0.5}), flags=FLAGS)
    assert not any(FLAGS[5].choice in each.point for each in found.tried)


@pytest.mark.parametrize("budget", [2, 4, 7])
def test_the_budget_holds_with_the_winner_in_it(budget):
    compiler = Compiler({VMEM.name: 0.1, RERUN.name: 0.03})
    found = search(compiler, "batch=1,2,3,4,5", flags=FLAGS, budget=budget)
    assert found.compiles <= budget
    assert found.left > 0
    assert "were not reached" in shown(found)


def test_interrupted_keeps_what_was_found():
    found = search(Compiler(interrupt_at=3), "batch=4,16")
    assert found.interrupted
    assert len(found.tried) == 2
    assert found.front
    text = shown(found)
    assert "interrupted" in text and "batch=4" in text


def test_a_setting_that_the_script_refuses_does_not_end_the_search():
    class Refusing(Compiler):
        def __call__(self, point, again=False):
            if point and point[0].value == "4":
                raise TpuprofError(Code.PREFLIGHT_SCRIPT, "no such batch")
            return super().__call__(point, again)

    found = search(Refusing(), "batch=4,16")
    assert labels(found, FAILED) == ["batch=4"]
    assert found.winner.point == (Choice("batch", "16"),)


def test_of_a_script_that_always_fails_nothing_is_said_to_be_faster():
    def failing(point, again=False):
        raise TpuprofError(Code.PREFLIGHT_SCRIPT, "no such file")

    found = search(failing, "batch=4,16")
    assert not found.front
    text = shown(found)
    assert "faster" not in text and "nothing could be compared" in text and "no such file" in text


def test_the_scripts_own_batch_is_known_by_its_program():
    class Unsaid(Compiler):
        def __call__(self, point, again=False):
            found = super().__call__(point, again)
            found.samples = found.samples if point else None
            return found

    assert search(Unsaid(), "batch=8,16").base.samples == 8
    # Where no value gives its program, a time per step is not compared with one per sample.
    unknown = search(Unsaid(), "batch=4,16")
    assert unknown.base.samples is None
    assert all(each.samples for each in unknown.front)
    assert how_sure(unknown.front[0], unknown.base).startswith("unknown")


times = st.one_of(st.none(), st.floats(0.1, 1e4))
results = st.lists(
    st.tuples(times, st.integers(0, 16 * GIB), st.floats(0.5, 500), st.integers(0, 3)), max_size=12
).map(
    lambda rows: [
        result([Choice(f"{row}-{n}", "1") for n in range(count)], step, hbm, seconds)
        for row, (step, hbm, seconds, count) in enumerate(rows)
    ]
)


def beats(one, other):
    return one.grained != other.grained and all(
        a <= b for a, b in zip(one.grained, other.grained, strict=True)
    )


@given(results)
def test_the_front_is_what_nothing_beats(tried):
    best = front(tried)
    assert not any(beats(one, other) for one, other in itertools.permutations(best, 2))
    for each in tried:
        if each.fits and each not in best:
            assert any(beats(other, each) or other.grained == each.grained for other in best)
    assert all(each.fits for each in best)
    assert [each.cost_ms for each in best] == sorted(each.cost_ms for each in best)


@given(results, st.randoms())
def test_the_front_does_not_depend_on_the_order(tried, random):
    mixed = list(tried)
    random.shuffle(mixed)
    assert front(mixed) == front(tried)


def test_what_is_equal_within_the_grain_needs_no_change():
    assert front([result([VMEM], 99.95), result((), 100.0)]) == [result((), 100.0)]


def test_settings_go_where_the_user_would_put_them(monkeypatch):
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_given=1")
    point = (Choice("batch", "16"), Choice("REMAT", "full"), VMEM, RERUN)
    run = changed(RUN, point)
    assert run.arguments == ["--batch", "16"]
    assert run.environment["REMAT"] == "full"
    assert run.environment["LIBTPU_INIT_ARGS"] == f"--xla_given=1 {VMEM.value} {RERUN.value}"
    assert changes_to_make(RUN, point) == [
        "argument --batch 16", "environment variable REMAT=full",
        f'environment variable LIBTPU_INIT_ARGS="{VMEM.value} {RERUN.value}"',
    ]  # fmt: skip


def test_numerics_and_trust_are_said_of_each():
    base = result((), 100.0, samples=8, products={"f32 x f32": 2})
    batch = result([Choice("batch_size", "16")], 150.0, samples=16, products={"f32 x f32": 2})
    assert any("another number of samples" in each for each in numerics(batch, base))
    assert "medium" in how_sure(batch, base)
    dtype = result([Choice("dtype", "bf16")], 50.0, samples=8, products={"bf16 x bf16": 2})
    assert any("bf16 x bf16; of the script as it is f32 x f32" in each for each in numerics(dtype, base))
    assert how_sure(result([VMEM], 98.0, samples=8), base).startswith("low: a difference below 3 %")
    guessed = result([VMEM], 50.0, samples=8, guessed_ms=20.0)
    assert how_sure(guessed, base).startswith("low: 40 % of it has no estimate")
    linked = result((), 100.0, samples=8, exposed_ms=40.0)
    assert "link speeds" in how_sure(result([VMEM], 70.0, samples=8, exposed_ms=10.0), linked)
    assert "losses change" in numerics(result([PRECISIONS[0]]), base)[0]


def test_precision_is_tried_for_float32_alone():
    class Single(Compiler):
        def __call__(self, point, again=False):
            found = super().__call__(point, again)
            found.products = {"f32 x f32": 1}
            return found

    precision = PRECISIONS[0]
    assert search(Single({precision.name: 0.5})).winner.point == (precision,)
    assert all(not each.point for each in search(Compiler({precision.name: 0.5})).tried)


def shown(found):
    out = io.StringIO()
    render_search(found, RUN, Console(file=out, width=80))
    return out.getvalue()


def test_the_answer_is_read_at_80_columns_and_as_json():
    found = search(Compiler({VMEM.name: 0.1}), "batch=8,16,32,64", flags=FLAGS[:3])
    text = shown(found)
    for each in (
        "step/sample",
        "faster",
        "HBM",
        "compile",
        "change: argument --batch 16",
        "numerics:",
        "how sure:",
    ):
        assert each in text
    assert "batch=32: does-not-fit" in text
    plain = json.loads(json.dumps(search_dict(found, RUN), allow_nan=False))
    assert plain["winner"] == f"batch=16 {VMEM.label}"
    fastest = next(each for each in plain["tried"] if each["label"] == plain["winner"])
    assert fastest["on_front"]
    assert fastest["faster"] == pytest.approx(1 - 0.9 * 170 / 16 / (90 / 8))
    assert [each["kind"] for each in fastest["settings"]] == ["setting", FLAG]
