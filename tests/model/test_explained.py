"""What JAX logs of its cache misses (texts of jax 0.7.1) becomes the cause of the compile that follows."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.compile.explained import cause_in
from tpuprof.safe_text import TO_SAFE

HEAD = "TRACING CACHE MISS at /home/u/train.py:6:52 (main) costing 4.494 ms because:\n"
SEEN = "  for update defined at /home/u/train.py:3\n  all previously seen cache keys are different. "
ONE, SEVERAL = f"{SEEN}Closest previous key:\n", f"{SEEN}Several previous keys are closest:\n"
SHAPE = """  * key with different input types:
      types now: w: f32[3], x: f32[5,2], lr: f32[]
        * at x, now f32[5,2] and before f32[4,2]
"""
DTYPE = SHAPE.replace("now f32[5,2] and before f32[4,2]", "now f16[5,2] and before f32[5,2]")
WEAK = """  * key with different input types:
      types now: w: f32[3], x: f32[5,2], lr: f32[]
        * at lr, now f32[]{weak_type=False} and before f32[]{weak_type=True}
    where weak_type=True often means a Python builtin numeric value, and
    weak_type=False means a jax.Array.
    See https://docs.jax.dev/en/latest/type_promotion.html#weak-types.
"""
STATIC = """  * key with different value of static kwargs:
      now {n: 2} and before {n: 1}
"""
STATIC_LINES = """  * key with different value of static kwargs:
      now {n: 2}
      before {n: 1}
"""
STATIC_OBJECT = """  * key with different value of static args:
      now <__main__.Model object at 0x7efde2> and before <__main__.Model object at 0x7efde1>
"""
OTHER_OBJECT = STATIC_OBJECT.replace("before <__main__.Model", "before <__main__.Other")
TREE = """  * key with different input pytree:
      now: PyTreeDef((({'a': *, 'b': *},), {}))
      before: PyTreeDef((({'a': *},), {}))
"""
NEW = """  never seen function:
    <lambda> id=139764601676288 defined at /home/u/train.py:16
"""
AGAIN = f"""{NEW}  but seen another function defined on the same line; maybe the function is
  being re-defined repeatedly, preventing caching?"""


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (ONE + SHAPE, "shape", "an argument changed: x f32[4,2] became f32[5,2]"),
        (SEVERAL + SHAPE + DTYPE, "dtype", "an argument changed: x f32[5,2] became f16[5,2]"),
        (ONE + WEAK, "again", "the weak type of an argument changed: lr was a Python number"),
        (ONE + STATIC, "constant", "a static argument changed: {n: 1} became {n: 2}"),
        (ONE + STATIC_LINES, "constant", "a static argument changed: {n: 1} became {n: 2}"),
        (ONE + STATIC_OBJECT, "again", "a static argument is a new object: <__main__.Model object>"),
        (
            ONE + OTHER_OBJECT,
            "constant",
            "a static argument changed: <__main__.Other object at 0x7efde1> became <__main__.Model object at 0x7efde2>",
        ),
        (
            ONE + TREE,
            "graph",
            "the tree of the arguments changed: PyTreeDef((({'a': *},), {})) became PyTreeDef((({'a': *, 'b': *},), {}))",
        ),
        (AGAIN, "again", "a new function object: another function was defined on the same line before"),
    ],
)
def test_the_argument_that_changed_is_named(text, kind, said):
    found = cause_in(HEAD + text)
    assert (found.kind, found.detail, found.source) == (
        kind,
        f"{said} (JAX's explanation)",
        "/home/u/train.py:6",
    )


@pytest.mark.parametrize("text", [NEW, "", "  something else\n", ONE])
def test_what_tells_no_difference_is_no_cause(text):
    assert cause_in(HEAD + text) is None


def retraced(*texts):
    """Steps that call `update`; before the compile in the fourth, JAX explains."""
    trace = TraceBuilder()
    python, modules = trace.host().line("python"), trace.tpu(0).line("XLA Modules")
    for number in range(6):
        at = number * 1000
        python.event("train", at, 1000, _r=1, step_num=number)
        python.event("PjitFunction(update)", at + 10, 340)
        if number == 3:
            for place, text in enumerate(texts):
                python.event(
                    "tpuprof.cache_miss", at + 20 + 2 * place, 1, text=(HEAD + text).translate(TO_SAFE)
                )
            python.event("backend_compile_and_load", at + 40, 280)
        modules.event(f"jit_update({7 if number < 3 else 8})", at + 350, 600)
    return trace


def test_a_compile_has_the_explanation_of_its_own_function(analyze):
    other = (ONE + SHAPE).replace("for update", "for draw")
    (row,) = analyze(retraced(ONE + WEAK, other)).compiles
    assert row.cause.kind == "again"
    assert "lr was a Python number" in row.cause.detail
    assert (row.cause.source_file, row.cause.source_line) == ("/home/u/train.py", 6)


def test_without_an_explanation_the_programs_are_compared(analyze):
    (row,) = analyze(retraced((ONE + SHAPE).replace("for update", "for draw"))).compiles
    assert "JAX" not in row.cause.detail


@pytest.mark.parametrize(
    ("other", "said"), [("139764601676289", "a new function object"), ("139764601676288", "JAX did not know")]
)
def test_only_another_object_is_surely_a_new_function(analyze, other, said):
    """JAX writes the same of a function whose caches were cleared; its identity is the same then."""
    first = NEW.replace("<lambda>", "update").replace("139764601676288", other)
    (row,) = analyze(retraced(first, AGAIN.replace("<lambda>", "update"))).compiles
    assert row.cause.detail.startswith(said)
