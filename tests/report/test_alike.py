"""What a pattern finds in a text, its pattern for forms finds in the text's form."""

import re
from re import _constants, _parser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.report.test_signs import texts_with
from tpuprof.share import learned, redact, replacing, repositories, sensitive, token_forms
from tpuprof.share.alike import for_forms, form_of
from tpuprof.share.redact import Redactor

PATTERNS = sorted(
    {
        each
        for module in (learned, redact, replacing, repositories, sensitive, token_forms)
        for each in vars(module).values()
        if isinstance(each, re.Pattern)
    },
    key=lambda each: each.pattern,
)
each_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda each: each.pattern[:30])


def test_form():
    assert form_of("%fusion.120 = bf16[8,1344]") == "%fusion.000 = bf00[0,0000]"
    assert (
        for_forms(re.compile(r"a1{2,3}[0-9]\x1f\d(?=s3)", re.IGNORECASE)).pattern
        == r"a0{2,3}[0-9]\x1f\d(?=s0)"
    )
    assert for_forms(re.compile(r"\d{4}")).pattern == r"\d{4}"


@each_pattern
def test_no_digit_is_named_where_something_must_not_stand(pattern):
    """There the form has zeros that the text has not, and would hide what is in the text."""
    assert not list(_digits_that_hide(_parser.parse(pattern.pattern, pattern.flags)))


def test_a_digit_that_hides_is_seen():
    for source in ("a(?!1)", "[^5]", "(?<!x3)a", "[^2-4]", r"(\d)\1", "(?>a1)"):
        assert list(_digits_that_hide(_parser.parse(source))), source


def _digits_that_hide(parsed, hides=False):
    """Digits that are named where something must not stand, and all that cannot be said of forms."""
    for kind, argument in parsed:
        if kind in (_constants.GROUPREF, _constants.ATOMIC_GROUP, _constants.POSSESSIVE_REPEAT):
            yield kind
        elif kind is _constants.IN:
            negated = argument[0][0] is _constants.NEGATE
            yield from _digits_that_hide(argument[negated:], hides != negated)
        elif kind is _constants.NOT_LITERAL:
            yield from _digits_that_hide([(_constants.LITERAL, argument)], not hides)
        elif kind is _constants.RANGE and hides and argument != (ord("0"), ord("9")):
            yield from (at for at in range(argument[0], argument[1] + 1) if chr(at) in "0123456789")
        elif kind is _constants.LITERAL and hides and chr(argument) in "0123456789":
            yield argument
        else:
            for inside in _inside(argument):
                yield from _digits_that_hide(inside, hides or kind is _constants.ASSERT_NOT)


def _inside(argument):
    """The parsed patterns in what an operation holds."""
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, list | tuple):
        for each in argument:
            yield from _inside(each)


@each_pattern
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_found_is_found_in_the_form(pattern, data):
    for text in texts_with(pattern, data):
        assert for_forms(pattern).search(form_of(text)), text


def test_a_learned_name_with_digits_is_found_among_names_of_its_form():
    """Names that differ from it in digits alone stay."""
    redactor = Redactor()
    redactor.learn("node7a3", "host")
    lines = ["on node8a4", "on node7a3", "on node7a3.x", "on node9a9"]
    assert redactor.texts(lines) == ["on node8a4", "on host-1", "on host-1.x", "on node9a9"]
