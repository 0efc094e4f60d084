"""A pattern finds nothing in a text that has none of its signs."""

import re
import string
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.report import planted
from tpuprof.share import replacing
from tpuprof.share.redact import Redactor
from tpuprof.share.signs import SIGNS, in_lower_case, may_match

# What stands before a value where its pattern looks behind itself.
BEFORE = (
    "", " ", "x=", "gs://", "s3://", "https://", "/api/", "hooks.slack.com/", "webhook.office.com/", "wandb.ai/", "/", "w/",
    "storage.googleapis.com/", "/gcs/", "arn:aws:s3:::", "abfs://",
)  # fmt: skip
AFTER = ("", " ", "/x", "@h", ":/x", ".iam.gserviceaccount.com", ":x", ".s3.amazonaws.com/x")


@pytest.mark.parametrize("pattern", SIGNS, ids=lambda pattern: pattern.pattern[:30])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_matches_has_a_sign(pattern, data):
    for text in texts_with(pattern, data):
        if text.isascii():
            assert may_match(SIGNS[pattern], in_lower_case(text)), text


def texts_with(pattern, data):
    """Texts in which the pattern finds something.

    They are made from the pattern without what it asserts around itself, and put where that may hold.
    """
    bare = re.compile(_without_assertions(pattern.pattern), pattern.flags & ~re.UNICODE | re.ASCII)
    value = data.draw(st.from_regex(bare, fullmatch=True))
    texts = (f"{before}{value}{after}" for before in BEFORE for after in AFTER)
    return [text for text in texts if pattern.search(text)]


def _without_assertions(pattern):
    """The pattern without look-arounds, none of which holds a bracket of its own but character sets and groups."""
    found, at = [], 0
    while at < len(pattern):
        if re.match(r"\(\?(?:<?[=!])", pattern[at:]):
            at = _closing(pattern, at) + 1
        elif pattern[at] == "\\":
            found.append(pattern[at : at + 2])
            at += 2
        elif pattern[at] == "[":
            end = _set_end(pattern, at)
            found.append(pattern[at:end])
            at = end
        else:
            found.append(pattern[at])
            at += 1
    return "".join(found).replace("(?:|", "(?:").replace("()", "")


def _closing(pattern, at):
    depth = 0
    while True:
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "[":
            at = _set_end(pattern, at) - 1
        elif pattern[at] == "(":
            depth += 1
        elif pattern[at] == ")":
            depth -= 1
            if not depth:
                return at
        at += 1


def _set_end(pattern, at):
    at += 2 if pattern[at + 1] != "^" else 3
    while pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


@pytest.mark.parametrize("learnt", ["", planted.EVERYTHING])
def test_texts_come_out_as_if_all_were_looked_for(learnt, monkeypatch):
    texts = planted.EVERYTHING.splitlines()
    found = []
    for signs in (SIGNS, {}):
        monkeypatch.setattr(replacing, "SIGNS", signs)
        redactor = Redactor()
        redactor.learn(learnt)
        found.append([redactor.text(text) for text in texts])
    assert found[0] == found[1]
    assert found[0] != texts


def test_letters_of_other_scripts_hide_no_sign():
    """In any letter case a pattern takes the long s for an s, which no lower case is."""
    assert may_match(("secret",), in_lower_case("\u017fecret"))
    assert not may_match(("secret",), in_lower_case("fusion.1 \u4e2d"))
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    for letter in string.ascii_lowercase:
        for form in (letter, f"[{letter}]"):
            taken = re.findall(form, every, re.IGNORECASE)
            assert {in_lower_case(each) for each in taken} == {letter}


def test_a_sign_among_other_scripts_is_seen():
    assert in_lower_case("Stra\u00dfe /HOME/\u4e2d") == "stra\u00dfe /home/\u4e2d"
