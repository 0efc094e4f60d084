"""One table of parts: what is added there is known everywhere."""

import pytest
from rich.console import Console

from tests.report import reports
from tpuprof import parts
from tpuprof.model.host.vocabulary import Activity
from tpuprof.model.step_times import StepTimes
from tpuprof.model.verdict import bound_of
from tpuprof.model.verdict_sentence import sentence
from tpuprof.render.html import render_html
from tpuprof.render.markdown import render_markdown
from tpuprof.render.text import render


@pytest.mark.parametrize("part", parts.PARTS, ids=lambda part: part.name)
def test_each_part_is_complete(part):
    assert part.title
    assert part.meaning
    assert part.word in parts.WORDS
    assert part.hatch in ("", "/", "\\", "x", "|", "-", ".")
    assert all(activity.upper() in Activity.__members__ for activity in part.activities)
    assert parts.part_of(part.name) is part


@pytest.mark.parametrize("word", parts.WORDS.values(), ids=lambda word: word.name)
def test_each_word_is_complete(word):
    named = word.name in (*parts.OWN_ANNOTATIONS, parts.ANNOTATION)
    assert word.part in parts.NAMES or named
    assert word.name == "device" or named or "{of_step}" in word.sentence
    assert word.category == "" or word.stretch
    assert parts.word_of(word.name).title


def test_each_annotation_of_ours_has_a_word_of_its_own():
    assert parts.word_of("gc").title == "Held back by garbage collections"
    assert parts.word_of(parts.ANNOTATION).title == "Held back in an annotation"
    assert set(parts.OWN_ANNOTATIONS) <= set(parts.WORDS)


def test_no_two_parts_look_the_same():
    looks = [parts.style_of(name) for name in (*parts.NAMES, "host:io", "user:x")]
    assert len(set(looks)) == len(looks)


def test_families_share_a_look_and_keep_their_names():
    assert parts.style_of("host:io") == parts.style_of("host:sleep")
    assert parts.title_of("user:augment") == "augment"
    assert parts.title_of("host:juggling") == "Host: juggling"
    assert parts.part_of("host:sleep").word == "host"


@pytest.fixture
def added(monkeypatch):
    """A part of its own with a word of its own, in the table and nowhere else."""
    part = parts.Part(
        "brewing",
        "Coffee",
        "device idle while coffee brews",
        "coffee",
        parts.Replay.WORK,
        "#123456",
        "x",
        "red",
    )
    word = parts.Word("coffee", "Coffee-bound: {of_step} goes into the pot.", "run", "brewing", "brewing")
    monkeypatch.setattr(parts, "_BY_NAME", {**parts._BY_NAME, part.name: part})
    monkeypatch.setitem(parts.WORDS, word.name, word)
    return part


def test_a_part_added_in_one_place_is_seen_everywhere(added):
    load = StepTimes(
        wall=100.0, parts={"compute": 60.0, "brewing": 40.0}, busy=60.0, host_work=40.0, reads_share=0.0
    )
    bound = bound_of(load)
    assert (bound.word, bound.share) == ("coffee", 0.4)
    assert (
        sentence(bound, load, 0.0) == "Coffee-bound: 40 % of each step (40.0 ms of 100 ms) goes into the pot."
    )
    assert parts.word_of_category("run").part == "brewing"

    report = reports.report(parts={"compute": 0.6, "brewing": 0.4})
    console = Console(record=True, width=120, force_terminal=True, color_system="truecolor")
    render(report, console)
    assert "brewing" in console.export_text()
    assert "coffee brews" in render_markdown(report)
    page = render_html(report)
    assert "coffee brews" in page
    assert "#123456" in page


def test_the_dashboard_reads_the_same_table(added):
    figures = pytest.importorskip("tpuprof_dashboard.figures.part_style")
    words = pytest.importorskip("tpuprof_dashboard.words")
    assert figures.style_of("brewing") == ("#123456", "x")
    assert words.part_title("brewing") == "Coffee"
    assert words.part_definition("brewing") == "Device idle while coffee brews."


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("user:overhead", "user:overhead (tpuprof's own work)"),
        ("user:load", "user:load"),
        ("tracing", "tracing"),
    ],
)
def test_annotations_that_tpuprof_makes_are_listed_with_what_they_are(name, listed):
    assert parts.listed_as(name) == listed
